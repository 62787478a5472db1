"""Steps of a WaveNet on a CPU, compiled: all layers, the softmax and the choice of a level in one call.

The same functions as in :mod:`catena.kernels.wavenet.reference`. Single precision. Matrices are packed in panels
(:mod:`catena.kernels.linear.cpu`), so that weights are read once for all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import float32, types

from catena.kernels.common.jit import DOUBLES2, FLOATS, FLOATS2, LONGS, LONGS2, SUMS, jit_function, lazy_jit
from catena.kernels.common.simd import pointer_to
from catena.kernels.common.vector_math import exp_less
from catena.kernels.linear.cpu import PANEL_COLUMNS, add_tiles, pack_panels, put_product, round_up_to_panel

ZERO = np.float32(0)
ONE = np.float32(1)
TWO = np.float32(2)


class Panels(NamedTuple):
    """The weights of ``reference.StepWeights``, packed; biases are as wide as their panels."""

    embedding: np.ndarray
    taps: np.ndarray
    taps_bias: np.ndarray
    onward: np.ndarray
    onward_bias: np.ndarray
    skip: np.ndarray
    skip_bias: np.ndarray
    leave: np.ndarray
    leave_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray
    gaps: np.ndarray
    v: np.ndarray
    """The number of levels."""


class Buffers(NamedTuple):
    """Arrays of a step, for all rows."""

    x: np.ndarray
    taps: np.ndarray
    gates: np.ndarray
    gated: np.ndarray
    """The gated units of all layers."""
    exponents: np.ndarray
    powers: np.ndarray
    skip: np.ndarray
    hidden: np.ndarray
    logits: np.ndarray


FLOATS3, FLOATS4 = (types.Array(float32, n, "C") for n in (3, 4))
_PANELS = types.NamedTuple(
    (FLOATS2, FLOATS4, FLOATS2, FLOATS4, FLOATS2, FLOATS3, FLOATS, FLOATS3, FLOATS, FLOATS3, FLOATS, LONGS, LONGS),
    Panels,
)
_BUFFERS = types.NamedUniTuple(FLOATS2, 9, Buffers)


def pack(weights: Mapping[str, np.ndarray], gaps: Sequence[int]) -> Panels:
    """Copies of weights, packed for :func:`read_` and :func:`generate_`.

    Args:
        weights: the matrices and biases of ``reference.StepWeights`` by name.
        gaps: the dilation of each layer.
    """
    matrices = {name: pack_panels(weights[name]) for name in ("skip", "leave", "output")}
    stacks = {name: np.stack([pack_panels(x) for x in weights[name]]) for name in ("taps", "onward")}
    biases = {name: _widen(x) for name, x in weights.items() if name.endswith("bias")}
    embedding = _widen(weights["embedding"])
    v = np.array([len(embedding)])
    return Panels(embedding=embedding, gaps=np.array(gaps), v=v, **matrices, **stacks, **biases)


def _widen(x: np.ndarray) -> np.ndarray:
    d = x.shape[-1]
    filled = np.zeros((*x.shape[:-1], round_up_to_panel(d)), np.float32)
    filled[..., :d] = x
    return filled


def make_buffers(panels: Panels, hidden: np.ndarray) -> Buffers:
    """Buffers for as many rows as ``hidden`` has, with a copy of it."""
    n = len(hidden)
    d_taps = panels.taps.shape[2]
    d = panels.onward.shape[2]
    wide = panels.embedding.shape[1]
    d2 = panels.taps_bias.shape[1]
    n_layers = len(panels.gaps)
    own = np.zeros((n, len(panels.leave_bias)), np.float32)
    own[:, : hidden.shape[1]] = hidden
    shapes = [(n, wide), (n, d_taps), (n, d2), (n, n_layers * d), (n, 2 * d), (n, 2 * d), (n, len(panels.skip_bias))]
    logits = np.empty((n, len(panels.output_bias)), np.float32)
    return Buffers._make([*(np.zeros(shape, np.float32) for shape in shapes), own, logits])


def read_(
    panels: Panels, queues: np.ndarray, time: np.ndarray, hidden: np.ndarray, levels: np.ndarray, biases: np.ndarray
) -> None:
    """Read given levels; ``biases`` is ``n k l d2``, or has no rows if there is no condition."""
    buffers = make_buffers(panels, hidden)
    _read_all(panels, buffers, queues, time, levels, biases)
    hidden[:] = buffers.hidden[:, : hidden.shape[1]]
    time += levels.shape[1]


def generate_(
    panels: Panels, queues: np.ndarray, time: np.ndarray, hidden: np.ndarray, uniforms: np.ndarray,
    temperature: float, biases: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Sample and read levels, which are returned."""
    buffers = make_buffers(panels, hidden)
    n, k = uniforms.shape
    levels = np.empty((n, k), np.int64)
    _generate_all(panels, buffers, queues, time, levels, biases, uniforms, np.float32(temperature))
    hidden[:] = buffers.hidden[:, : hidden.shape[1]]
    time += k
    return levels


