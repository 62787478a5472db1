"""One checkpoint folder, which is written atomically and checked file by file when it is read.

Tested in tests/test_checkpoint.py.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.checkpoint.values import find_misfit, read_json
from catena.errors import CatenaError, CheckpointError
from catena.files import as_json, digest, file_sha256, flush_to_disk, temporary_name
from catena.version import __version__

if TYPE_CHECKING:
    import torch

FORMAT_VERSION = 2
"""The current version of the layout and of the keys of configs. Runs of other versions are not loaded."""

CONFIG, MANIFEST = "config.toml", "manifest.json"
WEIGHTS, TRAINING, STATE = "model.safetensors", "training.safetensors", "state.json"
_SETTLED = 2 * 10**9
"""Nanoseconds after which a further change of a file certainly changes its time."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint folder whose files are complete and undamaged."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for models with the same parameter names, shapes and types."""
        return str(self.manifest["model"]["fingerprint"])

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights by parameter name, on the CPU. Those of count-based models may be -inf, the log of 0."""
        return _copied(self._checked(_read_tensors(self.folder / WEIGHTS)))

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights by name as arrays, read without torch."""
        from safetensors.numpy import load_file

        return self._checked(_read_tensors(self.folder / WEIGHTS, load_file))

    def _checked(self, tensors: dict[str, Any], least: float = -math.inf) -> dict[str, Any]:
        for name, tensor in tensors.items():
            _check_finite(self.folder / WEIGHTS, name, tensor, least)
        for name, same_as in self.manifest["model"]["shared"].items():
            if same_as in tensors:
                tensors[name] = tensors[same_as]
        if _shapes(tensors) != self.manifest["model"]["tensors"]:
            raise _damaged(self.folder / WEIGHTS, "its tensors differ from the manifest")
        return tensors

    def training(self) -> dict[str, torch.Tensor]:
        """The tensors needed to resume."""
        self._check_resumable()
        return _copied(_read_tensors(self.folder / TRAINING))

    def training_arrays(self) -> dict[str, np.ndarray]:
        """The arrays needed to resume, read without torch."""
        from safetensors.numpy import load_file

        self._check_resumable()
        return _read_tensors(self.folder / TRAINING, load_file)

    def _check_resumable(self) -> None:
        if TRAINING not in self.manifest["files"]:
            raise CheckpointError(
                f"{self.folder} has no training state and cannot be resumed. Start a new run from its weights with "
                f"--init-from {self.folder}."
            )

    def state(self) -> dict[str, Any]:
        """The values needed to resume."""
        return read_json(self.folder / STATE)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Context that reads the content of the files. Content that does not fit raises CheckpointError."""
        try:
            yield
        except CatenaError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise CheckpointError(
                f"The checkpoint {self.folder} cannot be loaded: its content does not fit ({words}). Choose another "
                f"checkpoint of the run, or train again."
            ) from error

    def load_into(self, model: torch.nn.Module) -> None:
        """Load the weights into a model. Raise CheckpointError that lists the differences if shapes differ."""
        differences = self.differences(model)
        if differences:
            more = f" (and {len(differences) - 3} more)" if len(differences) > 3 else ""
            raise CheckpointError(
                f"The checkpoint {self.folder} belongs to another model: {'; '.join(differences[:3])}{more}. "
                f"Build the model from the {CONFIG} in that folder, or choose another checkpoint."
            )
        weights = self._checked(_read_tensors(self.folder / WEIGHTS), least=-sys.float_info.max)
        model.load_state_dict(weights)

    def differences(self, model: torch.nn.Module) -> list[str]:
        """The differences between the shapes of a model and of the checkpoint, in words."""
        theirs, ours = self.manifest["model"]["tensors"], _shapes(model.state_dict())
        found = [f"{name} is in the model only" for name in ours if name not in theirs]
        found += [f"{name} is in the checkpoint only" for name in theirs if name not in ours]
        found += [
            f"{name} is {_words(theirs[name])} in the checkpoint and {_words(ours[name])} in the model"
            for name in ours
            if name in theirs and ours[name] != theirs[name]
        ]
        return found


