"""Sequence to sequence on a CPU: Catena compared with plain torch, transformers' ``generate`` and CTranslate2.

    python benchmarks/seq2seq.py [train] [search] [memory] [prefix] [--threads 1] [--rounds 5]
    python benchmarks/seq2seq.py search --run RUN --source test.en      a trained Transformer with the post norm

Needs ``transformers`` and ``ctranslate2`` (see requirements-peers.txt) for ``search``. Rounds alternate; ratios are of
neighboring measurements, and their median is printed. With one thread the time is process time, which other programs
disturb little.

train    target tokens per second of a training step with Adam, compared with ``nn.Transformer`` with an embedding, and
         with ``nn.LSTM`` on both sides (no attention), of the same sizes and dropout, written in the usual way.
search   greedy and beam-5 translation with the same weights, copied into a ``MarianMTModel`` and into CTranslate2's
         folder (single precision and 8 bits); the first two must give the same tokens. A trained run ends by itself.
         Random weights would not end, so they are measured twice: once with targets as long as their sources, whose
         lengths are distributed as those of captions (both programs are forced to end by a logits processor;
         CTranslate2 has none), and once with a fixed number of tokens in every row.
memory   the peak memory of training, for doubling batch sizes and lengths.
prefix   the time of a beam search step after prefixes of growing length: for hypotheses without a common prefix, and
         for typical ones, which differ only in their last tokens.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from seq2seq_marian import marian_of
from torch import Tensor, nn

from catena.engine.int8 import quantize_int8_
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.search.hypothesis import Hypotheses
from catena.search.stepper import WrapperStepper
from catena.seq2seq.base import EncoderDecoder, Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig
from catena.seq2seq.transformer import TransformerSeq2Seq, build_transformer

V, PAD, BEGIN, END = 8000, 0, 2, 3
D, HEADS, LAYERS, FEED = 256, 4, 4, 1024
OWN = 8
"""Approximate number of last tokens in which the hypotheses of a beam differ."""
SIDES = VocabularyInfo(V, [1] * V, BEGIN, END, (PAD, BEGIN), shared=True)


def settings_of(norm: str = "post", dropout: float = 0.0) -> TransformerSeq2SeqConfig:
    return TransformerSeq2SeqConfig(
        norm=norm, d=D, n_heads=HEADS, n_encoder_layers=LAYERS, n_decoder_layers=LAYERS, d_ff=FEED, dropout=dropout,
        output={"kind": "softmax"},
    )  # fmt: skip


def sources(b: int, s: int, seed: int = 1) -> Source:
    """Return sources of 4 to ``s`` tokens, 14 on average, as in image captions."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (14 + 5 * torch.randn(b, generator=generator)).round().long().clamp(4, s)
    s = int(lengths.max())
    ids = torch.randint(4, V, (b, s), generator=generator)
    return Source(ids.masked_fill(torch.arange(s) >= lengths[:, None], PAD), lengths)


# --- training ---------------------------------------------------------------------------------------------------------


class PlainTransformer(nn.Module):
    """``nn.Transformer`` in its usual form."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, D, PAD)
        self.body = nn.Transformer(D, HEADS, LAYERS, LAYERS, FEED, 0.1, batch_first=True, norm_first=True)
        self.dropout = nn.Dropout(0.1)
        angles = torch.arange(512)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
        self.register_buffer("waves", torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2))

    def loss(self, source: Source, targets: Tensor, lengths: Tensor) -> Tensor:
        t, padded = targets.shape[1], source.ids == PAD
        before = torch.cat((targets.new_full((len(targets), 1), BEGIN), targets[:, :-1]), dim=1)
        x, y = (self.dropout(self.embedding(ids) * D**0.5 + self.waves[: ids.shape[1]]) for ids in (source.ids, before))
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        hidden = self.body(
            x, y, tgt_mask=future, src_key_padding_mask=padded, memory_key_padding_mask=padded, tgt_is_causal=True
        )
        logits = nn.functional.linear(hidden, self.embedding.weight)
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


class PlainLSTM(nn.Module):
    """``nn.LSTM`` on both sides; the decoder starts from the last encoder state."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(V, D, PAD), nn.Embedding(V, D, PAD)
        self.encoder, self.decoder = nn.LSTM(D, D, batch_first=True), nn.LSTM(D, D, batch_first=True)
        self.output = nn.Linear(D, V)

    def loss(self, source: Source, targets: Tensor, lengths: Tensor) -> Tensor:
        before = torch.cat((targets.new_full((len(targets), 1), BEGIN), targets[:, :-1]), dim=1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.source(source.ids), source.lengths, batch_first=True, enforce_sorted=False
        )
        _, state = self.encoder(packed)
        hidden, _ = self.decoder(self.target(before), state)
        return nn.functional.cross_entropy(self.output(hidden).flatten(0, 1), targets.flatten(), ignore_index=PAD)


