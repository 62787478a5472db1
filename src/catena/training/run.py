"""The folder of one run while it is being written: what it is, what it scored, what it said, its checkpoints.

See :mod:`catena.checkpoint` for the layout. Knows nothing of a loop.
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
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena import checkpoint as files
from catena.checkpoint import Checkpoint, write_checkpoint
from catena.errors import CheckpointError
from catena.version import __version__


@dataclass(frozen=True)
class RunFolder:
    """A run folder that is trained into. Made by :func:`create_run` or :func:`open_run`."""

    path: Path

    @property
    def meta(self) -> dict[str, Any]:
        """What is known of the run: versions, command, seed, threads, hashes of its data."""
        return files.read_meta(self.path)

    # --- metrics.jsonl and log.txt --------------------------------------------------------------------------

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl. What is not finite is written as null, which JSON can say."""
        line = json.dumps(_finite(dict(row)), allow_nan=False, ensure_ascii=False)
        with (self.path / files.METRICS).open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """The whole lines of metrics.jsonl; a last one that was cut off in the writing is left out."""
        path = self.path / files.METRICS
        rows = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
        return rows

    def cut_metrics(self, step: int) -> None:
        """Forget what was measured after a step, which a resumed run will measure again."""
        kept = [row for row in self.metrics() if row["step"] <= step]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
        files.write_text_atomically(self.path / files.METRICS, text)

    def log(self, line: str) -> None:
        """Add a line to log.txt."""
        with (self.path / files.LOG).open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")

    # --- checkpoints ----------------------------------------------------------------------------------------

    def folder_of(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.path / files.CHECKPOINTS / f"step-{step:06d}"

    def write(
        self,
        step: int,
        weights: Mapping[str, torch.Tensor],
        save: Callable[[Path], None],
        training: Mapping[str, torch.Tensor],
        state: Mapping[str, Any],
    ) -> Checkpoint:
        """Write the checkpoint of a step and let `last` point to it."""
        written = write_checkpoint(self.folder_of(step), weights, save, training=training, state=state)
        files.write_pointer(self.path, files.LAST, written.folder)
        return written

    def point_best(self, step: int) -> None:
        """Let `best` point to the checkpoint of a step."""
        files.write_pointer(self.path, files.BEST, self.folder_of(step))

    def point_back(self, step: int, best_step: int) -> None:
        """Let `last` and `best` point where they did at a step; what came later will be found again."""
        files.write_pointer(self.path, files.LAST, self.folder_of(step))
        if best_step >= 0:
            self.point_best(best_step if self.folder_of(best_step).is_dir() else step)

    def last(self, note: Callable[[str], None]) -> Checkpoint | None:
        """The newest whole checkpoint, or None when none was written yet."""
        if not files.has(self.path, files.LAST) and not files.list_checkpoints(self.path):
            if older := self.meta.get("started_from"):
                raise CheckpointError(
                    f"the run {self.path} began with the weights of {older} and was stopped before it kept them: "
                    f"train again with --from {older} --overwrite"
                )
            return None
        return files.last_checkpoint(self.path, note)

    def best(self) -> Path | None:
        """The checkpoint that `best` points to, if there is one."""
        return files.read_pointer(self.path, files.BEST) if files.has(self.path, files.BEST) else None

    def prune(self, keep: Collection[int]) -> None:
        """Remove the checkpoints of all other steps, and what an interrupted writing left behind."""
        for folder in files.list_checkpoints(self.path):
            if files.parse_step(folder) not in keep:
                # Renamed first: a removal that is interrupted must leave no half checkpoint under its name.
                aside = folder.with_name(f"{files.UNFINISHED}{folder.name}")
                shutil.rmtree(aside, ignore_errors=True)
                os.rename(folder, aside)
        for place in (self.path, self.path / files.CHECKPOINTS):
            for left in place.glob(f"{files.UNFINISHED}*"):
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()

    def check_data(self, data: Mapping[str, Path]) -> None:
        """Refuse to resume on files that are not those the run began with."""
        known = self.meta["data"]
        changed = [
            f"{name} ({path})"
            for name, path in data.items()
            if name not in known or known[name]["sha256"] != files.file_sha256(path)
        ]
        changed += [f"{name} ({entry['path']}) is left out" for name, entry in known.items() if name not in data]
        if changed:
            raise CheckpointError(
                f"the run {self.path} cannot be resumed exactly: its data has changed since it began "
                f"({', '.join(changed)}). Put the old files back, or start a new run with --from {self.path}"
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
    """Make the folder of a new run.

    Args:
        path: where; it must not exist, or be empty, or be a run that ``overwrite`` allows to replace.
        config: the filled config as TOML.
        seed: the seed of the run.
        command: the command line that started it.
        data: the files it learns from, by name; their sha256 are kept.
        started_from: the older run or checkpoint whose weights it begins with.
        overwrite: replace an older run.
    """
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"the run cannot be written to {path}: it is a file. Choose another --output")
    if path.is_dir() and any(path.iterdir()):
        _make_room(path, overwrite)
    (path / files.CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    hashes = {
        name: {"path": str(file), "size": file.stat().st_size, "sha256": files.file_sha256(file)}
        for name, file in (data or {}).items()
    }
    meta = {**_machine(), "seed": seed, "command": list(command), "data": hashes}
    if started_from is not None:
        meta["started_from"] = str(started_from)
    files.write_text_atomically(path / files.CONFIG, config)
    files.write_text_atomically(path / files.METRICS, "")
    files.write_text_atomically(path / files.META, files.as_json(meta))
    return RunFolder(path)


def open_run(path: Path) -> RunFolder:
    """Open the folder of a run that exists."""
    files.read_meta(path)
    return RunFolder(path)


def _make_room(path: Path, overwrite: bool) -> None:
    is_run = (path / files.META).is_file() and (path / files.CHECKPOINTS).is_dir()
    if not is_run:
        raise CheckpointError(
            f"the run cannot be written to {path}: the folder is not empty and does not hold a run, so "
            f"nothing in it is touched. Choose another --output"
        )
    if not overwrite:
        raise CheckpointError(
            f"the run cannot be written to {path}: there is a run already. 'catena resume {path}' continues "
            f"it, --overwrite replaces it, or choose another --output"
        )
    (path / files.META).unlink()  # first, so that half a removal is not taken for a run
    for item in path.iterdir():
        shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def _machine() -> dict[str, Any]:
    return {
        "format_version": files.FORMAT_VERSION,
        "catena": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
