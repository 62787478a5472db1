"""Language models of Catena and other libraries: n-gram building, scoring, training, outputs, generation, search.

    CATENA_DATA=… CATENA_LMPLZ=… python benchmarks/lm.py [ngram] [train] [outputs] [generate] [search] [-- FLAGS]

Each part is a file, ``lm_ngram.py`` and so on, whose docstring describes it. By default all parts run, each in its own
process, since some measure process memory. Within a part the contestants alternate. Options after ``--`` are passed to
the parts: ``lm.py generate -- --threads 1``.

A part whose libraries or data are missing reports it, and the others continue. Install ``requirements-peers.txt`` in a
separate virtual environment, with this repository's ``src`` on ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PREFIX = "lm_"


def parts() -> list[str]:
    """Return the names of all parts, from the names of the files."""
    return sorted(path.stem.removeprefix(PREFIX) for path in HERE.glob(f"{PREFIX}*.py"))


def main() -> None:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    words, flags = words[:cut], words[cut + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"parts to run, of {', '.join(parts())}; default: all")
    chosen = parser.parse_args(words).parts or parts()
    if unknown := sorted(set(chosen) - set(parts())):
        parser.error(f"unknown part {unknown[0]!r}; choose from {', '.join(parts())}")
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
