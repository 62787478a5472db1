"""The folder of a run while it is written: metadata, metrics, log and checkpoints.

See :mod:`catena.checkpoint` for the layout.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catena import checkpoint as files
from catena.checkpoint import Checkpoint, write_checkpoint
from catena.errors import CheckpointError
from catena.files import UNFINISHED, as_json, file_sha256, local_copy, name_in_errors, write_text_atomically
from catena.training.device import count_threads
from catena.version import __version__

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class RunFolder:
    """A run folder for training, made by :func:`create_run` or :func:`open_run`.

    Args:
        path: the folder.
        is_new: whether this process created it, so that nothing in it is older.
    """

    path: Path
    is_new: bool = False

    @property
    def meta(self) -> dict[str, Any]:
        """The metadata of the run: versions, command, seed, threads, hashes of its data."""
        return files.read_meta(self.path)

    # --- metrics.jsonl and log.txt --------------------------------------------------------------------------

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a line to metrics.jsonl. Values that are not finite are written as null."""
        line = json.dumps(_finite(dict(row)), allow_nan=False, ensure_ascii=False)
        path = self.path / files.METRICS
        with name_in_errors(path), path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """The complete lines of metrics.jsonl, without an unfinished last line."""
        path = self.path / files.METRICS
        files.check_regular(path)
        lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
        rows = [_metrics_row(line) for line in lines[:-1]]  # a line that was not finished has no line end
        if None in rows:
            raise CheckpointError(
                f"{path}:{rows.index(None) + 1} is damaged: it is not a JSON object with a step and scores. Remove the "
                f"line, or train again."
            )
        return [row for row in rows if row is not None]

    def cut_metrics(self, step: int) -> None:
        """Remove the metrics after a step, which a resumed run will compute again."""
        path = self.path / files.METRICS
        if not path.exists() or not path.stat().st_size:
            return
        kept = [row for row in self.metrics() if row["step"] <= step]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
        write_text_atomically(path, text)

    def log(self, line: str) -> None:
        """Append a line to log.txt."""
        path = self.path / files.LOG
        with name_in_errors(path), path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")

    # --- checkpoints ----------------------------------------------------------------------------------------

    def folder_of(self, step: int) -> Path:
        """The checkpoint folder of a step."""
        return self.path / files.CHECKPOINTS / f"step-{step:06d}"

    def write(
        self,
        step: int,
        weights: Mapping[str, torch.Tensor | np.ndarray],
        save: Callable[[Path], None],
        training: Mapping[str, torch.Tensor | np.ndarray],
        state: Mapping[str, Any],
    ) -> Checkpoint:
        """Write the checkpoint of a step and point `last` to it."""
        written = write_checkpoint(self.folder_of(step), weights, save, training=training, state=state)
        files.write_pointer(self.path, files.LAST, written.folder)
        return written

    def point_best(self, step: int) -> None:
        """Point `best` to the checkpoint of a step."""
        files.write_pointer(self.path, files.BEST, self.folder_of(step))

    def point_back(self, step: int, best_step: int) -> None:
        """Point `last` and `best` to their targets at an earlier step."""
        files.write_pointer(self.path, files.LAST, self.folder_of(step))
        if best_step >= 0:
            self.point_best(best_step if self.folder_of(best_step).is_dir() else step)

    def last(self, note: Callable[[str], None]) -> Checkpoint | None:
        """The newest complete checkpoint, or None if none was written yet."""
        if not files.has(self.path, files.LAST) and not files.list_checkpoints(self.path):
            if not self.is_new and (older := self.meta.get("started_from")):
                raise CheckpointError(
                    f"The run {self.path} started from the weights of {older} and stopped before it saved them. Train "
                    f"again with --init-from {older} --overwrite."
                )
            return None
        return files.last_checkpoint(self.path, note)

    def best(self) -> Path | None:
        """The target of `best`, if there is one."""
        return files.read_pointer(self.path, files.BEST) if files.has(self.path, files.BEST) else None

    def prune(self, keep: Collection[int]) -> None:
        """Remove the checkpoints of all other steps, and unfinished ones."""
        for folder in files.list_checkpoints(self.path):
            if files.parse_step(folder) not in keep:
                # Rename first: an interrupted removal must not leave a partial checkpoint under its name.
                aside = folder.with_name(f"{UNFINISHED}{folder.name}")
                shutil.rmtree(aside, ignore_errors=True)
                os.rename(folder, aside)
        for place in (self.path, self.path / files.CHECKPOINTS):
            for left in place.glob(f"{UNFINISHED}*"):
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()

    def check_data(self, data: Mapping[str, Path]) -> None:
        """Raise CheckpointError if the data files changed since the run started."""
        known = self.meta["data"]
        changed = [
            f"{name} ({path})"
            for name, path in data.items()
            if name not in known or known[name]["sha256"] != file_sha256(path)
        ]
        changed += [f"{name} ({entry['path']}) is left out" for name, entry in known.items() if name not in data]
        if changed:
            raise CheckpointError(
                f"The run {self.path} cannot be resumed exactly: its data has changed since it started "
                f"({', '.join(changed)}). Restore the old files, or start a new run with --init-from {self.path}."
            )


