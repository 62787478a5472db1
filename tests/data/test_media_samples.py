"""Sample pictures, sounds and patterns: balanced, reproducible, correctly labeled, and learnable by eye or ear."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catena.data.audio import read_audio
from catena.data.images import read_image
from catena.data.media import list_labeled_files
from catena.data.media_config import ImageConfig
from catena.data.samples.patterns import hide_patterns
from catena.data.samples.shapes import SHAPES, draw_shapes, write_shapes
from catena.data.samples.tones import KINDS, MOTIF, NOTE_SECONDS, make_melodies, make_tones, write_tones
from catena.errors import DataError


def test_draw_shapes_is_balanced_and_depends_on_the_seed() -> None:
    pixels, labels = draw_shapes(12, 24, seed=3)
    assert pixels.shape == (12, 24, 24, 3)
    assert labels == list(SHAPES) * 3
    assert np.array_equal(pixels, draw_shapes(12, 24, seed=3)[0])
    assert np.array_equal(pixels[:5], draw_shapes(5, 24, seed=3)[0])
    assert not np.array_equal(pixels, draw_shapes(12, 24, seed=4)[0])


def test_shapes_differ_in_area_and_corners() -> None:
    """A circle is as wide in every direction; a cross covers less of its extent than a square."""
    from catena.data.samples.shapes import fill_shape, turned_grid

    grid = turned_grid(64, np.array([0.5, 0.5]), 0.4, 0.0)
    area = {label: fill_shape(label, grid).mean() / 0.4**2 for label in SHAPES}
    assert area["circle"] == pytest.approx(0.8 * np.pi, rel=0.01)
    assert area["square"] == pytest.approx(1.5**2, rel=0.01)
    assert area["cross"] == pytest.approx(4 * 0.95 * 0.44 - 0.44**2, rel=0.02)
    assert area["triangle"] == pytest.approx(1.5**2 / np.sqrt(3), rel=0.02)


def test_write_shapes_makes_one_folder_for_each_label(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    write_shapes(tmp_path, 8, 16)
    found = list_labeled_files(tmp_path)
    assert [f.labels[0] for f in found] == sorted(SHAPES * 2)
    pixels, _ = draw_shapes(8, 16)
    np.testing.assert_array_equal(
        read_image(tmp_path / "circle" / "00000.png", ImageConfig(height=16, width=16)), pixels[0]
    )


def test_make_tones_have_the_stated_pitch() -> None:
    sounds, labels = make_tones(50, seed=1)
    assert labels == list(KINDS) * 10
    for x, label in zip(sounds, labels, strict=True):
        half = len(x) // 2
        peaks = [np.abs(np.fft.rfft(part)).argmax() * 8000 / len(part) for part in (x[: half // 2], x[-half // 2 :])]
        if label == "rising":
            assert peaks[1] > 1.3 * peaks[0]
        elif label == "falling":
            assert peaks[1] < peaks[0] / 1.3
        elif label == "steady":
            assert peaks[1] == pytest.approx(peaks[0], rel=0.1)


def test_write_tones_writes_the_samples(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    write_tones(tmp_path, 5)
    found = list_labeled_files(tmp_path)
    assert [f.labels[0] for f in found] == sorted(KINDS)
    sounds, _ = make_tones(5)
    np.testing.assert_allclose(read_audio(tmp_path / "clicks" / "00000.wav").samples, sounds[0], atol=1 / 32768)


def spectral_notes(samples: np.ndarray) -> list[int]:
    """The notes of a melody, read from the spectrum of each."""
    size = round(NOTE_SECONDS * 8000)
    found = []
    for start in range(0, len(samples), size):
        power = np.abs(np.fft.rfft(samples[start : start + size] * np.hanning(size), 16384)) ** 2
        scores = {n: power[round(220 * 2 ** (n / 12) * 16384 / 8000)] for n in range(13)}
        found.append(max(scores, key=lambda n: scores[n]))
    return found


def test_melodies_have_the_motif_where_they_say() -> None:
    melodies = make_melodies(12, seed=2)
    k = len(MOTIF)
    assert len(melodies) > 0
    for i, melody in enumerate(melodies):
        notes = spectral_notes(melody.samples)
        found = [j for j in range(len(notes)) if tuple(notes[j : j + k]) == MOTIF]
        if i % 2 == 0:
            assert melody.start is not None
            assert melody.end is not None
            assert found[0] == round(melody.start / NOTE_SECONDS)
            assert melody.end - melody.start == pytest.approx(k * NOTE_SECONDS)
        else:
            assert found == []
            assert melody.start is None


def occurrences(row: list[int], pattern: tuple[int, ...]) -> list[int]:
    return [i for i in range(len(row)) if tuple(row[i : i + len(pattern)]) == pattern]


@pytest.mark.parametrize("n_after", [None, 0, 7])
def test_hidden_patterns_are_where_they_say(n_after: int | None) -> None:
    pattern = (3, 1, 4, 1, 5)
    found = hide_patterns(60, 20, pattern, n_after=n_after, seed=1)
    for row, label, start in zip(found.symbols.tolist(), found.labels, found.starts.tolist(), strict=True):
        assert occurrences(row, pattern) == ([start] if label else [])
        near = row[start : start + 5]
        assert sum(a != b for a, b in zip(near, pattern, strict=True)) == (0 if label else 1)
        if n_after is not None:
            assert start == 20 - 5 - n_after
    assert found.labels.sum() == 30


def test_short_patterns_do_not_occur_by_accident() -> None:
    found = hide_patterns(200, 12, (1, 2), n_symbols=3, seed=3)
    assert len(found.labels) > 0
    for row, label in zip(found.symbols.tolist(), found.labels, strict=True):
        assert len(occurrences(row, (1, 2))) == int(label)


def test_changed_symbols_are_equally_frequent_at_each_position() -> None:
    pattern = (3, 1, 4, 1, 5)
    found = hide_patterns(4000, 12, pattern, seed=2)
    counts = np.zeros(5)
    for row, label, start in zip(found.symbols, found.labels, found.starts, strict=True):
        if not label:
            counts += row[start : start + 5] != pattern
    assert ((counts - 400) ** 2 / 400).sum() < 18.5  # chi-square with 4 degrees of freedom: p < 0.001


def test_too_short_rows_raise() -> None:
    with pytest.raises(DataError, match=r"length must be at least 8, got 7\. Use"):
        hide_patterns(2, 7, (1, 2, 3), n_after=5)


def test_scenes_show_what_their_captions_say(tmp_path: Path) -> None:
    from catena.data.readers.captions import read_captions
    from catena.data.reading import ReadCounter
    from catena.data.samples.shapes import COLORS, draw_scene, write_scenes

    for i in range(20):
        pixels, (first, second) = draw_scene(i, size=24)
        words, turned = first.split(), second.split()
        assert words[3:5] == ["and", "a"]
        assert (turned[1:3], turned[-2:]) == (words[-2:], words[1:3])
        for half, color in ((pixels[:, :12], words[1]), (pixels[:, 12:], words[-2])):
            near = {name: (np.abs(half - np.array(rgb)).sum(axis=-1) < 60).sum() for name, rgb in COLORS.items()}
            assert max(near, key=lambda name: near[name]) == color
    listed = read_captions(write_scenes(tmp_path, 3, size=24), ReadCounter())
    assert [one.captions for one in listed] == [draw_scene(i, size=24).captions for i in range(3)]
    assert all(one.path.is_file() for one in listed)
