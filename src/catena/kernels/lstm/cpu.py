r"""One direction of an LSTM layer, over sequences of several lengths without padding.

.. math::
    i, f, o = \sigma(\cdot) \quad g = \tanh(\cdot) \quad c_t = f \circ c_{t-1} + i \circ g \quad
    h_t = o \circ \tanh c_t, \qquad \cdot = U x_t + b + W h_{t-1}

Sequences are sorted by length, the longest first, and stored step by step: step t has a row for each sequence longer
than t. So the rows that have a previous state are the first ones of a step, in either direction, and a step is one
product with packed weights (:mod:`catena.kernels.linear.cpu`), which stay in the cache. Inputs are multiplied for as
many steps at a time as fit in a buffer.

Single precision. Time O(n d (d + d_in)), memory O(n d).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.jit import jit, jit_inline
from catena.kernels.common.simd import pointer_to
from catena.kernels.common.vector_math import exp_32
from catena.kernels.linear.cpu import PANEL_COLUMNS, add_tiles, put_product

_ONE, _TWO = np.float32(1), np.float32(2)
_FAR = np.float32(40)
"""A sigmoid of larger numbers is 0 or 1, and a product of two exponentials of this is still finite."""


@jit("2", "3", "3", "1", "i1", "b", "2", "2", "2", "i")
def run_lstm(
    x: Any, inputs: Any, recurrent: Any, bias: Any, starts: Any, backwards: Any, gates: Any, memory: Any, states: Any,
    column: Any,
) -> None:  # fmt: skip
    """Write the states of one direction of a layer.

    Args:
        x: the inputs, ``n d_in``.
        inputs: packed weights of the inputs, for the gates i, f, g, o.
        recurrent: packed weights of the previous states.
        bias: as wide as the packed weights.
        starts: the first row of each step, then n.
        backwards: whether steps are taken from the last to the first.
        gates: scratch, as wide as the packed weights, with at least as many rows as the first step.
        memory: zeros, ``b d``; the last c of each sequence afterwards.
        states: the result, in ``d`` columns from ``column`` on.
        column: the first column.
    """
    n_steps = starts.shape[0] - 1
    d = memory.shape[1]
    taken, before, n_before = 0, 0, 0
    while taken < n_steps:
        end = _fill(gates, starts, taken, backwards)
        low = starts[n_steps - end if backwards else taken]
        high = starts[n_steps - taken if backwards else end]
        put_product(x[low:high], inputs, bias, gates, 0, inputs.shape[0])
        for s in range(taken, end):
            t = n_steps - 1 - s if backwards else s
            row, n = starts[t], starts[t + 1] - starts[t]
            for p in range(recurrent.shape[0]):
                add_tiles(
                    states, before * states.shape[1] + column, states.shape[1],
                    pointer_to(recurrent, p * d * PANEL_COLUMNS), d,
                    gates, (row - low) * gates.shape[1] + p * PANEL_COLUMNS, gates.shape[1], min(n, n_before),
                )  # fmt: skip
            for r in range(n):
                _step(gates[row - low + r], memory[r], states[row + r, column : column + d])
            before, n_before = row, n
        taken = end


@jit_inline()
def _fill(gates: Any, starts: Any, taken: Any, backwards: Any) -> Any:
    """The end of the steps from ``taken`` on whose rows fit in the buffer, at least one step."""
    n_steps = starts.shape[0] - 1
    end, n = taken, 0
    while end < n_steps:
        t = n_steps - 1 - end if backwards else end
        n += starts[t + 1] - starts[t]
        if n > gates.shape[0]:
            break
        end += 1
    return end


@jit_inline({"contract"})
def _step(gates: Any, memory: Any, states: Any) -> None:
    """c and h of one row, from the sums of its gates. Views have no negative indices, which would prevent vectors."""
    d = memory.shape[0]
    of_i, of_f, of_g, of_o = gates[:d], gates[d : 2 * d], gates[2 * d : 3 * d], gates[3 * d : 4 * d]
    for j in range(d):
        i, f, g, o = _exp_minus(of_i[j]), _exp_minus(of_f[j]), _exp_minus(_TWO * of_g[j]), _exp_minus(of_o[j])
        c = memory[j] / (_ONE + f) + (_ONE - g) / ((_ONE + i) * (_ONE + g))
        e = _exp_minus(_TWO * c)
        memory[j] = c
        states[j] = (_ONE - e) / ((_ONE + o) * (_ONE + e))


@jit_inline({"contract"})
def _exp_minus(x: Any) -> Any:
    """exp(-x) for the nearest x in [-40, 40]; nan stays nan."""
    y = -x
    y = _FAR if y > _FAR else y
    y = -_FAR if y < -_FAR else y
    return exp_32(y)
