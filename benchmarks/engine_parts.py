"""Each part of the CPU engine beside plain Numba and torch, on one thread.

    python benchmarks/engine_parts.py [--rounds 7] [--only product attention]

All contestants of a case alternate in one process, so that a busy machine slows all of them. Printed are the least CPU
time of the engine in microseconds, and for each other contestant the median over rounds of its time divided by the time
of the engine in the same round: above 1 the engine is faster. ``src/catena/engine/README.md`` has the last table.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from catena.encoders.build import build_causal
from catena.encoders.config import TransformerConfig
from catena.encoders.transformer_step import FlatPlan
from catena.engine import compile_decoder, compile_encoder, quantize_int8_
from catena.engine.cpu_attention import attend_rows
from catena.engine.cpu_kv_blocks import BLOCK, attend_shared_blocks, pack
from catena.kernels.common.jit import MAXIMA, SUMS, jit, jit_function
from catena.kernels.common.simd import largest_among, mass, round_up_to_vector
from catena.kernels.common.vector_math import exp_less
from catena.kernels.linear.cpu import multiply, pack_panels
from catena.kernels.linear.int8_weight import Int8Matrix
from catena.kernels.top_k.ops import largest
from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.config import TransformerSeq2SeqConfig
from catena.seq2seq.transformer import build_transformer
from catena.seq2seq.transformer_stepper import TransformerStepper

Contestants = dict[str, Callable[[], object]]
PARTS: dict[str, Callable[[], Iterator[tuple[str, Contestants]]]] = {}


def part(function: Callable[[], Iterator[tuple[str, Contestants]]]) -> Callable[[], Iterator[tuple[str, Contestants]]]:
    PARTS[function.__name__] = function
    return function


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# --- plain Numba ------------------------------------------------------------------------------------------------------


@jit("2", "2", "2", fastmath=SUMS)
def numba_product(x: Any, w: Any, y: Any) -> None:
    for r in range(x.shape[0]):
        for j in range(w.shape[1]):
            y[r, j] = 0
        for i in range(w.shape[0]):
            value = x[r, i]
            for j in range(w.shape[1]):
                y[r, j] += value * w[i, j]


@jit("2", "c2", "1", "2", fastmath=SUMS)
def numba_product_int8(x: Any, w: Any, scales: Any, y: Any) -> None:
    """``w`` is ``d_out d_in``."""
    q = np.empty(x.shape[1], np.int8)
    for r in range(x.shape[0]):
        most = np.float32(0)
        for i in range(x.shape[1]):
            most = max(most, abs(x[r, i]))
        scale = most / np.float32(127)
        for i in range(x.shape[1]):
            q[i] = np.int8(np.rint(x[r, i] / scale))
        for j in range(w.shape[0]):
            total = np.int32(0)
            for i in range(x.shape[1]):
                total += np.int32(q[i]) * np.int32(w[j, i])
            y[r, j] = np.float32(total) * scale * scales[j]


@jit_function(SUMS)
def _numba_look(query: Any, keys: Any, values: Any, offsets: Any, size: Any, scale: Any, scores: Any, y: Any) -> None:
    most = np.float32(-np.inf)
    for s in range(size):
        total = np.float32(0)
        for j in range(query.shape[0]):
            total += query[j] * keys[offsets[s] + j]
        scores[s] = total * scale
        most = max(most, scores[s])
    weights = np.empty(size, np.float32)
    exp_less(scores, most, weights)
    total = np.float32(0)
    for s in range(size):
        total += weights[s]
    for j in range(y.shape[0]):
        y[j] = 0
    for s in range(size):
        weight = weights[s] / total
        for j in range(y.shape[0]):
            y[j] += weight * values[offsets[s] + j]


@jit("2", "1", "1", "i1", "i", "i", "1", "2", fastmath=SUMS)
def numba_attention(
    queries: Any, keys: Any, values: Any, offsets: Any, size: Any, d_head: Any, scores: Any, found: Any
) -> None:
    scale = np.float32(1) / np.sqrt(np.float32(d_head))
    for r in range(found.shape[0]):
        for low in range(0, found.shape[1], d_head):
            at = slice(low, low + d_head)
            _numba_look(queries[r, at], keys[low:], values[low:], offsets, size, scale, scores, found[r, at])


@jit("2", "1", "1", "i1", "i", "i", "1", "2", fastmath=SUMS)
def engine_attention(
    queries: Any, keys: Any, values: Any, offsets: Any, size: Any, d_head: Any, scores: Any, found: Any
) -> None:
    heads = found.shape[1] // d_head, found.shape[1] // d_head, d_head, d_head
    attend_rows(queries, keys, values, offsets, size, heads, scores, found)


@jit("1", "1", fastmath=SUMS | MAXIMA)
def numba_reductions(row: Any, result: Any) -> None:
    most = row[0]
    for j in range(row.shape[0]):
        most = max(most, row[j])
    powers = np.empty(row.shape[0], np.float32)
    exp_less(row, most, powers)
    total = np.float32(0)
    for j in range(row.shape[0]):
        total += powers[j]
    result[0] = total


@jit("1", "1")
def engine_reductions(row: Any, result: Any) -> None:
    result[0] = mass(row, largest_among(row, 0, row.shape[0]))


# --- parts ------------------------------------------------------------------------------------------------------------


@part
def product() -> Iterator[tuple[str, Contestants]]:
    """x W for few rows."""
    for d_in, d_out in ((256, 1024), (512, 512), (512, 2048), (2048, 512), (512, 10_000)):
        w = floats(d_in, d_out)
        panels, weight = pack_panels(w), torch.from_numpy(np.ascontiguousarray(w.T))
        zeros = np.zeros(len(panels) * 32, np.float32)
        for n in (1, 4, 16, 64):
            x, y = floats(n, d_in), np.empty((n, len(panels) * 32), np.float32)
            z, rows = np.empty((n, d_out), np.float32), torch.from_numpy(x)
            yield (
                f"{n} x {d_in} x {d_out}",
                {
                    "engine": lambda x=x, panels=panels, o=zeros, y=y: multiply(x, panels, o, y, 0, len(panels)),
                    "numba": lambda x=x, w=w, z=z: numba_product(x, w, z),
                    "torch": lambda rows=rows, weight=weight: F.linear(rows, weight),
                },
            )


@part
def product_int8() -> Iterator[tuple[str, Contestants]]:
    """x W in 8 bits; torch has float weights, and its own dynamic quantization."""
    torch.backends.quantized.engine = "fbgemm" if "fbgemm" in torch.backends.quantized.supported_engines else "onednn"
    for d_in, d_out in ((512, 512), (512, 2048), (512, 10_000)):
        weight = torch.from_numpy(floats(d_out, d_in))
        matrix = Int8Matrix.of(weight)
        numbers, scales = (np.ascontiguousarray(x) for x in matrix.numbers())
        linear = torch.nn.Linear(d_in, d_out)
        linear.weight.data = weight
        dynamic = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(linear), {torch.nn.Linear})
        for n in (1, 5, 16, 64):
            x = torch.from_numpy(floats(n, d_in))
            rows, z = x.numpy(), np.empty((n, d_out), np.float32)
            yield (
                f"{n} x {d_in} x {d_out}",
                {
                    "engine": lambda x=x, matrix=matrix: matrix.linear(x),
                    "numba": lambda rows=rows, w=numbers, s=scales, z=z: numba_product_int8(rows, w, s, z),
                    "torch float": lambda x=x, weight=weight: F.linear(x, weight),
                    "torch int8": lambda x=x, dynamic=dynamic: dynamic(x),
                },
            )


@part
def attention() -> Iterator[tuple[str, Contestants]]:
    """Queries of rows that attend to the same positions, 8 heads."""
    for d_head in (32, 64):
        d = 8 * d_head
        for n, size in ((1, 16), (1, 64), (1, 256), (5, 16), (5, 64), (5, 256)):
            queries, keys, values = floats(n, d), floats(size, d, seed=1), floats(size, d, seed=2)
            wide = int(round_up_to_vector(size))
            offsets = np.zeros(wide, np.int64)
            offsets[:size] = np.arange(size) * d
            scores, found = np.empty(n * wide, np.float32), np.empty((n, d), np.float32)
            given = (queries, keys.ravel(), values.ravel(), offsets, size, d_head, scores, found)
            heads = [torch.from_numpy(x).view(len(x), 8, d_head).transpose(0, 1)[None] for x in (queries, keys, values)]
            yield (
                f"{n} rows, {size} positions, {d_head} features",
                {
                    "engine": lambda given=given: engine_attention(*given),
                    "numba": lambda given=given: numba_attention(*given),
                    "torch": lambda heads=heads: F.scaled_dot_product_attention(*heads),
                },
            )


@jit("2", "3", "3", "i2", "i1", "f5", "i2", "1", "i1", "1", "2", fastmath=SUMS)
def blocks_attention(
    queries: Any, keys: Any, values: Any, entries: Any, begins: Any, blocks: Any, ids: Any, scores: Any, offsets: Any,
    masses: Any, found: Any,
) -> None:  # fmt: skip
    attend_shared_blocks(queries, keys, values, entries, begins, blocks, 0, ids, scores, offsets, masses, found)


@jit("2", "1", "1", "i2", "i", "i", "i1", "1", "2", fastmath=SUMS)
def rows_attention(
    queries: Any, keys: Any, values: Any, entries: Any, d_head: Any, size: Any, offsets: Any, scores: Any, found: Any
) -> None:
    """Each row at its own positions."""
    d = found.shape[1]
    heads = d // d_head, d // d_head, d_head, d_head
    for r in range(found.shape[0]):
        for s in range(size):
            offsets[s] = entries[r, s] * d
        attend_rows(queries[r : r + 1], keys, values, offsets, size, heads, scores, found[r : r + 1])


@jit("3", "3", "i1", "f3")
def pack_block(keys: Any, values: Any, entries: Any, block: Any) -> None:
    pack(keys, values, entries, block)


@part
def shared_blocks() -> Iterator[tuple[str, Contestants]]:
    """Rows of a beam whose first positions are the same, 8 heads of 32; plain: each row by itself."""
    d_head, d = 32, 256
    for n, size in ((5, 64), (5, 256), (5, 1024), (16, 256)):
        keys, values, queries = floats(size, 8, d_head), floats(size, 8, d_head, seed=1), floats(n, d, seed=2)
        k = size // BLOCK
        blocks = np.empty((k, 1, 2, 8, BLOCK * d_head), np.float32)
        for i in range(k):
            pack_block(keys, values, np.arange(i * BLOCK, (i + 1) * BLOCK), blocks[i, 0])
        entries, ids = np.tile(np.arange(size), (n, 1)), np.tile(np.arange(k), (n, 1))
        wide = int(round_up_to_vector(size))
        scores, offsets = np.empty(8 * n * wide, np.float32), np.empty(n * wide, np.int64)
        masses, found = np.empty(8 * n, np.float32), np.empty((n, d), np.float32)
        begins = np.zeros(n, np.int64)
        with_blocks = (queries, keys, values, entries, begins, blocks, ids, scores, offsets, masses, found)
        by_row = (queries, keys.ravel(), values.ravel(), entries, d_head, size, offsets, scores, found)
        heads = [torch.from_numpy(x.reshape(len(x), 8, d_head)).transpose(0, 1)[None] for x in (queries, keys, values)]
        yield (
            f"{n} rows, {size} positions",
            {
                "engine": lambda given=with_blocks: blocks_attention(*given),
                "without blocks": lambda given=by_row: rows_attention(*given),
                "torch": lambda heads=heads: F.scaled_dot_product_attention(*heads),
            },
        )


@part
def reductions() -> Iterator[tuple[str, Contestants]]:
    """The sum of exponentials of a row less its maximum."""
    for v in (256, 1024, 10_240, 51_200):
        row, result = floats(v), np.empty(1, np.float32)
        tensor = torch.from_numpy(row)
        yield (
            f"{v}",
            {
                "engine": lambda row=row, result=result: engine_reductions(row, result),
                "numba": lambda row=row, result=result: numba_reductions(row, result),
                "torch": lambda tensor=tensor: tensor.logsumexp(0),
            },
        )


@part
def top_log_probs_int8() -> Iterator[tuple[str, Contestants]]:
    """Log-probabilities of the 5 best words of each row; in two steps: log-softmax, then the largest."""
    for v in (10_000, 32_000):
        weight = torch.from_numpy(floats(v, 512)) * 0.05
        bias, matrix = torch.zeros(v), Int8Matrix.of(weight)
        for n in (1, 5, 16, 80):
            x = torch.from_numpy(floats(n, 512))
            yield (
                f"{n} rows, {v} words",
                {
                    "engine": lambda x=x, bias=bias, m=matrix: m.top_log_probs(x, bias, 5),
                    "two steps": lambda x=x, bias=bias, m=matrix: largest(m.linear(x, bias).log_softmax(1), 5),
                    "torch float": lambda x=x, w=weight, bias=bias: F.linear(x, w, bias).log_softmax(1).topk(5),
                },
            )


@part
def top_k() -> Iterator[tuple[str, Contestants]]:
    for v in (256, 1000, 10_000, 50_000):
        for n in (1, 16):
            x = torch.from_numpy(floats(n, v))
            yield (
                f"{n} x {v}",
                {"engine": lambda x=x: largest(x, 8), "torch": lambda x=x: x.topk(8, dim=1)},
            )


@part
def encoder_step() -> Iterator[tuple[str, Contestants]]:
    """One position more of a causal Transformer, after 64 positions, with and without 8 bits."""
    for d, n_layers in ((256, 4), (512, 6)):
        config = TransformerConfig(d=d, n_heads=d // 64, n_layers=n_layers, d_ff=4 * d, causal=True, max_length=256)
        model, model8 = (build_causal(config, d).eval() for _ in range(2))
        quantize_int8_(model8)
        flat = FlatPlan(list(model.layers), model.leave)
        for b in (1, 5, 16):
            x, history = torch.randn(b, d), torch.randn(b, 64, d)
            cache = model.continue_(history, model.begin(b, x.device, x.dtype))[1].grown(1)
            compiled, compiled8 = compile_encoder(model), compile_encoder(model8)
            assert compiled is not None
            assert compiled8 is not None
            yield (
                f"{b} rows, {n_layers} layers of {d}",
                {
                    "engine": lambda x=x, cache=cache, plan=compiled: plan.step(x, cache),
                    "engine int8": lambda x=x, cache=cache, plan=compiled8: plan.step(x, cache),
                    "torch": lambda x=x, cache=cache, plan=flat: plan.step(x, cache),
                    "modules": lambda x=x, cache=cache, model=model: modules_step(model, x, cache),
                },
            )


def modules_step(model: Any, x: torch.Tensor, cache: Any) -> torch.Tensor:
    """The reference implementation of a step."""
    y = x[:, None]
    for i, layer in enumerate(model.layers):
        y = layer(y, lambda seen, i=i, own=layer.attention: own.continued(seen, cache, i, cache.mask(1)))
    return model.leave(y)


@part
def decoder_step() -> Iterator[tuple[str, Contestants]]:
    """20 steps of a beam of 5 over 3 layers of 256 and 8,000 words, without the search itself."""
    config = TransformerSeq2SeqConfig(d=256, n_heads=4, n_encoder_layers=1, n_decoder_layers=3, d_ff=1024)
    sides = VocabularyInfo(n_source=8000, counts=[1] * 8000, begin=1, end=2)
    model, model8 = (build_transformer(config, sides).eval() for _ in range(2))
    quantize_int8_(model8)
    for b in (1, 16):
        source = Source(torch.randint(3, 8000, (b, 20)), torch.full((b,), 20))
        parts = (model.embedded, model.decoder, model.output, model.begin, model.end, model.encode(source))
        steppers = {
            "engine": compile_decoder(model, source),
            "engine int8": compile_decoder(model8, source),
            "torch": TransformerStepper(*parts),
        }
        yield f"{b} sources", {name: lambda s=stepper, b=b: beam_steps(s, b) for name, stepper in steppers.items()}


def beam_steps(stepper: Any, b: int) -> None:
    state = stepper.select(stepper.start(b), torch.arange(b).repeat_interleave(5))
    rows = torch.arange(5 * b).view(b, 5)[:, [0, 0, 1, 2, 4]].flatten()
    for _ in range(20):
        _, ids = stepper.top_log_probs(state, 5)
        state = stepper.advance(stepper.select(state, rows), ids[:, 0])


# --- measuring --------------------------------------------------------------------------------------------------------


def seconds(run: Callable[[], object], times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        run()
    return (time.thread_time() - start) / times


def measure(contestants: Contestants, rounds: int) -> str:
    for run in contestants.values():
        run()
    times = max(1, int(0.02 / max(1e-6, seconds(contestants["engine"], 3))))
    listed: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            listed[name].append(seconds(run, times))
    text = f"{min(listed['engine']) * 1e6:9.1f} µs"
    for name, own in listed.items():
        if name != "engine":
            ratios = [b / a for a, b in zip(listed["engine"], own, strict=True)]
            text += f"   {name} {statistics.median(ratios):5.2f}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    flags = parser.parse_args()
    torch.set_num_threads(1)
    with torch.inference_mode(), torch.no_grad():
        for name in flags.only:
            print(f"\n{name}")
            for case, contestants in PARTS[name]():
                print(f"  {case:42} {measure(contestants, flags.rounds)}", flush=True)


if __name__ == "__main__":
    main()
