"""The lock of a run folder: one process at a time trains in it.

    with lock_run(folder):
        ...  # create or resume the run

The operating system releases the lock when the process ends, however it ends, so that a lock is never left behind.
Tested in tests/test_checkpoint.py.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from catena.errors import CheckpointError

LOCK = ".lock"
"""The file in a run folder that is locked while a process writes. It holds the host and the process id."""


@contextlib.contextmanager
def lock_run(run: Path) -> Iterator[None]:
    """Context in which no other process writes to a run. Raise CheckpointError if another one does.

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