def write_checkpoint(
    folder: Path,
    weights: Mapping[str, torch.Tensor | np.ndarray],
    save: Callable[[Path], None],
    *,
    training: Mapping[str, torch.Tensor | np.ndarray] | None = None,
    state: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Write a checkpoint folder atomically. An existing one of the same name is replaced.

    Args:
        folder: the folder to write.
        weights: every tensor or array of the model by name. Tied tensors are stored once.
        save: writes all other files into the folder it is given.
        training: the tensors or arrays needed to resume.
        state: the values needed to resume.
    """
    alone, shared = _without_twins(weights)
    shapes = _shapes(weights)
    model = {"tensors": shapes, "shared": shared, "fingerprint": digest(shapes)}

    def fill(unfinished: Path) -> None:
        save(unfinished)
        (unfinished / STATE).write_text(as_json(dict(state or {})), encoding="utf-8")
        _write_tensors(unfinished / WEIGHTS, alone)
        if training is not None:
            apart, twins = _without_twins(training)
            _write_tensors(unfinished / TRAINING, apart | {n: apart[same].clone() for n, same in twins.items()})

    return _write_whole(folder, fill, model)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Open a checkpoint folder and check each of its files."""
    path = folder / MANIFEST
    if not path.is_file():
        raise _not_whole(folder, MANIFEST)
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not {"format_version", "checksum"} <= manifest.keys():
        raise _damaged(path, "it has no format version or checksum")
    checksum = manifest.pop("checksum")
    check_version(manifest["format_version"], path)
    if checksum != digest(manifest):
        raise _damaged(path, "its content does not match its checksum")
    if not _is_complete(manifest):
        raise _damaged(path, "it does not list the files and tensors of the model")
    for name, entry in manifest["files"].items():
        _check_file(folder, name, entry["size"], entry["sha256"])
    return Checkpoint(folder, manifest)


def _is_complete(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest lists the sizes and hashes of files, and the tensors of a model."""
    files, model = manifest.get("files"), manifest.get("model")
    if not isinstance(files, dict) or not isinstance(model, dict):
        return False
    if find_misfit(model, {"tensors": dict[str, list[str | int]], "shared": dict[str, str]}) or not all(
        shape and isinstance(shape[0], str) for shape in model["tensors"].values()
    ):
        return False
    return not any(find_misfit(entry, {"size": int, "sha256": str}) for entry in files.values())


def check_version(version: Any, path: Path) -> None:
    """Raise CheckpointError for a format version other than the current one."""
    if version == FORMAT_VERSION:
        return
    newer = isinstance(version, int) and version > FORMAT_VERSION
    cure = "Upgrade Catena: pip install --upgrade catena." if newer else "Train the model again."
    raise CheckpointError(
        f"The format version of {path} must be {FORMAT_VERSION} for Catena {__version__}, got {version!r}. {cure}"
    )


def _write_whole(folder: Path, fill: Callable[[Path], None], model: dict[str, Any]) -> Checkpoint:
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = temporary_name(folder.parent)
    try:
        unfinished.mkdir()
        fill(unfinished)
        files = {
            path.relative_to(unfinished).as_posix(): {"sha256": file_sha256(path), "size": path.stat().st_size}
            for path in sorted(unfinished.rglob("*"))
            if path.is_file()
        }
        manifest = {"format_version": FORMAT_VERSION, "files": files, "model": model}
        sealed = {**manifest, "checksum": digest(manifest)}
        (unfinished / MANIFEST).write_text(as_json(sealed), encoding="utf-8")
        for path in [*unfinished.rglob("*"), unfinished]:
            flush_to_disk(path)
        _rename_over(unfinished, folder)
    except OSError as error:
        raise CheckpointError(
            f"Cannot write the checkpoint {folder}: {error.strerror or error}. Free disk space, check the permissions "
            f"and the limit on file sizes (ulimit -f). Checkpoints that were written before are complete."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)  # absent if it was renamed
    flush_to_disk(folder.parent)
    return Checkpoint(folder, manifest)


def _rename_over(source: Path, target: Path) -> None:
    if not target.exists():
        os.rename(source, target)
        return
    aside = temporary_name(target.parent)  # a folder cannot be renamed onto a folder that is not empty
    os.rename(target, aside)
    os.rename(source, target)
    shutil.rmtree(aside)


def _check_file(folder: Path, name: str, size: int, sha256: str) -> None:
    path = folder / name
    if not path.is_file():
        raise _not_whole(folder, name)
    stat = path.stat()
    if stat.st_size != size:
        raise _damaged(path, f"it has {stat.st_size:,} bytes instead of {size:,}")
    is_settled = time.time_ns() - stat.st_mtime_ns > _SETTLED
    version = (stat.st_ino, size, stat.st_mtime_ns)
    if (_sha256_of_version(path.resolve(), version) if is_settled else file_sha256(path)) != sha256:
        raise _damaged(path, "its sha256 differs from the manifest")


@lru_cache(maxsize=256)
def _sha256_of_version(path: Path, version: tuple[int, ...]) -> str:
    """The sha256 of a file, computed once while its inode, size and time stay the same: commands open a run twice."""
    return file_sha256(path)


def _not_whole(folder: Path, name: str) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint {folder} is incomplete: {name} is missing. Choose another checkpoint of the run."
    )


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{path} is damaged: {why}. Choose another checkpoint of the run.")


def _shapes(tensors: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: [str(t.dtype).removeprefix("torch."), *t.shape] for name, t in tensors.items()}


def _words(shape: list[Any]) -> str:
    return f"{shape[0]} of shape ({', '.join(map(str, shape[1:]))})"


def _without_twins(tensors: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The distinct tensors, and for tied tensors the other names mapped to the first. Arrays are never tied."""
    first: dict[tuple[Any, ...], str] = {}
    alone: dict[str, Any] = {}
    shared: dict[str, str] = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, np.ndarray):
            alone[name] = np.asarray(tensor, order="C")
            continue
        place = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() and place in first:
            shared[name] = first[place]
            continue
        first[place] = name
        copy = tensor.detach().cpu().contiguous()
        if copy.untyped_storage().nbytes() != copy.numel() * copy.element_size():
            copy = copy.clone()  # a view of a larger tensor: safetensors rejects overlapping memory
        alone[name] = copy
    return alone, shared


def _write_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write tensors, or arrays without importing torch."""
    from safetensors import SafetensorError

    is_numpy = any(isinstance(tensor, np.ndarray) for tensor in tensors.values())
    module = importlib.import_module(f"safetensors.{'numpy' if is_numpy else 'torch'}")
    try:
        module.save_file(dict(tensors), path)
    except SafetensorError as error:  # the only sign of a full disk: "(os error 28)", in older versions "Os { code: 28"
        code = re.search(r"(?:os error|Os { code:) (\d+)", str(error))
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) if code else error from error
    shutil.copymode(path.parent / STATE, path)  # safetensors makes the file readable by its owner only


def _check_finite(path: Path, name: str, tensor: Any, least: float) -> None:
    """Raise CheckpointError if a tensor or an array has nan, infinity or a value below ``least``."""
    if "float" not in str(tensor.dtype) or 0 in tensor.shape:
        return
    low, high = tensor.min().item(), tensor.max().item()  # nan if there is one
    if not (low >= least and high < math.inf):
        wrong = low if math.isnan(low) or not low >= least else high
        raise CheckpointError(
            f"{path} must hold finite weights, got {wrong} in {name}: training has diverged. Train again with a "
            f"lower --learning-rate, or choose another checkpoint of the run."
        )


def _read_tensors(path: Path, load_file: Callable[[Path], dict[str, Any]] | None = None) -> dict[str, Any]:
    """The tensors of a file, memory-mapped, or what another function loads."""
    from safetensors import SafetensorError

    if load_file is None:
        from safetensors.torch import load_file as load_torch

        load_file = load_torch
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, f"it holds no tensors ({' '.join(str(error).split())[:100]})") from error


def _copied(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies of the tensors in memory, because the file may be replaced. Tied tensors stay tied."""
    copies = {id(tensor): tensor.clone() for tensor in tensors.values()}
    return {name: copies[id(tensor)] for name, tensor in tensors.items()}
