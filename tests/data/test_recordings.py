"""Quantized recordings on disk, and windows compared with plain lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catena.data.audio import write_wav
from catena.data.mulaw import encode_mulaw
from catena.data.recordings import (
    Recordings,
    WindowPlan,
    cut_windows,
    evaluation_windows,
    quantize_files,
    read_recordings,
    store_recordings,
    write_recordings,
)
from catena.errors import DataError, FormatError


def some(lengths: list[int], seed: int = 0) -> Recordings:
    generator = np.random.default_rng(seed)
    return Recordings.from_levels([generator.integers(256, size=n, dtype=np.uint8) for n in lengths])


def expected_window(samples: list[int], start: int, field: int, n: int) -> tuple[list[int], list[int], list[bool]]:
    """One window, position by position."""

    def at(t: int) -> int:
        return samples[t] if 0 <= t < len(samples) else 128

    inputs = [at(t - 1) for t in range(start - field + 1, start + n)]
    return inputs, [at(t) for t in range(start, start + n)], [t < len(samples) for t in range(start, start + n)]


def test_written_recordings_are_read_as_a_map(tmp_path: Path) -> None:
    blocks = [np.arange(5, dtype=np.uint8), np.arange(7, 9, dtype=np.uint8)]
    written = write_recordings(tmp_path, [("a", blocks, 3), ("b", [], -1), ("c", blocks[:1], 0)], 8000)
    read = read_recordings(tmp_path)
    for recordings in (written, read):
        assert isinstance(recordings.levels, np.memmap)
        assert [recordings[i].tolist() for i in range(3)] == [[0, 1, 2, 3, 4, 7, 8], [], [0, 1, 2, 3, 4]]
        assert (recordings.names, recordings.speakers.tolist()) == (("a", "b", "c"), [3, -1, 0])
        assert (recordings.lengths.tolist(), recordings.n_samples, recordings.sample_rate) == ([7, 0, 5], 12, 8000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recordings.json", "samples.u8"]


@pytest.mark.parametrize("limit", [100, 3])
def test_stored_recordings_are_in_memory_or_in_a_file(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.data.recordings.IN_MEMORY", limit)
    blocks = [np.arange(5, dtype=np.uint8), np.arange(7, 9, dtype=np.uint8)]
    recordings = store_recordings(iter([("a", blocks, 3), ("b", [], -1), ("c", blocks[:1], 0)]), 8000, 16)
    assert isinstance(recordings.levels, np.memmap) == (limit == 3)
    assert [recordings[i].tolist() for i in range(3)] == [[0, 1, 2, 3, 4, 7, 8], [], [0, 1, 2, 3, 4]]
    assert (recordings.names, recordings.speakers.tolist()) == (("a", "b", "c"), [3, -1, 0])
    assert (recordings.sample_rate, recordings.n_levels) == (8000, 16)


def test_evaluation_windows_are_not_longer_than_their_recordings() -> None:
    recordings = some([30, 3, 9])
    widths = [batch.targets.shape[1] for batch in evaluation_windows(recordings, field=2, n_targets=20, batch_size=2)]
    assert widths == [20, 9]


def test_windows_are_padded_with_the_silence_of_their_levels(tmp_path: Path) -> None:
    recordings = write_recordings(tmp_path, [("a", [np.zeros(3, np.uint8)], 0)], 8000, n_levels=4)
    assert recordings.n_levels == 4
    assert cut_windows(recordings, np.array([0]), np.array([0]), 2, 3).inputs.tolist() == [[2, 2, 0, 0]]


def test_failed_writing_keeps_the_older_result(tmp_path: Path) -> None:
    write_recordings(tmp_path, [("a", [np.ones(4, np.uint8)], 0)], 8000)

    def broken() -> object:
        yield "b", [np.zeros(4, np.uint8)], 0
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        write_recordings(tmp_path, broken(), 8000)
    assert read_recordings(tmp_path)[0].tolist() == [1, 1, 1, 1]
    assert len(list(tmp_path.iterdir())) == 2


def test_damaged_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"File not found: .*recordings.json"):
        read_recordings(tmp_path)
    write_recordings(tmp_path, [("a", [np.ones(4, np.uint8)], 0)], 8000)
    (tmp_path / "samples.u8").write_bytes(b"abc")
    with pytest.raises(FormatError, match=r"samples.u8 must have 4 bytes, got 3"):
        read_recordings(tmp_path)
    for text in ("{", "[]", '{"names": ["a"], "speakers": [], "lengths": [4]}'):
        (tmp_path / "recordings.json").write_text(text, encoding="utf-8")
        with pytest.raises(FormatError, match=r"recordings.json is damaged"):
            read_recordings(tmp_path)


@pytest.mark.parametrize("start", [0, 1, 3, 7, 9])
def test_window_equals_plain_lists(start: int) -> None:
    recordings = some([6, 10])
    for field, n in ((1, 1), (4, 3), (5, 12)):
        batch = cut_windows(recordings, np.array([1]), np.array([start]), field, n)
        inputs, targets, mask = expected_window(recordings[1].tolist(), start, field, n)
        assert batch.inputs[0].tolist() == inputs
        assert batch.mask[0].tolist() == mask
        assert batch.targets[0][mask].tolist() == [t for t, real in zip(targets, mask, strict=True) if real]


def test_plan_depends_only_on_seed_and_epoch() -> None:
    recordings = some([50, 3, 200, 17])
    make = lambda **options: WindowPlan(recordings, field=5, n_targets=8, batch_size=4, **options)  # noqa: E731
    one, same = make(seed=3, epoch=2), make(seed=3, epoch=2)
    assert len(one) == -(-270 // 32)
    for i in reversed(range(len(one))):
        for name in ("inputs", "targets", "mask", "recordings", "starts"):
            assert (getattr(one.batch(i), name) == getattr(same.batch(i), name)).all()
    for other in (make(seed=4, epoch=2), make(seed=3, epoch=3)):
        assert any((one.batch(i).starts != other.batch(i).starts).any() for i in range(len(one)))


def test_windows_lie_in_their_recordings_and_reach_every_sample_often() -> None:
    lengths, n = [400, 5, 90, 1], 10
    recordings = some(lengths)
    counts = [np.zeros(length) for length in lengths]
    n_epochs = 400
    for epoch in range(n_epochs):
        plan = WindowPlan(recordings, field=3, n_targets=n, batch_size=1, epoch=epoch)
        for i in range(len(plan)):
            batch = plan.batch(i)
            chosen, start = int(batch.recordings[0]), int(batch.starts[0])
            assert 0 <= start <= max(lengths[chosen] - n, 0)
            counts[chosen][start : start + n] += 1
    means = [count.mean() / n_epochs for count in counts]
    assert means[0] == pytest.approx(1.0, abs=0.05)
    assert counts[0].min() > 0.35 * counts[0].mean()
    assert min(counts[1].min(), counts[3].min()) > 0


def test_evaluation_windows_contain_every_sample_once() -> None:
    recordings = some([23, 0, 8, 1])
    found: dict[int, list[int]] = {i: [] for i in range(4)}
    for batch in evaluation_windows(recordings, field=4, n_targets=8, batch_size=3):
        for i, targets, mask in zip(batch.recordings, batch.targets, batch.mask, strict=True):
            found[int(i)] += targets[mask].tolist()
    assert [found[i] for i in range(4)] == [recordings[i].tolist() for i in range(4)]


def test_empty_recordings_and_wrong_sizes_raise() -> None:
    with pytest.raises(DataError, match="recordings must have at least one sample"):
        WindowPlan(some([0]), field=1, n_targets=1, batch_size=1)
    with pytest.raises(DataError, match="n_targets must be at least 1, got 0"):
        WindowPlan(some([5]), field=1, n_targets=0, batch_size=1)


def test_levels_of_samples_are_stored_as_bytes() -> None:
    assert Recordings.from_levels([encode_mulaw(np.zeros(3))]).levels.dtype == np.uint8


def test_sound_files_are_quantized_and_unreadable_ones_listed(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    tone = 0.5 * np.sin(np.arange(900) / 7)
    write_wav(tmp_path / "a.wav", tone, 8000)
    (tmp_path / "b.wav").write_bytes(b"not a sound")
    write_wav(tmp_path / "c.wav", tone[:5], 8000)
    paths = [tmp_path / name for name in ("a.wav", "b.wav", "missing.wav", "c.wav")]
    recordings, skipped = quantize_files(paths, tmp_path / "out", 8000, [4, 5, 6, -1])
    assert [path.path for path in skipped] == paths[1:3]
    assert all(path.reason.startswith(str(path.path)) or str(path.path) in path.reason for path in skipped)
    assert recordings.names == (str(paths[0]), str(paths[3]))
    assert recordings.speakers.tolist() == [4, -1]
    for i, n in enumerate((900, 5)):
        expected = encode_mulaw(np.clip(np.rint(tone[:n] * 32768), -32768, 32767) / 32768)
        assert recordings[i].tolist() == expected.tolist()
    with pytest.raises(DataError, match="speakers must have one entry for each of 4 files, got 1"):
        quantize_files(paths, tmp_path / "out", 8000, [1])
