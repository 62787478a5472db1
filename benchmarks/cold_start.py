"""CPU time of a cold ``catena predict`` or ``catena score`` of three lines, relative to ``import torch``.

Trains one tiny model of each family on made data, then runs the command in new processes, interleaved with
``python -c "import torch"``, on one thread. Prints the least CPU time (user and system) of both, the median of their
ratios, and which of torch, Numba and torch's compiler the command loads.

    python benchmarks/cold_start.py [--runs 5] [--only tag-features lm-ngram]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

WATCHED = ("torch", "numba", "torch._dynamo", "sympy")
COMMAND = (
    "import sys\nfrom catena.cli.main import main\ncode = main(sys.argv[1:])\n"
    f"sys.stderr.write('LOADED ' + ' '.join(name for name in {WATCHED!r} if name in sys.modules))\nsys.exit(code)"
)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT["OMP_NUM_THREADS"] = "1"

LABELED = "".join(
    f"{label}\t{a} {b}\n" for label, a in (("good", "fine"), ("bad", "dull")) for b in ["film", "plot", "cast"]
)
TAGGED = "".join(
    f"{name} B-PER\nsees O\nNew B-LOC\nYork I-LOC\n\n" for name in ["Ada", "Max", "Ida", "Tom", "Eva", "Lea"]
)
PARSED = "".join(
    f"1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\t{noun}\t{noun}\tNOUN\t_\t_\t3\tnsubj\t_\t_\n"
    "3\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    for noun in ["cat", "dog", "bird", "cow", "fox", "owl"]
)
BRACKETS = "".join(
    f"(S (NP (D the) (N {a})) (VP (V sees) (NP (D the) (N {b}))))\n"
    for a in ["cat", "dog", "cow"]
    for b in ["fox", "owl"]
)
TEXT = "".join(f"the {a} sees the {b} .\n" for a in ["cat", "dog", "cow"] for b in ["fox", "owl", "hen", "ant"])
PAIRS = "".join(f"the {a} is {b}\tdas {a} ist {b}\n" for a in ["haus", "auto", "buch"] for b in ["rot", "alt", "neu"])
WORDS = "".join(f"{a}{b}\t{' '.join((a + b).upper())}\n" for a in ("ba", "do", "ki") for b in ("ta", "no", "ri"))

SHORT = ("--max-steps", "2")
SENTENCES = "the cat sees the owl .\nthe dog sees the hen .\nthe cow sees the ant .\n"
FAMILIES: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "classify-loglinear": (
        LABELED,
        ("classify", "FILE", "--model", "loglinear", "--max-epochs", "2"),
        "predict",
        SENTENCES,
    ),
    "lm-ngram": (TEXT, ("lm", "FILE", "--model", "ngram"), "score", SENTENCES),
    "tag-features": (TAGGED, ("tag", "FILE", "--model", "features"), "predict", SENTENCES),
    "tag-hmm": (TAGGED, ("tag", "FILE", "--model", "hmm"), "predict", SENTENCES),
    "classify-cnn": (LABELED, ("classify", "FILE", "--model", "cnn", *SHORT), "predict", SENTENCES),
    "lm-lstm": (TEXT, ("lm", "FILE", "--model", "lstm", *SHORT), "score", SENTENCES),
    "tag-neural": (TAGGED, ("tag", "FILE", "--model", "neural", *SHORT), "predict", SENTENCES),
    "tag-semimarkov": (
        TAGGED,
        ("tag", "FILE", "--model", "neural", "--structure", "semimarkov", *SHORT),
        "predict",
        SENTENCES,
    ),
    "parse-biaffine": (
        PARSED,
        ("parse", "FILE", "--model", "biaffine", "--input-format", "conllu", *SHORT),
        "predict",
        SENTENCES,
    ),
    "parse-span": (
        BRACKETS,
        ("parse", "FILE", "--input-format", "brackets", "--model", "span", *SHORT),
        "predict",
        SENTENCES,
    ),
    "translate-recurrent": (
        PAIRS,
        ("translate", "FILE", "--model", "recurrent", "--tokenizer", "words", *SHORT),
        "predict",
        SENTENCES,
    ),
    "translate-transformer": (
        PAIRS,
        ("translate", "FILE", "--model", "transformer", "--tokenizer", "words", *SHORT),
        "predict",
        SENTENCES,
    ),
    "converse-bm25": (PAIRS, ("converse", "FILE", "--model", "bm25"), "predict", SENTENCES),
    "transduce-edit": (WORDS, ("transduce", "FILE", "--model", "edit", *SHORT), "predict", "bata\ndori\nkino\n"),
}
"""The training file, the arguments of ``catena train``, the command, and its input, by family."""
WITHOUT_TORCH = ("classify-loglinear", "lm-ngram", "tag-features")
"""Families whose commands must not load torch."""


def cpu_seconds(words: list[str]) -> tuple[float, str]:
    """The CPU time of a process, and what it wrote on standard error."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def train(folder: Path, name: str) -> list[str]:
    """Train the model of a family, and return the words of the command to measure."""
    text, arguments, command, lines = FAMILIES[name]
    file, lines_file, run = folder / f"{name}.txt", folder / f"{name}.input", folder / name
    file.write_text(text, encoding="utf-8")
    lines_file.write_text(lines, encoding="utf-8")
    options = [str(file) if word == "FILE" else word for word in arguments]
    cpu_seconds([sys.executable, "-m", "catena", "train", *options, "--threads", "1", "-o", str(run)])
    return [sys.executable, "-c", COMMAND, command, str(run), str(lines_file)]


def main() -> None:
    """Print a line for each family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="Number of runs of each command.")
    parser.add_argument(
        "--only", nargs="*", default=list(FAMILIES), choices=list(FAMILIES), help="Families to measure."
    )
    options = parser.parse_args()
    print(f"{'family':24}{'seconds':>8}{'torch':>8}{'ratio':>8}  loaded")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            command = train(Path(folder), name)
            cpu_seconds(command)  # the first run fills the caches of bytecode and kernels
            torch, own = [], []
            for _ in range(options.runs):
                torch.append(cpu_seconds([sys.executable, "-c", "import torch"])[0])
                seconds, written = cpu_seconds(command)
                own.append(seconds)
            ratio = median(a / b for a, b in zip(own, torch, strict=True))
            loaded = written.rpartition("LOADED ")[2].split()
            print(f"{name:24}{min(own):8.2f}{min(torch):8.2f}{ratio:8.2f}  {' '.join(loaded) or '-'}", flush=True)


if __name__ == "__main__":
    main()
