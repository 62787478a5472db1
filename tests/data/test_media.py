"""Folders of pictures and sounds: counts reconcile, bad files are listed, and batches are what was decoded."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from catena.data import media
from catena.data.audio import read_audio, write_wav
from catena.data.images import read_image
from catena.data.media import decode_images, decode_sounds, list_labeled_files, map_in_threads
from catena.data.media_batches import FeatureStore, ImageStore
from catena.data.media_config import ImageConfig
from catena.data.reading import ReadCounter
from catena.errors import DataError

SIZE = ImageConfig(height=6, width=6)


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    paths = []
    for i in range(7):
        path = tmp_path / ("cat" if i < 4 else "dog") / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
        paths.append(path)
    paths[2].write_bytes(b"not a picture")
    paths[5].write_bytes(paths[6].read_bytes()[:60])
    return paths


@pytest.fixture
def sounds(tmp_path: Path) -> list[Path]:
    pytest.importorskip("soundfile")
    rng = np.random.default_rng(1)
    paths = [tmp_path / f"{i}.wav" for i in range(5)]
    for i, path in enumerate(paths):
        write_wav(path, rng.uniform(-0.5, 0.5, 1000 * (i + 1)), 8000)
    paths[1].write_bytes(b"not a sound")
    return paths


def test_list_labeled_files_sorts_labels_and_names(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/1.png", "a/x/3.png", "a/.hidden", ".git/4.png", "a/README.md", "b/Thumbs.db", "5.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = [(f.labels, f.path.relative_to(tmp_path).as_posix()) for f in list_labeled_files(tmp_path)]
    assert found == [(("a",), "a/x/3.png"), (("b",), "b/1.png"), (("b",), "b/2.png")]


def test_list_labeled_files_of_wrong_folders_raise(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"folder must be a folder with one subfolder .*, got .*nothing.*\. Check"):
        list_labeled_files(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"has no subfolders\. Make one for each label"):
        list_labeled_files(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match=r"has no files in its 1 subfolders\. Check"):
        list_labeled_files(tmp_path)


@pytest.mark.parametrize("where", ["memory", "file", "cache"])
@pytest.mark.parametrize("workers", [1, 4])
def test_decode_images_lists_bad_files_and_keeps_the_others(
    pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, workers: int
) -> None:
    if where == "file":
        monkeypatch.setattr(media, "IN_MEMORY", 10)
    counter = ReadCounter()
    cache = tmp_path / "cache" if where == "cache" else None
    found = decode_images(pictures, SIZE, counter, cache=cache, workers=workers)
    assert isinstance(found.pixels, np.memmap) == (where != "memory")
    assert found.files.tolist() == [0, 1, 3, 4, 6]
    for i in found.files.tolist():
        np.testing.assert_array_equal(found.pixels[i], read_image(pictures[i], SIZE))
    counts = counter.counts(used=5)
    assert (counts.read, counts.used, counts.dropped) == (7, 5, {"not decoded": 2})
    assert [d.location.file for d in counter.dropped] == [str(pictures[2]), str(pictures[5])]
    assert "is not a picture" in counter.dropped[0].text


def test_image_cache_is_reused_and_notices_changes(
    pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    first = decode_images(pictures, SIZE, ReadCounter(), cache=cache)

    def fail(*_: object) -> None:
        raise AssertionError("decoded again")

    with monkeypatch.context() as patch:
        patch.setattr(media, "read_image_in_thread", fail)
        counter = ReadCounter()
        again = decode_images(pictures, SIZE, counter, cache=cache)
        assert np.array_equal(again.pixels, first.pixels)
        assert counter.counts(used=5).dropped == {"not decoded": 2}
        with pytest.raises(AssertionError, match="decoded again"):
            decode_images(pictures, ImageConfig(height=5, width=6), ReadCounter(), cache=cache)
        with pytest.raises(AssertionError, match="decoded again"):
            decode_images(pictures[1:], SIZE, ReadCounter(), cache=cache)
    pictures[2].write_bytes(pictures[0].read_bytes())
    assert decode_images(pictures, SIZE, ReadCounter(), cache=cache).files.tolist() == [0, 1, 2, 3, 4, 6]
    assert not [name for name in os.listdir(cache) if name.startswith(".")]


def test_interrupted_cache_is_not_used(pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(media, "read_image_in_thread", interrupt)
        with pytest.raises(KeyboardInterrupt):
            decode_images(pictures, SIZE, ReadCounter(), cache=tmp_path / "cache", workers=1)
    assert list((tmp_path / "cache").iterdir()) == []
    assert len(decode_images(pictures, SIZE, ReadCounter(), cache=tmp_path / "cache").files) == 5


def test_statistics_equal_mean_and_deviation_of_decoded_pictures(pictures: list[Path]) -> None:
    found = decode_images(pictures, SIZE, ReadCounter())
    values = found.pixels[found.files].reshape(-1, 3) / 255
    for block in (1, 3, 1024):
        mean, deviation = found.statistics(block)
        np.testing.assert_allclose(mean, values.mean(0), atol=1e-12)
        np.testing.assert_allclose(deviation, values.std(0), atol=1e-9)


def test_image_store_takes_batches(pictures: list[Path], device: str) -> None:
    found = decode_images(pictures, SIZE, ReadCounter())
    for limit in (0, 10**6):
        store = ImageStore(found, device, limit)
        assert store.is_on_device == (device != "cpu" and limit > 0)
        batch = store.batch(np.array([4, 0, 4]))
        assert batch.device.type == device
        np.testing.assert_array_equal(batch.cpu().numpy(), found.pixels[[6, 0, 6]])
    assert len(store) == 5


@pytest.mark.parametrize("in_memory", [True, False])
def test_decode_sounds_lists_bad_files_and_keeps_the_others(
    sounds: list[Path], monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.setattr(media, "IN_MEMORY", 5000)
    counter = ReadCounter()
    found = decode_sounds(sounds, 8000, counter, max_seconds=0.5)
    assert isinstance(found.flat, np.memmap) == (not in_memory)
    assert found.files.tolist() == [0, 2, 3]
    assert len(found) == 3
    for i in range(3):
        np.testing.assert_array_equal(found[i], read_audio(sounds[found.files[i]]).samples)
    assert counter.counts(used=3).dropped == {"not decoded": 2}
    assert "must be at most 0.5 s, got 0.6 s" in counter.dropped[1].text


def test_feature_store_pads_with_zeros() -> None:
    features = [torch.randn(n, 3) for n in (4, 1, 6)]
    store = FeatureStore(features)
    x, lengths = store.batch(torch.tensor([1, 2, 0]))
    assert lengths.tolist() == [1, 6, 4]
    assert x.shape == (3, 6, 3)
    for row, i in enumerate((1, 2, 0)):
        assert torch.equal(x[row, : len(features[i])], features[i])
        assert (x[row, len(features[i]) :] == 0).all()


def test_map_in_threads_keeps_order_and_bounds_the_queue() -> None:
    started = []

    def slow(i: int) -> int:
        started.append(i)
        return i * i

    results = map_in_threads(slow, iter(range(1000)), workers=2)
    assert next(results) == 0
    assert len(started) <= 9
    assert list(results) == [i * i for i in range(1, 1000)]