def trained(model: Any, batch: tuple[Source, Tensor, Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    model.train()

    def step() -> None:
        optimizer.zero_grad()
        model.loss(*batch).backward()
        optimizer.step()

    return step


def train(flags: argparse.Namespace) -> None:
    source, written = sources(64, 24), sources(64, 24, 2)
    targets = written.ids.scatter(1, written.lengths[:, None] - 1, END)
    batch = (source, targets, written.lengths)
    tokens = int(written.lengths.sum())
    recurrent = RecurrentSeq2SeqConfig(
        d=D, d_embedding=D, bidirectional="none", attention="none", dropout=0.0, input_feeding=False
    )
    pairs: list[tuple[str, EncoderDecoder, nn.Module]] = [
        ("nn.Transformer", build_transformer(settings_of("pre", 0.1), SIDES), PlainTransformer()),
        (
            "nn.LSTM",
            build_encoder_decoder(recurrent, VocabularyInfo(V, [1] * V, BEGIN, END, (PAD, BEGIN))),
            PlainLSTM(),
        ),
    ]
    for name, ours, theirs in pairs:
        a, z = compared(trained(ours, batch), trained(theirs, batch), flags)
        print(
            f"train, {name}: Catena {tokens / statistics.median(a):,.0f} target tokens/s, the plain "
            f"script {tokens / statistics.median(z):,.0f}; {format_ratios(a, z)}",
            flush=True,
        )


# --- search -----------------------------------------------------------------------------------------------------------


def random_model() -> tuple[TransformerSeq2Seq, TransformerSeq2SeqConfig]:
    """Return a model that never ends by itself and has a clear best next token."""
    torch.manual_seed(0)
    settings = settings_of()
    model = build_transformer(settings, SIDES).eval()
    with torch.no_grad():
        model.target_embedding.weight.mul_(3.0)
        model.target_embedding.weight[END] = 0.0
        model.output.scores.bias[END] = -100.0
    return model, settings


class Ending(WrapperStepper[tuple[Any, int, Tensor]]):
    """A stepper whose rows end after a given number of tokens."""

    def __init__(self, stepper: Any, sizes: Tensor) -> None:
        self.stepper, self.sizes = stepper, sizes
        self.v, self.end = stepper.v, stepper.end

    def inner(self, state: tuple[Any, int, Tensor]) -> Any:
        return state[0]

    def start(self, n: int) -> tuple[Any, int, Tensor]:
        return self.stepper.start(n), 0, self.sizes

    def log_probs(self, state: tuple[Any, int, Tensor]) -> Tensor:
        return ended(self.stepper.log_probs(state[0]), state[2] == state[1], self.end)

    def advance(self, state: tuple[Any, int, Tensor], ids: Tensor) -> tuple[Any, int, Tensor]:
        return self.stepper.advance(state[0], ids), state[1] + 1, state[2]

    def select(self, state: tuple[Any, int, Tensor], rows: Tensor) -> tuple[Any, int, Tensor]:
        return self.stepper.select(state[0], rows), state[1], state[2][rows]

    def join(self, states: Any) -> tuple[Any, int, Tensor]:
        raise NotImplementedError


def ended(log_probs: Tensor, due: Tensor, end: int) -> Tensor:
    """A logits processor that forces the end at a given step."""
    if due.any():
        log_probs = log_probs.clone()
        log_probs[due] = -torch.inf
        log_probs[due, end] = 0.0
    return log_probs


def translate(model: TransformerSeq2Seq, source: Source, width: int, steps: int, ends: bool = False) -> Hypotheses:
    with torch.inference_mode():
        stepper = model.stepper(source)
        if ends:
            stepper = Ending(stepper, source.lengths)
        state = stepper.start(len(source))
        return greedy(stepper, state, steps) if width == 1 else beam(stepper, state, width, steps)


def search(flags: argparse.Namespace) -> None:
    steps, batches = flags.tokens, flags.batches
    if flags.run is None:
        model, settings = random_model()
        given = {b: [sources(b, 32)] for b in batches}
        tokens = [f"w{i}" for i in range(V)]
    else:
        model, settings, given, tokens = from_run(flags)
    peer = marian_of(model, settings)
    engines = ctranslate2_of(model, tokens, flags.threads)
    for ends in (True, False) if flags.run is None else (False,):
        if flags.run is None:
            print(f"targets {'as long as their sources' if ends else f'of {steps} tokens'}:")
        for b in batches:
            for width in (1, 5):
                one_search(model, peer, {} if ends else engines, given[b], width, steps, tokens, ends, flags)


def one_search(
    model: TransformerSeq2Seq, peer: Any, engines: dict[str, Any], given: list[Source], width: int, steps: int,
    tokens: list[str], ends: bool, flags: argparse.Namespace,
) -> None:  # fmt: skip
    def ours() -> list[tuple[int, ...]]:
        return [row[0].ids for source in given for row in translate(model, source, width, steps, ends)]

    def theirs() -> list[tuple[int, ...]]:
        found = []
        for source in given:
            mask = (torch.arange(source.ids.shape[1]) < source.lengths[:, None]).long()
            options: dict[str, Any] = {"num_beams": width, "length_penalty": 0.0} if width > 1 else {"num_beams": 1}
            if ends:
                due = source.lengths.repeat_interleave(width)
                options["logits_processor"] = [lambda ids, x, due=due: ended(x, due == ids.shape[1] - 1, model.end)]
            with torch.inference_mode():
                rows = peer.generate(source.ids, attention_mask=mask, max_new_tokens=steps, do_sample=False, **options)
            found += [tuple(i for i in row[1:].tolist() if i not in (PAD, model.end)) for row in rows]
        return found

    a, z = compared(ours, theirs, flags)
    same = [x == y for x, y in zip(ours(), theirs(), strict=True)]
    other_ratios = []
    for name, engine in engines.items():
        texts = [
            [[tokens[i] for i in row[:n]] for row, n in zip(s.ids.tolist(), s.lengths.tolist(), strict=True)]
            for s in given
        ]

        def there(engine: Any = engine, texts: Any = texts) -> None:
            for batch in texts:
                engine.translate_batch(
                    batch, beam_size=width, max_decoding_length=steps, length_penalty=0, min_decoding_length=0
                )

        mine, other = compared(ours, there, flags)
        other_ratios.append(f"{name} {ratio(mine, other):.2f}")
    n = sum(len(s) for s in given)
    print(
        f"{'greedy' if width == 1 else f'beam {width}'}, batch {len(given[0])}: Catena "
        f"{1e3 * statistics.median(a) / n:.1f} ms per sentence, transformers {1e3 * statistics.median(z) / n:.1f}; "
        f"{format_ratios(a, z)}; equal tokens in {sum(same)} of {n}"
        + (f"; CTranslate2's time to ours: {', '.join(other_ratios)}" if other_ratios else ""),
        flush=True,
    )


def fixed_length_runs(b: int, width: int, steps: int, int8: bool = False) -> dict[str, Callable[[], Any]]:
    """Searches of one batch with targets of ``steps`` tokens: Catena's, and those of the peers that are installed."""
    model, settings = random_model()
    source = sources(b, 32)
    tokens = [f"w{i}" for i in range(V)]
    runs: dict[str, Callable[[], Any]] = {"catena": lambda: translate(model, source, width, steps)}
    if not int8 and importlib.util.find_spec("transformers"):
        peer = marian_of(model, settings)
        mask = (torch.arange(source.ids.shape[1]) < source.lengths[:, None]).long()
        options = {"max_new_tokens": steps, "do_sample": False, "num_beams": width, "length_penalty": 0.0}
        runs["transformers"] = torch.inference_mode()(lambda: peer.generate(source.ids, attention_mask=mask, **options))
    if importlib.util.find_spec("ctranslate2"):
        kind = "8 bits" if int8 else "single precision"
        engine = ctranslate2_of(model, tokens, 1)[kind]
        texts = [
            [tokens[i] for i in row[:n]] for row, n in zip(source.ids.tolist(), source.lengths.tolist(), strict=True)
        ]
        runs[f"CTranslate2, {kind}"] = lambda: engine.translate_batch(
            texts, beam_size=width, max_decoding_length=steps, length_penalty=0, min_decoding_length=0
        )
    if int8:
        quantize_int8_(model)
    return runs


def from_run(
    flags: argparse.Namespace,
) -> tuple[TransformerSeq2Seq, TransformerSeq2SeqConfig, dict[int, list[Source]], list[str]]:
    """Return a trained run and the first sentences of a file in batches, in order."""
    from catena.tasks.runs import load_task

    task: Any = load_task(flags.run, "cpu")
    model, encoding = task.translator, task.encoding
    lines = flags.source.read_text(encoding="utf-8").splitlines()[: flags.sentences]
    rows = [encoding.code(encoding.source.tokenizer.tokens(line)).ids for line in lines]
    given: dict[int, list[Source]] = {}
    for b in flags.batches:
        given[b] = []
        for low in range(0, len(rows), b):
            some = [torch.from_numpy(row) for row in rows[low : low + b]]
            ids = nn.utils.rnn.pad_sequence(some, batch_first=True)
            given[b].append(Source(ids, torch.tensor([len(row) for row in some])))
    vocabulary = encoding.target.vocabulary
    return model, task.config.model, given, vocabulary.tokens(range(len(vocabulary)))


def ctranslate2_of(model: TransformerSeq2Seq, tokens: list[str], threads: int) -> dict[str, Any]:
    import ctranslate2

    from catena.export.ctranslate2 import SpecialTokenNames, to_ctranslate2

    engines = {}
    for name, quantization in (("single precision", None), ("8 bits", "int8")):
        folder = Path(tempfile.mkdtemp()) / "model"
        to_ctranslate2(model, SpecialTokenNames(tokens, tokens, tokens[1]), folder, quantization)
        engines[name] = ctranslate2.Translator(str(folder), "cpu", inter_threads=1, intra_threads=threads)
    return engines


# --- memory and prefixes ----------------------------------------------------------------------------------------------


def memory(flags: argparse.Namespace) -> None:
    for b, s in ((8, 32), (16, 32), (32, 32), (8, 64), (8, 128)):
        model = build_transformer(settings_of("pre", 0.1), SIDES)
        source = sources(b, s)
        kept = 0

        def count(x: Tensor) -> Tensor:
            nonlocal kept
            kept += x.numel() * x.element_size()
            return x

        with torch.autograd.graph.saved_tensors_hooks(count, lambda x: x):
            model.loss(source, source.ids, source.lengths).backward()
        print(f"training, batch {b}, length {s}: {kept / 2**20:.0f} MB saved for the backward pass", flush=True)
    model, _ = random_model()
    for b, steps in ((4, 32), (8, 32), (4, 64)):
        tracemalloc.start()
        translate(model, sources(b, 20), 5, steps)
        print(f"beam 5, {b} sources, {steps} steps: {tracemalloc.get_traced_memory()[1] / 2**20:.1f} MB peak")
        tracemalloc.stop()


def prefix(flags: argparse.Namespace) -> None:
    model, _ = random_model()
    stepper = model.stepper(sources(4, 20))
    state = stepper.select(stepper.start(4), torch.arange(4).repeat_interleave(5))
    turned = torch.arange(20).view(4, 5).flip(1).flatten()
    same = 5 * torch.arange(4).repeat_interleave(5)

    def onward(state: Any) -> Any:
        return stepper.advance(stepper.select(state, turned), torch.randint(4, V, (20,)))

    first, read = (0.0, 0.0), 1
    for t in (16, 64, 128, 256):
        found: tuple[list[float], list[float]] = ([], [])
        for place in range(t, t + 32, 8):  # blocks of positions are full at some lengths and begin at others
            while read < place:
                state, read = onward(state), read + 1
            shared = stepper.select(state, same)
            for _ in range(OWN):
                shared = onward(shared)
            for times, given in zip(found, (state, shared), strict=True):
                for turn in range(2 * flags.rounds):
                    began = clock(flags)
                    stepper.top_log_probs(onward(given), 6)
                    times += [clock(flags) - began] if turn else []  # the first run refills the caches
        none, most = (1e3 * statistics.median(times) for times in found)
        first = (none, most) if t == 16 else first
        print(
            f"a step of 4 beams of 5 after {t} to {t + 31} tokens: {none:.2f} ms without a common prefix "
            f"({none / first[0]:.2f} times that of the first), {most:.2f} ms if only the last {OWN} differ "
            f"({most / first[1]:.2f})",
            flush=True,
        )


# --- measuring --------------------------------------------------------------------------------------------------------


def clock(flags: argparse.Namespace) -> float:
    """Return process time with one thread, wall time otherwise; threads of other engines are included."""
    return time.process_time() if flags.threads == 1 else time.perf_counter()


def compared(
    ours: Callable[[], Any], theirs: Callable[[], Any], flags: argparse.Namespace
) -> tuple[list[float], list[float]]:
    """Return the seconds of both, alternating, after a warm-up run of each."""
    ours(), theirs()
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(flags.rounds):
        for times, run in zip(found, (ours, theirs), strict=True):
            began = clock(flags)
            run()
            times.append(clock(flags) - began)
    return found


def ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(y / x for x, y in zip(ours, theirs, strict=True))


def format_ratios(ours: list[float], theirs: list[float]) -> str:
    ratios = [y / x for x, y in zip(ours, theirs, strict=True)]
    least = min(theirs) / min(ours)
    return f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f}), by least times {least:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("parts", nargs="*", default=["train", "search", "memory", "prefix"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32, help="number of target tokens (at most, for runs)")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 32])
    parser.add_argument("--run", type=Path, default=None)
    parser.add_argument("--source", type=Path, default=None)
    parser.add_argument("--sentences", type=int, default=64)
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    parts = {"train": train, "search": search, "memory": memory, "prefix": prefix}
    for name in flags.parts:
        parts[name](flags)


if __name__ == "__main__":
    main()
