"""Folders of pictures and sounds, decoded once into arrays that batches are taken from.

Files are decoded by several threads (Pillow, libsndfile and soxr release the interpreter), into memory if the result is
small and into a memory-mapped file otherwise, so that memory stays bounded. Pictures may be kept in a cache folder for
the next run. A file that cannot be decoded is counted and listed with its reason. Tested in tests/data/test_media.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Float32, Int64, UInt8

from catena.data.audio import read_audio
from catena.data.corpus import GrowingArray
from catena.data.examples import SourceLocation
from catena.data.images import quiet_pillow, read_image_in_thread
from catena.data.media_config import ImageConfig
from catena.data.reading import NOT_DECODED, ReadCounter
from catena.errors import CatenaError, DataError
from catena.files import atomic_write, write_text_atomically

IN_MEMORY = 512 * 2**20
"""Bytes of decoded data that are kept in memory; more goes to a file."""
_IGNORED_NAMES = ("thumbs.db", "desktop.ini", "readme.md", "license", "source.md")
_CACHE_FORMAT = 1

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class LabeledFile:
    """A picture or sound file and its labels; empty if they are to be predicted."""

    path: Path
    labels: tuple[str, ...]
    location: SourceLocation


def list_labeled_files(folder: Path | str) -> list[LabeledFile]:
    """The files of a folder with one subfolder for each label, in the order of labels and names.

    Files in nested subfolders get the label of the first level. Hidden files, and files directly in ``folder``, are not
    listed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"folder must be a folder with one subfolder for each label, got {str(folder)!r}. Check it.")
    labels = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not labels:
        raise DataError(f"{folder} has no subfolders. Make one for each label, and move the files into them.")
    found = [
        LabeledFile(path, (label,), SourceLocation(str(path), 1))
        for label in labels
        for path in list_files(folder / label)
    ]
    if not found:
        raise DataError(f"{folder} has no files in its {len(labels)} subfolders. Check the path.")
    return found


def list_files(folder: Path) -> list[Path]:
    """The files of a folder and its subfolders, sorted, without hidden files and notes such as README.md."""
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and not _is_ignored(p.relative_to(folder))]


def _is_ignored(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts) or path.name.lower() in _IGNORED_NAMES