def create_run(
    path: Path,
    config: str,
    *,
    seed: int,
    command: Sequence[str] = (),
    data: Mapping[str, Path] | None = None,
    started_from: Path | None = None,
    overwrite: bool = False,
) -> RunFolder:
    """Create the folder of a new run.

    Args:
        path: the folder. It must be absent, empty, or with ``overwrite`` a run.
        config: the complete config as TOML.
        seed: the seed of the run.
        command: the command line that started the run.
        data: the data files by name. Their sha256 are stored.
        started_from: the older run or checkpoint that provides the initial weights.
        overwrite: replace an older run.
    """
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"Cannot write the run to {path}: it is a file. Choose another --output.")
    if path.is_dir() and not _is_unused(path):
        make_room(path, overwrite)
    (path / files.CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    hashes = {
        name: {"path": str(file), "size": local_copy(file).stat().st_size, "sha256": file_sha256(file)}
        for name, file in (data or {}).items()
    }
    meta = {**_machine(), "seed": seed, "command": list(command), "data": hashes}
    if started_from is not None:
        meta["started_from"] = str(started_from)
    write_text_atomically(path / files.CONFIG, config)
    write_text_atomically(path / files.METRICS, "")
    write_text_atomically(path / files.META, as_json(meta))
    return RunFolder(path, is_new=True)


def open_run(path: Path) -> RunFolder:
    """Open the folder of an existing run."""
    files.read_meta(path)
    return RunFolder(path)


def _is_unused(path: Path) -> bool:
    """Whether a folder has at most the lock and what is left of a run that could not be written."""
    others = [item for item in path.iterdir() if item.name != files.LOCK]
    return all(item.name == files.CHECKPOINTS and item.is_dir() and not any(item.iterdir()) for item in others)


def make_room(path: Path, overwrite: bool) -> None:
    """Remove the run in a folder. Raise CheckpointError if it must not be replaced, or is something else."""
    is_run = (path / files.META).is_file() and (path / files.CHECKPOINTS).is_dir()
    if not is_run:
        raise CheckpointError(
            f"Cannot write the run to {path}: the folder is not empty and does not contain a run. It was not changed. "
            f"Choose another --output."
        )
    if not overwrite:
        raise CheckpointError(
            f"Cannot write the run to {path}: it contains a run. Continue it with 'catena resume {path}', replace it "
            f"with --overwrite, or choose another --output."
        )
    (path / files.META).unlink()  # first, so that a partial removal is not taken for a run
    for item in (item for item in path.iterdir() if item.name != files.LOCK):
        shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def _machine() -> dict[str, Any]:
    return {
        "format_version": files.FORMAT_VERSION,
        "catena": __version__,
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "threads": count_threads(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _metrics_row(line: bytes) -> dict[str, Any] | None:
    """The values in a line of metrics.jsonl, or None if it is damaged."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        return None
    scores = row.get("scores", {})
    if not isinstance(scores, dict) or not all(type(score) in (int, float, type(None)) for score in scores.values()):
        return None
    return row


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
