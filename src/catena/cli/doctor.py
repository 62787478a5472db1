"""``catena doctor``, which reports versions, devices and optional packages, and tests each device."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence

from catena.cli.common import parse_plain
from catena.cli.parser import CommandOptions
from catena.extras import EXTRAS, install_command
from catena.version import __version__

NEEDED = (
    "torch",
    "numpy",
    "numba",
    "jaxtyping",
    "safetensors",
    "tokenizers",
    "regex",
    "pydantic",
    "rich",
)


class DoctorCommand(CommandOptions):
    """Check this installation: versions, devices, optional packages."""

    usage = "catena doctor"


def run(argv: Sequence[str]) -> int:
    """Print what is installed and whether it works. Return 1 if a required package is missing."""
    parse_plain(DoctorCommand, argv)
    lines = [f"catena {__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}"]
    missing = [name for name in NEEDED if _version(name) is None]
    lines += [f"  {name:<12} {_version(name) or 'MISSING'}" for name in NEEDED]
    for extra, packages in EXTRAS.items():
        found = ", ".join(f"{name} {_version(name)}" for name in packages if _version(name))
        absent = [name for name in packages if not _version(name)]
        lines.append(f"  {extra + ' (extra)':<20} {found or '-'}" + (f"   {install_command(extra)}" if absent else ""))
    if not missing:
        lines += _devices()
    lines.append("all good" if not missing else f"missing: {', '.join(missing)}   pip install {' '.join(missing)}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if missing else 0


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _devices() -> list[str]:
    import torch

    lines = [
        f"  cpu                  {os.cpu_count()} cores, torch uses {torch.get_num_threads()} threads, {_works('cpu')}"
    ]
    for i in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(i)
        gib = properties.total_memory / 2**30
        lines.append(f"  cuda:{i:<15} {properties.name}, {gib:.0f} GiB, {_works(f'cuda:{i}')}")
    if torch.backends.mps.is_available():
        lines.append(f"  mps                  {_works('mps')}")
    return lines


def _works(device: str) -> str:
    import torch

    try:
        product = torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)
        return "works" if product.sum().item() == 512 else "gives WRONG products"
    except RuntimeError as error:
        return f"FAILS: {error}"
