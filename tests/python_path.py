"""The value of PYTHONPATH for processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path


def python_path(*folders: Path) -> str:
    """``folders``, then the entries of this process's own PYTHONPATH, which may hold packages that Python needs."""
    return os.pathsep.join([*map(str, folders), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
