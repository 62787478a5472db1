"""8-bit weights on a CPU: speed, memory and BLEU compared with single precision and CTranslate2.

    python benchmarks/seq2seq_int8.py RUN --source test.en --target test.de [--beam-size 5] [--threads 1] [--rounds 3]

Translates a file with a trained run (``catena predict``), with and without ``--quantization int8``, and, if it is a
Transformer, with CTranslate2 in single precision and in 8 bits from ``catena export``. Tokenization and detokenization
are included on both sides; CTranslate2 sorts and batches by itself, with the same number of source tokens per batch and
the run's length penalty. Rounds alternate; the output has the least and the median time, process time with one thread.
BLEU is sacrebleu's. Memory includes all weights after a translation, with the copies for decoding steps.

On one thread of an idle AMD EPYC, the model of the recipe ``multi30k-transformer`` on test 2016, best of three rounds:
with a beam of 5 Catena took 12.5 s in single precision and 5.3 in 8 bits, CTranslate2 10.7 and 5.6 (BLEU 39.44, 39.58,
39.30, 39.39); greedy 3.4 and 1.6, CTranslate2 3.5 and 1.6 (38.66, 38.60, 38.66, 38.77). Weights: 49.6 MB and 10.9.
On disk CTranslate2 has 30.9 MB and 9.4. The two use different length penalties in beam search.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch

from catena.kernels.linear.int8_weight import Int8Weight
from catena.seq2seq.transformer import TransformerSeq2Seq
from catena.tasks.load import load_model
from catena.tasks.text_search import BATCH_TOKENS
from catena.tasks.translate.config import TranslateOptions
from catena.tasks.translate.task import TranslateTask


def main() -> None:
    flags = read_flags()
    torch.set_num_threads(flags.threads)
    sources = flags.source.read_text(encoding="utf-8").splitlines()[: flags.sentences]
    targets = flags.target.read_text(encoding="utf-8").splitlines()[: flags.sentences]
    translators: dict[str, Callable[[list[str]], list[str]]] = {}
    models = {name: load_model(flags.run, "cpu", kind) for name, kind in (("float32", None), ("int8", "int8"))}
    for name, model in models.items():
        translators[f"Catena {name}"] = here(model, flags.beam_size)
    if isinstance(models["float32"].networks[0], TransformerSeq2Seq):
        for name, kind in (("float32", None), ("int8", "int8")):
            translators[f"CTranslate2 {name}"] = there(models["float32"], kind, flags)
    found = {name: translate(sources) for name, translate in translators.items()}  # this also compiles everything
    times: dict[str, list[float]] = {name: [] for name in translators}
    for _ in range(flags.rounds):
        for name, translate in translators.items():
            times[name].append(seconds(lambda translate=translate: translate(sources), flags.threads))
    first = times["Catena float32"]
    for name, listed in times.items():
        cased, lower = (sacrebleu.corpus_bleu(found[name], [targets], lowercase=low).score for low in (False, True))
        same = sum(a == b for a, b in zip(found[name], found["Catena float32"], strict=True))
        share = statistics.median(b / a for a, b in zip(first, listed, strict=True))
        print(
            f"{name:20} {min(listed):6.2f} s at best, {statistics.median(listed):6.2f} median, {share:.2f} of "
            f"Catena's float32; BLEU {cased:.2f}, lowercased {lower:.2f}; like float32 in {same} of {len(sources)}",
            flush=True,
        )
    for name, model in models.items():
        print(f"Catena {name}: {sum(map(weight_bytes, model.networks)) / 2**20:.1f} MB of weights")


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def seconds(work: Callable[[], Any], threads: int) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    work()
    return clock() - start


def here(model: TranslateTask, beam_size: int) -> Callable[[list[str]], list[str]]:
    """Return a function that translates with Catena."""
    options = TranslateOptions(beam_size=beam_size)
    return lambda texts: [one.translation for one in model.predict(texts, options)]


def there(model: TranslateTask, kind: str | None, flags: argparse.Namespace) -> Callable[[list[str]], list[str]]:
    """Return a function that translates with CTranslate2."""
    import ctranslate2

    folder = Path(tempfile.mkdtemp()) / "model"
    model.export("ctranslate2", folder, kind)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.name == "model.bin")
    print(f"CTranslate2 {kind or 'float32'}: {size / 2**20:.1f} MB on disk")
    engine = ctranslate2.Translator(
        str(folder), "cpu", compute_type=kind or "float32", inter_threads=1, intra_threads=flags.threads
    )
    encoding, penalty = model.encoding, getattr(model.config.search, "length_penalty", 0.0)
    cut = encoding.source.tokenizer.tokens

    def translate(texts: list[str]) -> list[str]:
        found = engine.translate_batch(
            [[*cut(text), "</s>"] for text in texts],
            beam_size=flags.beam_size,
            length_penalty=penalty,
            max_batch_size=BATCH_TOKENS["cpu"],
            batch_type="tokens",
        )
        return [encoding.text(one.hypotheses[0]) for one in found]

    return translate


def weight_bytes(network: torch.nn.Module) -> int:
    """Return the bytes of parameters, and of the copies that steps and output layers keep."""
    parameters = {id(p): p for p in network.parameters()}.values()
    held = sum(p.matrix.panels.nbytes if isinstance(p, Int8Weight) else 4 * p.numel() for p in parameters)
    for module in network.modules():
        plan, rows = getattr(module, "plan", None), getattr(module, "_rows", None)
        held += sum(array.nbytes for array in getattr(plan, "weights", ()) if isinstance(array, np.ndarray))
        held += rows.panels.nbytes if rows is not None and not hasattr(rows, "numbers") else 0
        joined = getattr(module, "_joined", None)
        if joined is not None:
            held += joined[1].matrix.panels.nbytes if isinstance(joined[1], Int8Weight) else 4 * joined[1].numel()
    return held


if __name__ == "__main__":
    main()
