"""n-gram models compared with KenLM: building, scoring from strings, and the distribution of the next word.

    CATENA_DATA=… CATENA_LMPLZ=…/bin/lmplz PYTHONPATH=src .venv-peers/bin/python benchmarks/lm_ngram.py [--text FILE]

Build ``lmplz`` and ``build_binary`` (in the same folder) from KenLM's source package with boost; scoring needs its
Python module. KenLM raises an error for ``<unk>`` in a text, so it is renamed for both. All measurements alternate in
one run on one thread, in CPU time; the table has medians, and ratios of pairs; for scoring also the least times.
Compilation is not counted: it happens once and is cached.

Perplexity: every line is a sentence, also blank ones; tokens are counted with sentence ends.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from catena.lm.ngram.array_storage import resident_bytes
from catena.lm.ngram.model import NgramModel


def cpu_time() -> float:
    """The CPU seconds of this process and of the programs that it started."""
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + programs.ru_utime + programs.ru_stime


def seconds(run: Callable[[], object]) -> float:
    begun = cpu_time()
    run()
    return cpu_time() - begun


Pairs = list[tuple[float, float]]


def turns(repeats: int, ours: Callable[[], object], theirs: Callable[[], object]) -> Pairs:
    """Return the seconds of KenLM and of Catena, alternating."""
    return [(seconds(theirs), seconds(ours)) for _ in range(repeats)]


def medians(pairs: Pairs) -> tuple[float, float, float]:
    """Return the median seconds of Catena and of KenLM, and the median of the ratios KenLM / Catena."""
    return (
        statistics.median(b for _, b in pairs),
        statistics.median(a for a, _ in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def least(pairs: Pairs) -> tuple[float, float, float]:
    """Return the least seconds of Catena and of KenLM, and their ratio, which other programs disturb least."""
    theirs, ours = (min(times) for times in zip(*pairs, strict=True))
    return ours, theirs, theirs / ours


def line(what: str, ours: str, theirs: str, ratio: str, wanted: str = "") -> None:
    print(f"{what:<44} {ours:>16} {theirs:>16} {ratio:>8} {wanted:>10}", flush=True)


def renamed(path: Path, folder: Path) -> Path:
    text = path.read_text(encoding="utf-8").replace("<unk>", "UNKNOWN")
    copy = folder / path.name
    copy.write_text(text, encoding="utf-8")
    return copy


# --- building ------------------------------------------------------------------------------------------------------


def build(text: Path, order: int, folder: Path, lmplz: str, repeats: int) -> Path:
    """Time both builders from text to a binary file, and return KenLM's file."""
    arpa, binary = folder / f"kenlm-{order}.arpa", folder / f"kenlm-{order}.bin"

    def theirs() -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
        subprocess.run(
            [lmplz, "-o", str(order), "-S", "2G", "-T", str(folder), "--text", str(text), "--arpa", str(arpa)], **quiet
        )
        subprocess.run([str(Path(lmplz).with_name("build_binary")), "probing", str(arpa), str(binary)], **quiet)

    def ours() -> None:
        NgramModel.train(text, order=order).save(folder / f"catena-{order}.ngram")

    NgramModel.train(["a b"], order=order).save(folder / "warm")
    own, kenlm, ratio = medians(turns(repeats, ours, theirs))
    line(f"build {order}-grams and save", f"{own:.2f} s", f"{kenlm:.2f} s", f"{ratio:.2f}", "≥ 1")
    sizes = [(folder / f"catena-{order}.ngram").stat().st_size, binary.stat().st_size]
    line("  size", f"{sizes[0] / 1e6:.0f} MB", f"{sizes[1] / 1e6:.0f} MB", f"{sizes[1] / sizes[0]:.2f}")
    load = statistics.median(seconds(lambda: NgramModel.load(folder / f"catena-{order}.ngram")) for _ in range(5))
    line("  load with checksum", f"{load * 1e3:.0f} ms", "", "")
    return binary


LIMITED = """
import re, sys, time
from pathlib import Path
from catena.lm.ngram.model import NgramModel
from catena.lm.ngram.array_storage import resident_bytes
memory = int(sys.argv[2]) or None
NgramModel.train(["a b"], order=int(sys.argv[3]), memory=memory)
Path("/proc/self/clear_refs").write_text("5")  # reset the peak, which may be the parent's
base, begun = resident_bytes(), time.process_time()
NgramModel.train(sys.argv[1], order=int(sys.argv[3]), memory=memory)
took = time.process_time() - begun
print(took, 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) - base)
"""


