"""Peak memory and CPU time of the log-linear classifier on files that double in size.

    python benchmarks/classify_memory.py [--megabytes 40 80 160 320] [--words 100] [--options --buckets 4194304]

Each line of a made file has a label and words by Zipf's law. Each file is trained on by ``catena train`` in its own
process, for one pass; the table has its CPU time and the largest resident memory. The files are removed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_LABELS = 4
_VOCABULARY = 300_000


def write_text(path: Path, megabytes: int, words: int, seed: int = 0) -> None:
    """Write a file of about this size: ``label<TAB>words``."""
    rng = np.random.default_rng(seed)
    names = np.array([f"word{i}" for i in range(_VOCABULARY)])
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1_000_000:
            labels = rng.integers(0, _LABELS, 2000)
            ranks = np.minimum(rng.zipf(1.15, (2000, words)), _VOCABULARY) - 1
            own = rng.random((2000, words)) < 0.2
            ranks = np.where(own, (ranks + 7919 * (labels[:, None] + 1)) % _VOCABULARY, ranks)
            file.writelines(f"{y}\t{' '.join(row)}\n" for y, row in zip(labels.tolist(), names[ranks], strict=True))


def measure(path: Path, run: Path, options: list[str]) -> tuple[float, float]:
    """The CPU seconds and the peak memory in MB of a training."""
    words = [sys.executable, "-m", "catena", "train", "classify", str(path), "--model", "loglinear", *options]
    process = subprocess.Popen([*words, "--max-epochs", "1", "--threads", "1", "-o", str(run)],
                               stdout=subprocess.DEVNULL)  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[40, 80, 160, 320])
    parser.add_argument("--words", type=int, default=100, help="Number of words of a line.")
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=["--buckets", "4194304"])
    flags = parser.parse_args()
    print(f"{'MB of text':>12}{'CPU s':>10}{'CPU s/MB':>10}{'peak MB':>10}", flush=True)
    for megabytes in flags.megabytes:
        with tempfile.TemporaryDirectory() as home:
            path = Path(home) / "train.tsv"
            write_text(path, megabytes, flags.words)
            seconds, peak = measure(path, Path(home) / "run", flags.options)
            size = path.stat().st_size / 1e6
        print(f"{size:12.0f}{seconds:10.1f}{seconds / size:10.2f}{peak:10.0f}", flush=True)


if __name__ == "__main__":
    main()
