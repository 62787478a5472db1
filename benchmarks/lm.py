"""Language models through Catena and through its peers: building, scoring, training, output layers, writing, search.

    CATENA_DATA=… CATENA_LMPLZ=… python benchmarks/lm.py [ngram] [train] [outputs] [generate] [search] [-- FLAGS]

Each part is a file of its own, ``lm_ngram.py`` and so on, and says what it needs and measures; without a name all parts
run, one after another, each in a process of its own, since some measure how it grows. Inside a part contestants take
turns. What stands behind ``--`` is handed to the parts: ``lm.py generate -- --threads 1``.

A part whose peers or data are missing says so, and the others go on. Peers are those of ``requirements-peers.txt``, in
a virtual environment of their own, with this repository's ``src`` on ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PREFIX = "lm_"


def parts() -> list[str]:
    """The names of all parts: what files beside this one are called."""
    return sorted(path.stem.removeprefix(PREFIX) for path in HERE.glob(f"{PREFIX}*.py"))


def main() -> None:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    words, flags = words[:cut], words[cut + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"which of {', '.join(parts())}; all if none is named")
    chosen = parser.parse_args(words).parts or parts()
    if unknown := sorted(set(chosen) - set(parts())):
        parser.error(f"there is no part {unknown[0]!r}: known are {', '.join(parts())}")
    failed = []
    for part in chosen:
        print(f"\n=== {part} ===", flush=True)
        command = [sys.executable, str(HERE / f"{PREFIX}{part}.py"), *flags]
        if subprocess.run(command, check=False).returncode:
            failed.append(part)
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
