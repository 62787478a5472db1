"""Files of picture features: every layout gives the same arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from catena.data.picture_features import FeatureFile, open_features
from catena.errors import DataError, FormatError

NAMES = ["a.jpg", "b.jpg", "c.jpg"]
GRIDS = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)


def write(folder: Path, layout: str) -> Path:
    from safetensors.numpy import save_file

    named = dict(zip(NAMES, GRIDS, strict=True))
    eight_bits = np.round(GRIDS * 50).astype(np.int8)
    match layout:
        case "folder":
            (folder / "grids").mkdir()
            for name, grid in named.items():
                np.save(folder / "grids" / f"{Path(name).stem}.npy", grid.reshape(2, 2, 5))
            return folder / "grids"
        case "npz":
            np.savez(folder / "a.npz", **named)
            return folder / "a.npz"
        case "npz_together":
            np.savez(folder / "b.npz", features=eight_bits, names=NAMES, scale=0.02)
            return folder / "b.npz"
        case "safetensors":
            save_file(named, folder / "a.safetensors")
            return folder / "a.safetensors"
    tensors = {"features": eight_bits, "scale": np.array([0.02], np.float32)}
    save_file(tensors, folder / "b.safetensors", metadata={"names": json.dumps(NAMES)})
    return folder / "b.safetensors"


@pytest.mark.parametrize("layout", ["folder", "npz", "npz_together", "safetensors", "safetensors_together"])
def test_every_layout_gives_the_same_features(tmp_path: Path, layout: str) -> None:
    file = open_features(write(tmp_path, layout))
    for name, grid in zip(NAMES, GRIDS, strict=True):
        found = file.get(Path("elsewhere") / name)
        assert found.shape == (4, 5)
        assert np.allclose(found, grid, atol=0.011 if layout.endswith("together") else 0)
    assert Path("b.png") in file, "the ending of a name may differ"
    assert Path("d.jpg") not in file
    with pytest.raises(DataError, match=r"has no features of d\.jpg"):
        file.get(Path("d.jpg"))


def test_arrays_without_vectors_raise() -> None:
    file = FeatureFile(Path("x.npz"), lambda name: np.zeros(3), ["a.jpg"])
    with pytest.raises(DataError, match=r"must have the shape \(positions, d\)"):
        file.get(Path("a.jpg"))


def test_wrong_files_raise(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"no zip")
    (tmp_path / "x.safetensors").write_bytes(b"no tensors")
    (tmp_path / "x.txt").write_text("words")
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "few.npz", features=GRIDS, names=NAMES[:2])
    for name, words in (
        ("x.npz", "cannot be read as features"),
        ("x.safetensors", "cannot be read as features"),
        ("x.txt", "features must be a folder of .npy"),
        ("empty", "has no features"),
        ("missing.npz", "File not found"),
        ("few.npz", "must have one name for each of 3 pictures, got 2"),
    ):
        with pytest.raises(FormatError, match=words):
            open_features(tmp_path / name)
