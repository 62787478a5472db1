"""Synthesized sounds, as sample data for classifying sounds and spotting a keyword.

``make_tones`` gives single sounds of five kinds. ``make_melodies`` gives sequences of random notes; a fixed motif of
four notes is hidden in every second one, a keyword without speech. Everything is computed from a
seed; nothing is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from catena.data.audio import write_wav
from catena.randomness import Randomness

KINDS = ("clicks", "falling", "noise", "rising", "steady")
MOTIF = (0, 4, 7, 12)
"""The hidden notes, in semitones above 220 Hz: a major chord, upward."""
NOTE_SECONDS = 0.12
_SCALE = (0, 2, 4, 5, 7, 9, 11, 12)
"""The random notes, in semitones above 220 Hz."""


@dataclass(frozen=True, eq=False)
class Melody:
    """A sequence of notes; ``start`` and ``end`` of the motif in seconds, or None."""

    samples: Float32[np.ndarray, " n"]
    start: float | None
    end: float | None


def make_tones(
    n: int, seconds: float = 0.5, sample_rate: int = 8000, seed: int = 0
) -> tuple[list[Float32[np.ndarray, " _"]], list[str]]:
    """``n`` sounds of one second or less and their labels, in which all kinds are equally frequent."""
    labels = [KINDS[i % len(KINDS)] for i in range(n)]
    sounds = []
    for i, label in enumerate(labels):
        rng = Randomness(seed).numpy("tones", i)
        times = np.arange(round(rng.uniform(0.6, 1) * seconds * sample_rate)) / sample_rate
        sounds.append(_spoil(_make_tone(label, times, rng), rng))
    return sounds, labels


def write_tones(folder: Path | str, n: int, seconds: float = 0.5, sample_rate: int = 8000, seed: int = 0) -> None:
    """Write ``n`` sounds as WAV files, in one subfolder for each label."""
    for i, (samples, label) in enumerate(zip(*make_tones(n, seconds, sample_rate, seed), strict=True)):
        write_wav(Path(folder) / label / f"{i:05d}.wav", samples, sample_rate)


def make_melodies(n: int, n_notes: int = 16, sample_rate: int = 8000, seed: int = 0) -> list[Melody]:
    """``n`` melodies, with the motif at a random position in every second one.

    Half of those without it have a near miss: the motif with one wrong note.
    """
    return [_make_melody(i, n_notes, sample_rate, Randomness(seed).numpy("melodies", i)) for i in range(n)]


def _make_tone(label: str, times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    low = rng.uniform(200, 800)
    position = times / max(times[-1], 1e-9)
    if label == "noise":
        return rng.normal(0, 0.4, len(times))
    if label == "clicks":
        return np.exp(-((times * rng.uniform(8, 20)) % 1) * 60) * np.sin(2 * np.pi * 4 * low * times)
    if label == "steady":
        return np.sin(2 * np.pi * low * times)
    ratio = rng.uniform(2, 4)
    hertz = low * ratio ** (position if label == "rising" else 1 - position)
    return np.sin(2 * np.pi * np.cumsum(hertz) * (times[1] - times[0]))


def _make_melody(i: int, n_notes: int, sample_rate: int, rng: np.random.Generator) -> Melody:
    notes = [int(note) for note in rng.choice(_SCALE, n_notes)]
    at = int(rng.integers(0, n_notes - len(MOTIF) + 1))
    has_motif = i % 2 == 0
    if has_motif or i % 4 == 1:
        notes[at : at + len(MOTIF)] = MOTIF
    if not has_motif:
        _remove_motif(notes, rng)
    samples = _spoil(np.concatenate([_make_note(note, sample_rate) for note in notes]), rng)
    start = min(_find_motif(notes), default=None)
    if start is None:
        return Melody(samples, None, None)
    return Melody(samples, start * NOTE_SECONDS, (start + len(MOTIF)) * NOTE_SECONDS)


def _find_motif(notes: list[int]) -> list[int]:
    return [i for i in range(len(notes)) if tuple(notes[i : i + len(MOTIF)]) == MOTIF]


def _remove_motif(notes: list[int], rng: np.random.Generator) -> None:
    """Change one note of each motif in place."""
    while found := _find_motif(notes):
        notes[found[0] + int(rng.integers(len(MOTIF)))] = int(rng.choice(_SCALE))


def _make_note(semitones: int, sample_rate: int) -> np.ndarray:
    times = np.arange(round(NOTE_SECONDS * sample_rate)) / sample_rate
    envelope = np.minimum(1, np.minimum(times, NOTE_SECONDS - times) / 0.01)
    hertz = 220 * 2 ** (semitones / 12)
    return envelope * (np.sin(2 * np.pi * hertz * times) + 0.4 * np.sin(4 * np.pi * hertz * times))


def _spoil(samples: np.ndarray, rng: np.random.Generator) -> Float32[np.ndarray, " n"]:
    """Random level and a little noise."""
    level = rng.uniform(0.1, 0.5)
    return (level * samples + rng.normal(0, 0.005, len(samples))).astype(np.float32)