# --- pictures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """Decoded pictures: file ``files[i]`` of the list that was decoded has the pixels ``pixels[files[i]]``.

    ``pixels`` has a row for every file; rows of files that could not be decoded are black and not in ``files``.
    """

    pixels: UInt8[np.ndarray, "n height width 3"]
    files: Int64[np.ndarray, " m"]

    def statistics(self, block: int = 1024) -> tuple[Float[np.ndarray, " 3"], Float[np.ndarray, " 3"]]:
        """Mean and deviation of each channel on the scale from 0 to 1; memory does not grow with the pictures."""
        total, squares = np.zeros(3), np.zeros(3)
        for start in range(0, len(self.files), block):
            part = self.pixels[self.files[start : start + block]].reshape(-1, 3).astype(np.float64) / 255
            total += part.sum(axis=0)
            squares += np.square(part).sum(axis=0)
        n = max(1, len(self.files)) * self.pixels.shape[1] * self.pixels.shape[2]
        mean = total / n
        return mean, np.sqrt(np.maximum(0, squares / n - mean**2))


def decode_images(
    paths: Sequence[Path], config: ImageConfig, counter: ReadCounter, *, cache: Path | None = None, workers: int = 0
) -> DecodedImages:
    """Decode picture files.

    Args:
        paths: the files.
        config: their size.
        counter: counts the files, and lists those that cannot be decoded.
        cache: a folder for the decoded pixels; the next call with the same files and config only opens them.
        workers: number of threads; one for each core if 0.
    """
    counter.saw(len(paths))
    shape = (len(paths), config.height, config.width, 3)
    if cache is None:
        pixels = _allocate(shape)
        errors = _fill(pixels, paths, config, workers)
    else:
        pixels, errors = _open_cache(cache, shape, paths, config, workers)
    for i, sentence in errors.items():
        counter.drop(NOT_DECODED, SourceLocation(str(paths[i]), 1), sentence)
    return DecodedImages(pixels, np.array([i for i in range(len(paths)) if i not in errors], np.int64))


def _fill(pixels: np.ndarray, paths: Sequence[Path], config: ImageConfig, workers: int) -> dict[int, str]:
    """Decode into ``pixels``. Returns the errors by the index of the file."""

    def decode(i: int) -> str | None:
        try:
            pixels[i] = read_image_in_thread(paths[i], config)
        except CatenaError as error:
            return str(error)
        return None

    with quiet_pillow():
        found = map_in_threads(decode, range(len(paths)), workers)
        return {i: sentence for i, sentence in enumerate(found) if sentence is not None}


def _open_cache(
    cache: Path, shape: tuple[int, ...], paths: Sequence[Path], config: ImageConfig, workers: int
) -> tuple[np.ndarray, dict[int, str]]:
    name = _cache_name(paths, config)
    stored, listed = cache / f"{name}.npy", cache / f"{name}.json"
    if not listed.is_file():
        with atomic_write(stored) as unfinished:
            pixels: Any = np.lib.format.open_memmap(unfinished, "w+", np.uint8, shape)
            errors = _fill(pixels, paths, config, workers)
            pixels.flush()
        write_text_atomically(listed, json.dumps(errors))  # last: its existence says that the pixels are complete
    errors = {int(i): sentence for i, sentence in json.loads(listed.read_text(encoding="utf-8")).items()}
    return np.load(stored, mmap_mode="r"), errors


def _cache_name(paths: Sequence[Path], config: ImageConfig) -> str:
    """A hash of the files (name, size, time of change) and of what determines their pixels."""
    digest = hashlib.sha256(f"{_CACHE_FORMAT} {config.model_dump_json()}".encode())
    for path in paths:
        state = path.stat() if path.exists() else None
        digest.update(f"\n{path.absolute()} {state and (state.st_size, state.st_mtime_ns)}".encode())
    return f"images-{digest.hexdigest()[:24]}"


# --- sounds -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DecodedSounds:
    """Decoded sounds: sound ``i``, from file ``files[i]``, is ``flat[offsets[i] : offsets[i + 1]]``."""

    flat: Float32[np.ndarray, " n"]
    offsets: Int64[np.ndarray, " _"]
    files: Int64[np.ndarray, " m"]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> Float32[np.ndarray, " _"]:
        return self.flat[self.offsets[i] : self.offsets[i + 1]]


def decode_sounds(
    paths: Sequence[Path],
    sample_rate: int,
    counter: ReadCounter,
    *,
    max_seconds: float | int | None = 60.0,
    workers: int = 0,
) -> DecodedSounds:
    """Decode sound files to one channel.

    Args:
        paths: the files.
        sample_rate: samples in a second.
        counter: counts the files, and lists those that cannot be decoded or are too long.
        max_seconds: longest sound; no limit if None.
        workers: number of threads; one for each core if 0.
    """
    counter.saw(len(paths))

    def decode(path: Path) -> np.ndarray | str:
        try:
            return read_audio(path, sample_rate, max_seconds=max_seconds).samples
        except CatenaError as error:
            return str(error)

    flat = GrowingArray("f", IN_MEMORY)
    offsets, files = [0], []
    for i, found in enumerate(map_in_threads(decode, paths, workers)):
        if isinstance(found, str):
            counter.drop(NOT_DECODED, SourceLocation(str(paths[i]), 1), found)
            continue
        flat.extend(found)
        offsets.append(offsets[-1] + len(found))
        files.append(i)
    return DecodedSounds(flat.finish(), np.array(offsets, np.int64), np.array(files, np.int64))


# --- shared -----------------------------------------------------------------------------------------------------------


def map_in_threads(function: Callable[[In], Out], items: Iterable[In], workers: int = 0) -> Iterator[Out]:
    """``function`` of each item, in order, computed by threads; a few results wait at most."""
    workers = workers or os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Out]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 4 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _allocate(shape: tuple[int, ...]) -> np.ndarray:
    """An array of zero bytes, in memory if it is small and in a temporary file otherwise."""
    n_bytes = int(np.prod(shape))
    if n_bytes <= IN_MEMORY:
        return np.zeros(shape, np.uint8)
    file = tempfile.TemporaryFile(prefix="catena-images-")  # noqa: SIM115 (lives as long as the array)
    return np.memmap(file, np.uint8, mode="w+", shape=shape)
