"""Import of optional packages on first use, with the install command in the error."""

from __future__ import annotations

import importlib
from types import ModuleType

from catena.errors import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or raise MissingExtraError with the install command.

    Args:
        module: the module to import.
        extra: the extra of ``catena`` that installs it.
        purpose: what needs it, as the subject of the error message.

    >>> require("pyarrow", "parquet", "reading Parquet files").__name__
    'pyarrow'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        missing = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if missing not in ("", package):
            reason = f"{module}, which needs {missing}, which is not installed"
        elif missing:
            reason = f"the package {package}, which is not installed"
        else:
            reason = f"the package {package}, which is installed but cannot be imported ({error})"
        raise MissingExtraError(f"{purpose} needs {reason}. Install it: pip install 'catena[{extra}]'") from error
