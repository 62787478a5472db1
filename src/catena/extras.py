"""Optional packages: imported when they are needed, and a missing one is answered with the exact install line."""

from __future__ import annotations

import importlib
from types import ModuleType

from catena.errors import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say what to install: ``require("pyarrow", "parquet", "reading Parquet files")``."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == package:
            reason = f"{package} is not installed"
        else:
            reason = f"{package} is installed but cannot be imported ({error})"
        raise MissingExtraError(f"{purpose} needs the package {package}, and {reason}: pip install 'catena[{extra}]'") from error
