"""The checkpoints of a run: which are there, which is `best` and which `last`, and the one that a path means."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from catena.checkpoint.files import sync, temporary, write_text_atomically
from catena.checkpoint.folder import MANIFEST, WEIGHTS, Checkpoint, check_version, read_checkpoint
from catena.errors import CheckpointError
from catena.registry import nearest

META, METRICS, LOG = "meta.json", "metrics.jsonl", "log.txt"
CHECKPOINTS, BEST, LAST = "checkpoints", "best", "last"
RUNS = Path("runs")
"""Where runs are put that are given no folder."""


def open_checkpoint(path: Path, note: Callable[[str], None] = lambda words: None) -> Checkpoint:
    """The checkpoint that a path means: of a run its `best`, else its `last`; or these; or itself.

    A damaged `last` falls back to the newest whole checkpoint of its run, and ``note`` is told so.
    """
    if is_run(path):
        read_meta(path)
        return read_checkpoint(read_pointer(path, BEST)) if has(path, BEST) else last_checkpoint(path, note)
    if path.name == LAST and is_run(path.parent):
        return last_checkpoint(path.parent, note)
    if path.name == BEST and is_run(path.parent) and has(path.parent, BEST):
        return read_checkpoint(read_pointer(path.parent, BEST))
    if path.is_dir() and ((path / MANIFEST).exists() or (path / WEIGHTS).exists()):
        return read_checkpoint(path)
    if path.exists():
        raise CheckpointError(
            f"{path} is neither a run (it has no {META} and {CHECKPOINTS}) nor a checkpoint (it has no "
            f"{MANIFEST}): name the folder that 'catena train' wrote"
        )
    raise CheckpointError(f"there is no run or checkpoint {path}{_near(path)}")


def last_checkpoint(run: Path, note: Callable[[str], None] = lambda words: None) -> Checkpoint:
    """The newest whole checkpoint of a run: the one that `last` points to, unless it is damaged."""
    problem = f"{run} has no checkpoint yet"
    if has(run, LAST):
        try:
            return read_checkpoint(read_pointer(run, LAST))
        except CheckpointError as error:
            problem = str(error)
    for folder in reversed(list_checkpoints(run)):
        try:
            found = read_checkpoint(folder)
        except CheckpointError as error:
            problem = str(error)
            continue
        note(f"{problem}. Falling back to the newest whole one, {folder}")
        return found
    raise CheckpointError(f"no checkpoint of the run can be used: {problem}")


def list_checkpoints(run: Path) -> list[Path]:
    """The checkpoint folders of a run, whole or not, by step."""
    return sorted((path for path in (run / CHECKPOINTS).glob("step-*") if path.is_dir()), key=parse_step)


def parse_step(folder: Path) -> int:
    """The step in the name of a checkpoint folder."""
    number = folder.name.removeprefix("step-")
    return int(number) if number.isdigit() else -1


def is_run(path: Path) -> bool:
    """Whether a folder is that of a run."""
    return (path / META).is_file() and (path / CHECKPOINTS).is_dir()


def read_meta(run: Path) -> dict[str, Any]:
    """What is known of a run: versions, command, seed, threads, hashes of its data."""
    path = run / META
    if not run.exists():
        raise CheckpointError(f"there is no run {run}{_near(run)}")
    if not path.exists():
        raise CheckpointError(f"{run} is not a run: it has no {META}. Name the folder that 'catena train' wrote")
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        version = meta["format_version"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{path} is damaged: it is no longer the JSON that was written") from None
    check_version(version, path)
    return meta


def has(run: Path, name: str) -> bool:
    """Whether a run has a `best` or a `last`, even one that points nowhere."""
    return (run / name).is_symlink() or (run / name).exists()


def read_pointer(run: Path, name: str) -> Path:
    """Where `best` or `last` points: a link, or a small file where links cannot be made, or a folder."""
    pointer = run / name
    if pointer.is_file():
        target = run / pointer.read_text(encoding="utf-8").strip()
    else:
        target = run / os.readlink(pointer) if pointer.is_symlink() else pointer
    if not target.is_dir():
        raise CheckpointError(f"{pointer} points to {target}, which is missing. Choose another checkpoint of the run")
    return target


def write_pointer(run: Path, name: str, target: Path) -> None:
    """Let `best` or `last` point to a checkpoint, by a relative path, so that the run can be moved."""
    relative = target.relative_to(run).as_posix()
    pointer, fresh = run / name, temporary(run)
    if pointer.is_dir() and not pointer.is_symlink():
        shutil.rmtree(pointer)  # the run was copied by something that followed the link
    try:
        fresh.symlink_to(relative, target_is_directory=True)
    except (OSError, NotImplementedError):
        write_text_atomically(pointer, relative + "\n")
        return
    os.replace(fresh, pointer)
    sync(run)


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f": there is no folder {path.parent} either"
    if (RUNS / path).is_dir():
        return f": did you mean {RUNS / path}?"
    close = nearest(path.name, sorted(p.name for p in path.parent.iterdir() if p.is_dir()))
    if close:
        return f": did you mean {' or '.join(str(path.parent / name) for name in close)}?"
    return f" in {path.parent.resolve()}: name the folder that 'catena train' wrote"
