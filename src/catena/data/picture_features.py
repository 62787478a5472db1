"""Files of picture features that another network computed: a grid of vectors for each picture, by file name.

* a folder with ``NAME.npy`` for each picture;
* ``.npz`` with an array for each picture, or with ``features`` (n, positions, d), ``names`` and optionally ``scale``;
* ``.safetensors`` with a tensor for each picture, or with ``features``, the metadata ``names`` (a JSON list) and
  optionally ``scale``.

An array is (positions, d), or (rows, columns, d). A picture is found by its file name, with or without the ending.
Values of ``features`` are multiplied by ``scale``, so that they may be stored in 8 bits. Arrays are read when they are
needed. Tested in tests/data/test_picture_features.py.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from catena.errors import DataError, FormatError

_ALL, _NAMES, _SCALE = "features", "names", "scale"


class FeatureFile:
    """Features of pictures in a file or folder.

    Args:
        path: where they are stored.
        read: returns the array of a name.
        names: the names of all arrays.
        scale: the factor of all values.
    """

    def __init__(self, path: Path, read: Callable[[str], np.ndarray], names: Iterable[str], scale: float = 1.0) -> None:
        self.path, self._read, self.scale = path, read, scale
        self.names = {name: name for name in names}
        self.names |= {Path(name).stem: name for name in self.names} | self.names
        if not self.names:
            raise FormatError(f"{path} has no features. Store an array for each picture, named like its file.")

    def __contains__(self, picture: Path) -> bool:
        return picture.name in self.names or picture.stem in self.names

    def missing(self, picture: Path) -> str:
        """The sentence about a picture without features."""
        return f"{self.path} has no features of {picture.name}. Compute them, or leave the picture out."

    def largest_shape(self) -> tuple[int, int]:
        """The largest number of positions of a picture, and the size of a vector, which all pictures must have."""
        shapes = {self.get(Path(name)).shape for name in dict.fromkeys(self.names.values())}
        if len({d for _, d in shapes}) > 1:
            sizes = ", ".join(map(str, sorted({d for _, d in shapes})))
            raise DataError(f"The vectors in {self.path} must have one size, got {sizes}. Store one kind of features.")
        return max(n for n, _ in shapes), next(iter(shapes))[1]

    def get(self, picture: Path) -> Shaped[np.ndarray, "positions d"]:
        """The features of a picture, in the type in which they are stored unless they have a scale.

        Raises:
            DataError: if there are none, or if they are not a grid of vectors.
        """
        name = self.names.get(picture.name) or self.names.get(picture.stem)
        if name is None:
            raise DataError(self.missing(picture))
        found = self._read(name)
        if found.ndim not in (2, 3) or not found.size or found.dtype.kind not in "fiu":
            raise DataError(
                f"{name} in {self.path} must have the shape (positions, d) or (rows, columns, d), got "
                f"{found.dtype} {found.shape}. Store a grid of vectors."
            )
        grid = found.reshape(-1, found.shape[-1])
        return grid if self.scale == 1.0 else (grid * np.float32(self.scale)).astype(np.float32)


def open_features(path: Path | str) -> FeatureFile:
    """The features in a folder of ``.npy`` files, an ``.npz`` file or a ``.safetensors`` file.

    Raises:
        FormatError: if it is something else, or damaged.
    """
    path = Path(path)
    if not path.exists():
        raise FormatError(f"File not found: {path}. Check the path.")
    try:
        if path.is_dir():
            return _open_folder(path)
        if path.suffix == ".npz":
            return _open_npz(path)
        if path.suffix == ".safetensors":
            return _open_safetensors(path)
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise FormatError(f"{path} cannot be read as features: {error}. Write it again.") from None
    raise FormatError(f"features must be a folder of .npy, an .npz or a .safetensors file, got {path}. Convert it.")


def _open_folder(path: Path) -> FeatureFile:
    return FeatureFile(path, lambda name: np.load(path / f"{name}.npy"), (file.stem for file in path.glob("*.npy")))


def _open_npz(path: Path) -> FeatureFile:
    arrays = np.load(path)
    if _ALL not in arrays.files:
        return FeatureFile(path, arrays.__getitem__, arrays.files)
    return _open_array(path, arrays[_ALL], arrays[_NAMES].tolist(), arrays[_SCALE] if _SCALE in arrays.files else 1.0)


def _open_safetensors(path: Path) -> FeatureFile:
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, "np")
        metadata: Mapping[str, str] = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(error) from None
    if _NAMES not in metadata:
        return FeatureFile(path, file.get_tensor, file.keys())
    scale = file.get_tensor(_SCALE) if _SCALE in file.keys() else 1.0  # noqa: SIM118 (not a mapping)
    return _open_array(path, file.get_tensor(_ALL), json.loads(metadata[_NAMES]), scale)


def _open_array(path: Path, features: np.ndarray, names: list[str], scale: Any) -> FeatureFile:
    if len(names) != len(features):
        raise FormatError(
            f"names of {path} must have one name for each of {len(features)} pictures, got {len(names)}. Store as many."
        )
    rows = {name: i for i, name in enumerate(names)}
    return FeatureFile(path, lambda name: features[rows[name]], names, float(np.asarray(scale).reshape(-1)[0]))
