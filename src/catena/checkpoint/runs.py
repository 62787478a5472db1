"""The checkpoints of a run: `best`, `last`, the checkpoint for a path, and the lock of its folder.

Tested in tests/test_checkpoint.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from catena.checkpoint.folder import CONFIG, MANIFEST, WEIGHTS, Checkpoint, check_version, read_checkpoint
from catena.checkpoint.values import check_regular, read_json
from catena.errors import CheckpointError
from catena.files import flush_to_disk, temporary_name, write_text_atomically
from catena.registry import nearest

META, METRICS, LOG = "meta.json", "metrics.jsonl", "log.txt"
CHECKPOINTS, BEST, LAST = "checkpoints", "best", "last"
_META_TYPES = {"command": list, "data": dict, "seed": int, "started": str, "threads": int}
"""The types of the values of meta.json that are used."""
_MAX_PATH = 200
"""Number of characters of a pointer file that are read as a path."""
RUNS = Path("runs")
"""The folder for runs without --output."""


def open_checkpoint(path: Path, note: Callable[[str], None] = lambda words: None) -> Checkpoint:
    """The checkpoint for a path: of a run its `best` or else its `last`; otherwise the checkpoint itself.

    If `last` is damaged, the newest complete checkpoint of the run is used, and ``note`` is called with a message.
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
            f"{path} is neither a run (no {META} and {CHECKPOINTS}) nor a checkpoint (no {MANIFEST}). Pass the folder "
            f"that 'catena train' wrote."
        )
    raise CheckpointError(f"Run or checkpoint not found: {path}{_near(path)}")


def last_checkpoint(run: Path, note: Callable[[str], None] = lambda words: None) -> Checkpoint:
    """The newest complete checkpoint of a run: the target of `last` unless it is damaged."""
    problem = f"{run} has no checkpoint yet."
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
        note(f"{problem} Falling back to the newest complete checkpoint, {folder}")
        return found
    raise CheckpointError(f"No checkpoint of the run is usable: {problem}")


def list_checkpoints(run: Path) -> list[Path]:
    """The checkpoint folders of a run by step, including incomplete ones."""
    return sorted((path for path in (run / CHECKPOINTS).glob("step-*") if path.is_dir()), key=parse_step)


def parse_step(folder: Path) -> int:
    """The step in the name of a checkpoint folder."""
    number = folder.name.removeprefix("step-")
    return int(number) if number.isdigit() else -1


def is_run(path: Path) -> bool:
    """Whether a folder is a run."""
    return (path / META).is_file() and (path / CHECKPOINTS).is_dir()


def read_meta(run: Path) -> dict[str, Any]:
    """The metadata of a run: versions, command, seed, threads, hashes of its data."""
    path = run / META
    if not run.exists():
        raise CheckpointError(f"Run not found: {run}{_near(run)}")
    if not path.exists():
        raise CheckpointError(f"{run} is not a run: it has no {META}. Pass the folder that 'catena train' wrote.")
    for name in (CONFIG, METRICS, LOG):
        check_regular(run / name)
    meta = read_json(path)
    if not isinstance(meta, dict) or "format_version" not in meta:
        raise CheckpointError(f"{path} is damaged: it has no format version. Train again.")
    check_version(meta["format_version"], path)
    wrong = [key for key, kind in _META_TYPES.items() if type(meta.get(key)) is not kind]
    if not wrong and not all(isinstance(word, str) for word in meta["command"]):
        wrong = ["command"]
    if not wrong and not all(map(_is_data_file, meta["data"].values())):
        wrong = ["data"]
    if wrong:
        raise CheckpointError(f"{path} is damaged: {wrong[0]} is missing or invalid. Train again.")
    return meta


def _is_data_file(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("path"), str) and isinstance(entry.get("sha256"), str)


def has(run: Path, name: str) -> bool:
    """Whether a run has a `best` or a `last`, even if its target is missing."""
    return (run / name).is_symlink() or (run / name).exists()


def read_pointer(run: Path, name: str) -> Path:
    """The target of `best` or `last`: a link, a small file where links are not possible, or a folder."""
    pointer = run / name
    if pointer.is_file():
        with pointer.open(encoding="utf-8", errors="replace") as file:
            target = run / file.read(_MAX_PATH).strip()
    else:
        target = run / os.readlink(pointer) if pointer.is_symlink() else pointer
    if not target.is_dir():
        raise CheckpointError(f"{pointer} points to {target}, which is missing. Choose another checkpoint of the run.")
    if not target.resolve().is_relative_to(run.resolve()):
        raise CheckpointError(f"{pointer} points to {target}, outside the run. Pass that checkpoint itself.")
    return target


def write_pointer(run: Path, name: str, target: Path) -> None:
    """Point `best` or `last` to a checkpoint by a relative path, so that the run can be moved."""
    relative = target.relative_to(run).as_posix()
    pointer, fresh = run / name, temporary_name(run)
    if pointer.is_dir() and not pointer.is_symlink():
        shutil.rmtree(pointer)  # the run was copied by a program that followed the link
    try:
        fresh.symlink_to(relative, target_is_directory=True)
    except (OSError, NotImplementedError):
        write_text_atomically(pointer, relative + "\n")
        return
    os.replace(fresh, pointer)
    flush_to_disk(run)


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f". The folder {path.parent} does not exist either. Check the path."
    if (RUNS / path).is_dir():
        return f". Did you mean {RUNS / path}?"
    close = nearest(path.name, sorted(p.name for p in path.parent.iterdir() if p.is_dir()))
    if close:
        return f". Did you mean {' or '.join(str(path.parent / name) for name in close)}?"
    return f" in {path.parent.resolve()}. Pass the folder that 'catena train' wrote."


# --- one process at a time --------------------------------------------------------------------------------------------


LOCK = ".lock"
"""The file in a run folder that is locked while a process writes. It holds the host and the process id."""


@contextlib.contextmanager
def lock_run(run: Path) -> Iterator[None]:
    """Context in which no other process writes to a run. Raise CheckpointError if another one does.

    The operating system releases the lock when the process ends, however it ends, so that a lock is never left behind.
    The folder is created if needed, and removed at the end if it is still empty.
    """
    if run.exists() and not run.is_dir():
        raise CheckpointError(f"Cannot write the run to {run}: it is a file. Choose another --output.")
    run.mkdir(parents=True, exist_ok=True)
    handle = _acquire(run)
    try:
        yield
    finally:
        (run / LOCK).unlink(missing_ok=True)  # before the release: who opens it later finds no file and makes one
        os.close(handle)
        with contextlib.suppress(OSError):
            run.rmdir()


def _acquire(run: Path) -> int:
    """An open, locked file."""
    while True:
        handle = os.open(run / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        if not _try_lock(handle):
            owner = os.read(handle, 200).decode(errors="replace").split()
            os.close(handle)
            who = f"process {owner[1]} on {owner[0]}" if len(owner) == 2 else "another process"
            raise CheckpointError(
                f"{run} is in use: {who} is training in it. Wait until it ends, stop it, or choose another folder."
            )
        if _is_current(handle, run / LOCK):
            os.truncate(handle, 0)
            os.write(handle, f"{socket.gethostname()} {os.getpid()}\n".encode())
            return handle
        os.close(handle)  # the process that held the lock removed the file in the meantime


def _is_current(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        os.lseek(handle, 1 << 20, os.SEEK_SET)  # the first bytes stay readable
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # the file system has no locks
            return True
        return True