def limits(text: Path, order: int) -> None:
    """Print the peak memory above the interpreter's, with and without a limit, each in its own process."""
    for memory in (0, 64 << 20, 200 << 20):
        command = [sys.executable, "-c", LIMITED, str(text), str(memory), str(order)]
        took, peak = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
        limit = f"limit {memory >> 20} MB" if memory else "without limit"
        wanted = f"≤ {memory / 1e6:.0f} MB" if memory else ""
        line(f"build {order}-grams, {limit}", f"{took:.2f} s", f"{peak / 1e6:.0f} MB more", "", wanted)


# --- scoring -------------------------------------------------------------------------------------------------------


def compare_scoring(text: Path, test: Path, order: int, binary: Path, repeats: int) -> None:
    import kenlm

    peer = kenlm.Model(str(binary))
    model = NgramModel.train(text, order=order)
    sentences = [" ".join(row.split()) for row in test.read_text(encoding="utf-8").splitlines()]
    tokens = model.evaluate(sentences).tokens

    def theirs() -> list[float]:
        return [peer.score(sentence) for sentence in sentences]

    def ours() -> list[float]:
        return model.score(sentences)

    own, other = math.exp(-sum(ours()) / tokens), 10 ** (-sum(theirs()) / tokens)
    line(f"{order}-gram perplexity, {tokens:,} tokens", f"{own:.4f}", f"{other:.4f}", f"{other / own:.6f}", "± 0.1 %")
    apart = max(
        abs(a - b / math.log(10))
        for sentence in sentences[:500]
        for (a, _, _), (_, b) in zip(peer.full_scores(sentence), model.token_scores(sentence), strict=True)
    )
    line("  log10 p of a token, largest difference", f"{apart:.1e}", "", "", "≤ 1e-5")
    pairs = turns(repeats, ours, theirs)
    wanted = "≥ 1.8" if order == 5 else "≥ 2.2"
    for name, (took, their_time, ratio) in (
        (f"{order}-gram scores from strings", medians(pairs)),
        ("  by least times", least(pairs)),
    ):
        rates = [f"{tokens / t / 1e6:.2f} M/s" for t in (took, their_time)]
        line(name, *rates, f"{ratio:.2f}", wanted)
    spread(model, sentences, peer if order == 5 else None)


def spread(model: NgramModel, sentences: list[str], peer: object) -> None:
    """Time the distribution of the next word, after contexts of the test text and after the most common word."""
    prefixes = [words[: len(words) // 2] for s in sentences if len(words := s.split()) > 8][:200]
    states = []
    for words in prefixes:
        ids = torch.tensor([model.vocabulary.ids(words)])
        states.append(model.extend(model.start(1), ids, torch.tensor([len(words)])))
    common = model.advance(model.start(1), torch.tensor([4]))
    for what, states_to_score in (
        ("after contexts of the text", states),
        (f"after {model.vocabulary.tokens([4])[0]!r}", [common]),
    ):
        times = [
            seconds(lambda s=s: model.log_probs(s))
            for _ in range(5 if len(states_to_score) > 1 else 200)
            for s in states_to_score
        ]
        name = f"p(· | context) of {model.v:,} words, {what}"
        line(name[:44], f"{statistics.median(times) * 1e3:.3f} ms", "", "", "≤ 0.05 ms")
    if peer is not None:
        import kenlm

        before, after = kenlm.State(), kenlm.State()
        peer.BeginSentenceWrite(before)  # type: ignore[attr-defined]
        words = model.vocabulary.symbols
        took = seconds(lambda: [peer.BaseScore(before, word, after) for word in words])  # type: ignore[attr-defined]
        line("  the same by a loop over KenLM", "", f"{took * 1e3:.1f} ms", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="train on this text instead of WikiText-2")
    parser.add_argument("--test", type=Path, help="score this text instead of WikiText-2's")
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-limits", action="store_true", help="skip the builds with a memory limit")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = Path(os.environ.get("CATENA_DATA", ".")) / "wikitext2_word"
    lmplz = os.environ.get("CATENA_LMPLZ") or shutil.which("lmplz")
    if not lmplz:
        sys.exit("CATENA_LMPLZ is not set. Set it to the program lmplz, built from KenLM's source package.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = renamed(options.text or data / "wiki.train.tokens", folder)
        test = renamed(options.test or data / "wiki.test.tokens", folder)
        line("", "Catena", "KenLM", "ratio", "wanted")
        for order in options.orders:
            binary = build(text, order, folder, lmplz, options.repeats)
            compare_scoring(text, test, order, binary, 2 * options.repeats + 1)
        if not options.no_limits:
            limits(text, max(options.orders))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"this process: {resident_bytes() / 1e6:.0f} MB now, {peak / 1e6:.0f} MB at its largest")


if __name__ == "__main__":
    main()