@lazy_jit(_PANELS, _BUFFERS, FLOATS3, LONGS, LONGS2, FLOATS4, fastmath=SUMS, error_model="numpy")
def _read_all(panels: Any, buffers: Any, queues: Any, time: Any, levels: Any, biases: Any) -> None:
    for k in range(levels.shape[1]):
        _read_one(panels, buffers, queues, time, levels, biases, k)


@lazy_jit(
    _PANELS, _BUFFERS, FLOATS3, LONGS, LONGS2, FLOATS4, DOUBLES2, float32, fastmath=SUMS, error_model="numpy"
)  # fmt: skip
def _generate_all(
    panels: Any, buffers: Any, queues: Any, time: Any, levels: Any, biases: Any, uniforms: Any, temperature: Any
) -> None:
    powers = np.empty(panels.v[0], np.float32)
    for k in range(levels.shape[1]):
        put_product(buffers.hidden, panels.output, panels.output_bias, buffers.logits, 0, panels.output.shape[0])
        for r in range(levels.shape[0]):
            levels[r, k] = _choose(buffers.logits[r, : panels.v[0]], uniforms[r, k], temperature, powers)
        _read_one(panels, buffers, queues, time, levels, biases, k)


@jit_function(SUMS)
def _choose(logits: Any, uniform: Any, temperature: Any, powers: Any) -> Any:
    """The first level whose cumulative probability exceeds the uniform number; the most probable one at 0."""
    best = 0
    for i in range(logits.shape[0]):
        if logits[i] > logits[best]:
            best = i
    if temperature == ZERO:
        return best
    for i in range(logits.shape[0]):
        logits[i] = logits[i] / temperature
    exp_less(logits, logits[best], powers)
    total = 0.0
    for i in range(powers.shape[0]):
        total += powers[i]
    reached = uniform * total
    below = 0.0
    for i in range(powers.shape[0]):
        below += powers[i]
        if below > reached:
            return i
    return powers.shape[0] - 1


@jit_function(SUMS)
def _read_one(panels: Any, buffers: Any, queues: Any, time: Any, levels: Any, biases: Any, k: Any) -> None:
    """Read level ``k`` of each row, so that ``buffers.hidden`` predicts the next one."""
    x = buffers.x
    gates = buffers.gates
    gated = buffers.gated
    n = x.shape[0]
    d = panels.onward.shape[2]
    window = panels.taps.shape[2] // d
    for r in range(n):
        x[r] = panels.embedding[levels[r, k]]
    start = 0
    for layer in range(panels.gaps.shape[0]):
        size = (window - 1) * panels.gaps[layer]
        for r in range(n):
            _queue(x[r], queues[r], start, size, time[r] + k, panels.gaps[layer], d, buffers.taps[r])
        put_product(buffers.taps, panels.taps[layer], panels.taps_bias[layer], gates, 0, panels.taps.shape[1])
        if biases.shape[0]:
            for r in range(n):
                bias = biases[r % biases.shape[0], k % biases.shape[1], layer]
                for j in range(2 * d):
                    gates[r, j] += bias[j]
        for r in range(n):
            _gate(gates[r], buffers.exponents[r], buffers.powers[r], gated[r, layer * d : layer * d + d])
        for p in range(panels.onward.shape[1]):
            panel = pointer_to(panels.onward, (layer * panels.onward.shape[1] + p) * d * PANEL_COLUMNS)
            add_tiles(gated, layer * d, gated.shape[1], panel, d, x, p * PANEL_COLUMNS, x.shape[1], n)
        for r in range(n):
            for j in range(d):
                x[r, j] += panels.onward_bias[layer, j]
        start += size
    put_product(gated, panels.skip, panels.skip_bias, buffers.skip, 0, panels.skip.shape[0])
    _rectify(buffers.skip)
    put_product(buffers.skip, panels.leave, panels.leave_bias, buffers.hidden, 0, panels.leave.shape[0])
    _rectify(buffers.hidden)


@jit_function()
def _queue(x: Any, queue: Any, start: Any, size: Any, t: Any, gap: Any, d: Any, taps: Any) -> None:
    """Copy the window of position ``t`` to ``taps``, the oldest input first, and put ``x`` in the oldest one's slot."""
    at = 0
    for past in range(0, size, gap):
        slot = start + (t + past) % size
        for j in range(d):
            taps[at + j] = queue[slot, j]
        at += d
    slot = start + t % size
    for j in range(d):
        taps[at + j] = x[j]
        queue[slot, j] = x[j]


@jit_function(SUMS)
def _gate(gates: Any, exponents: Any, powers: Any, gated: Any) -> None:
    """tanh of the first half times the sigmoid of the second."""
    d = gated.shape[0]
    for j in range(d):
        exponents[j] = -TWO * abs(gates[j])
        exponents[d + j] = -abs(gates[d + j])
    exp_less(exponents, ZERO, powers)
    for j in range(d):
        value = (ONE - powers[j]) / (ONE + powers[j])
        gate = (ONE if gates[d + j] > ZERO else powers[d + j]) / (ONE + powers[d + j])
        gated[j] = (value if gates[j] > ZERO else -value) * gate


@jit_function()
def _rectify(x: Any) -> None:
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[r, j] = max(x[r, j], ZERO)
