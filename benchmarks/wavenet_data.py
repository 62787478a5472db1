"""The data of the WaveNet benchmarks: mu-law levels of speech, music and spoken digits in one compact file.

    python benchmarks/wavenet_data.py --data DATA -o carry/wavenet.npz

DATA contains the folders speech_music_8k and audiomnist_8k. The file has one byte for each sample, compressed by bz2
(16 MB for 57 minutes, with ``--kinds speech music`` 11.5 MB for 33), so that it can be copied to a machine that cannot
decode FLAC. A condition is a voice of the training data, "digits" or "music"; the voice that is only in the test data
has none.
"""

from __future__ import annotations

import argparse
import bz2
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from catena.data.recordings import Recordings

KINDS = ("speech", "music", "digits")
TEST_SETS = {"speech": ("speech", "test"), "unseen voice": ("speech", "unseen"), "music": ("music", "test")}
TEST_SETS["digits"] = ("digits", "test")
FLOORS = {"speech": 4.588, "unseen voice": 4.566, "music": 4.618, "digits": 2.736}
"""Bits of the adaptive linear predictor of order 32 (benchmarks/wavenet_floors.py)."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Recordings with their kind, split and source. ``recordings.speakers`` is the condition, -1 for none."""

    recordings: Recordings
    kinds: np.ndarray
    splits: np.ndarray
    sources: np.ndarray
    conditions: tuple[str, ...]

    def indices(self, kind: str, split: str, source: str | None = None) -> np.ndarray:
        """The recordings of a kind and split."""
        chosen = (self.kinds == kind) & (self.splits == split)
        return np.flatnonzero(chosen if source is None else chosen & (self.sources == source))

    def select(self, indices: np.ndarray) -> Recordings:
        """Some of the recordings, in memory."""
        levels = [self.recordings[int(i)] for i in indices]
        return Recordings.from_levels(levels, self.recordings.speakers[indices].tolist())


def list_files(data: Path) -> list[tuple[Path, str, str, str]]:
    """The path, kind, split and source of each recording."""
    found = []
    folder = data / "speech_music_8k"
    with (folder / "files.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["kind"] in KINDS:
                found.append((folder / row["file"], row["kind"], row["split"], row["source"]))
    folder = data / "audiomnist_8k"
    with (folder / "clips.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found.append((folder / row["file"], "digits", row["split"], row["speaker"]))
    return found


def write_corpus(data: Path, output: Path, chosen: Sequence[str] = KINDS) -> None:
    """Decode and quantize all recordings of the chosen kinds, and write them to one file."""
    from catena.data.audio import read_audio
    from catena.data.mulaw import encode_mulaw

    files = [row for row in list_files(data) if row[1] in chosen]
    levels = [encode_mulaw(read_audio(path, 8000).samples) for path, *_ in files]
    packed = bz2.compress(np.concatenate(levels).tobytes())
    output.parent.mkdir(parents=True, exist_ok=True)
    kinds, splits, sources = (np.array(column) for column in list(zip(*files, strict=True))[1:])
    np.savez(
        output,
        levels=np.frombuffer(packed, np.uint8),
        lengths=np.array([len(x) for x in levels]),
        kinds=kinds,
        splits=splits,
        sources=sources,
    )
    size = output.stat().st_size / 1e6
    print(f"{len(files)} recordings, {sum(map(len, levels)):,} samples, {size:.1f} MB in {output}")


def read_corpus(path: Path) -> Corpus:
    """The recordings that :func:`write_corpus` wrote."""
    with np.load(path) as arrays:
        levels = np.frombuffer(bz2.decompress(arrays["levels"].tobytes()), np.uint8)
        edges = np.cumsum([0, *arrays["lengths"]])
        kinds, splits, sources = arrays["kinds"], arrays["splits"], arrays["sources"]
    voices = sorted(set(sources[(kinds == "speech") & (splits == "train")].tolist()))
    conditions = (*voices, "digits", "music")
    names = np.where(kinds == "speech", sources, kinds)
    speakers = np.array([conditions.index(name) if name in conditions else -1 for name in names.tolist()])
    recordings = Recordings(levels, edges, tuple(map(str, range(len(kinds)))), speakers, 8000)
    return Corpus(recordings, kinds, splits, sources, conditions)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, default=Path("carry/wavenet.npz"))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    flags = parser.parse_args()
    write_corpus(flags.data, flags.output, flags.kinds)


if __name__ == "__main__":
    main()
