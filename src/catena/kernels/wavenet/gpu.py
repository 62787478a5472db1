"""Generation with a WaveNet on a GPU: one persistent program for each row runs all steps and layers (Triton).

The same function as in :mod:`catena.kernels.wavenet.reference`. A step has two dependent products for each layer, so
launches, not arithmetic, would limit a kernel for each product; here a single block of threads reads all weights again
at every step, from the L2 cache. Vectors alternate between the two axes of the matrices: a product reduces the first
axis, the next one the second axis, so that no vector has to be transposed between threads. The products of the skip
connections are summed elementwise over the layers and reduced once.

Any dtype of weights; sums are in float32. Windows of two positions, and sizes that are powers of two.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ShapeError
from catena.kernels.wavenet.reference import Biases, Step, StepWeights

MIN_SIZE, MAX_SIZE = 16, 256
_SHARED_BYTES = 200_000
"""Shared memory for the weights of the next layer; a block of an H100 or H200 has 227 KiB."""


class GPUWeights(NamedTuple):
    """The weights of :class:`StepWeights`; matrices whose second axis is reduced are transposed."""

    embedding: Tensor
    taps: Tensor
    taps_bias: Tensor
    onward: Float[Tensor, "l d_out d_in"]
    onward_bias: Tensor
    skip: Float[Tensor, "l d_skip d"]
    skip_bias: Tensor
    leave: Tensor
    leave_bias: Tensor
    output: Float[Tensor, "v d_skip"]
    output_bias: Tensor
    gaps: Int[Tensor, " l"]


class Launch(NamedTuple):
    """How a program is compiled; measured by benchmarks/wavenet_generation.py."""

    num_warps: int = 8
    num_stages: int = 2
    """Buffers for the weights of layers; with 2, those of the next layer are fetched during the current one."""


def choose_launch(weights: GPUWeights) -> Launch:
    """Fetch the weights of the next layer ahead if they fit in shared memory."""
    size = sum(x[0].numel() * x.element_size() for x in (weights.taps, weights.onward, weights.skip))
    return Launch(num_stages=2 if size <= _SHARED_BYTES else 1)


def supports(weights: StepWeights) -> bool:
    """Whether the kernel can run these sizes."""
    sizes = (*weights.embedding.shape, weights.skip.shape[1])
    powers = all(MIN_SIZE <= size <= MAX_SIZE and size & (size - 1) == 0 for size in sizes)
    return powers and weights.taps.shape[1] == 2 * weights.embedding.shape[1] and len(weights.gaps) > 1


def pack(weights: StepWeights) -> GPUWeights:
    """Copies of weights for :func:`generate_`."""
    if not supports(weights):
        raise ShapeError(
            f"The sizes of a WaveNet must be powers of two from {MIN_SIZE} to {MAX_SIZE} and its window 2, got d = "
            f"{weights.embedding.shape[1]} and d_skip = {weights.skip.shape[1]}. Use the reference implementation."
        )
    n_layers = len(weights.gaps)
    d = weights.embedding.shape[1]
    shared = {name: getattr(weights, name) for name in GPUWeights._fields if name != "gaps"}
    shared["onward"] = weights.onward.transpose(1, 2).contiguous()
    shared["skip"] = weights.skip.view(n_layers, d, -1).transpose(1, 2).contiguous()
    shared["output"] = weights.output.t().contiguous()
    return GPUWeights(**shared, gaps=torch.tensor(weights.gaps, device=weights.embedding.device))


def generate_(
    weights: GPUWeights,
    step: Step,
    uniforms: Float[Tensor, "n k"],
    temperature: float = 1.0,
    biases: Biases | None = None,
    launch: Launch | None = None,
) -> Int[Tensor, "n k"]:
    """Sample and read levels, as :func:`catena.kernels.wavenet.reference.generate_`."""
    n, k = uniforms.shape
    launch = launch or choose_launch(weights)
    levels = torch.empty(n, k, dtype=torch.int64, device=uniforms.device)
    if not n or not k:
        return levels
    n_layers, d2 = weights.taps_bias.shape
    given = weights.taps_bias if biases is None else biases.contiguous()
    strides = (0, 0)
    if biases is not None:
        strides = (0 if given.shape[0] == 1 else given.stride(0), 0 if given.shape[1] == 1 else given.stride(1))
    assert step.queues.is_contiguous()
    assert step.hidden.is_contiguous()
    _generate_rows[(n,)](
        *weights, step.queues, step.time, step.hidden, levels, uniforms.float().contiguous(), given, *strides,
        k, step.queues.stride(0), 1.0 / temperature if temperature else 1.0,
        N_LAYERS=n_layers, D=d2 // 2, D_SKIP=weights.leave.shape[0], V=len(weights.output), GREEDY=temperature == 0,
        CONDITIONED=biases is not None, STAGES=launch.num_stages, num_warps=launch.num_warps,
    )  # fmt: skip
    step.time.add_(k)
    return levels


@triton.jit
def _tile(pointer: tl.tensor, rows: tl.tensor, columns: tl.tensor, stride: tl.tensor) -> tl.tensor:
    """A matrix of float32."""
    return tl.load(pointer + rows[:, None] * stride + columns[None, :]).to(tl.float32)


@triton.jit
def _choose(
    logits: tl.tensor, uniform: tl.tensor, inverse: tl.tensor, V: tl.constexpr, GREEDY: tl.constexpr
) -> tl.tensor:
    """The first level whose cumulative probability exceeds the uniform number."""
    if GREEDY:
        return tl.argmax(logits, axis=0)
    scaled = logits * inverse
    edges = tl.cumsum(tl.exp(scaled - tl.max(scaled, axis=0)), axis=0)
    total = tl.max(edges, axis=0)
    level = tl.sum((edges <= uniform * total).to(tl.int32), axis=0)
    return tl.minimum(level, V - 1)


@triton.jit
def _generate_rows(
    embedding: tl.tensor, taps: tl.tensor, taps_bias: tl.tensor, onward: tl.tensor, onward_bias: tl.tensor,
    skip: tl.tensor, skip_bias: tl.tensor, leave: tl.tensor, leave_bias: tl.tensor, output: tl.tensor,
    output_bias: tl.tensor, gaps: tl.tensor, queues: tl.tensor, times: tl.tensor, hiddens: tl.tensor,
    levels: tl.tensor, uniforms: tl.tensor, biases: tl.tensor, bias_row: tl.tensor, bias_step: tl.tensor,
    n_steps: tl.tensor, queue_row: tl.tensor, inverse: tl.tensor,
    N_LAYERS: tl.constexpr, D: tl.constexpr, D_SKIP: tl.constexpr, V: tl.constexpr, GREEDY: tl.constexpr,
    CONDITIONED: tl.constexpr, STAGES: tl.constexpr,
) -> None:  # fmt: skip
    """All steps of one row."""
    row = tl.program_id(0)
    d = tl.arange(0, D)
    d_skip = tl.arange(0, D_SKIP)
    v = tl.arange(0, V)
    queue = queues + row * queue_row
    time = tl.load(times + row)
    hidden = tl.load(hiddens + row * D_SKIP + d_skip).to(tl.float32)
    k = time * 0
    while k < n_steps:  # the interpreter of Triton 3.6 cannot convert the end of a range with numpy 2.4
        logits = tl.sum(_tile(output, v, d_skip, D_SKIP) * hidden[None, :], axis=1)
        logits += tl.load(output_bias + v).to(tl.float32)
        level = _choose(logits, tl.load(uniforms + row * n_steps + k), inverse, V, GREEDY)
        tl.store(levels + row * n_steps + k, level.to(tl.int64))
        x = tl.load(embedding + level * D + d).to(tl.float32)
        skips = tl.zeros((D_SKIP, D), tl.float32)
        start = time * 0
        tl.debug_barrier()  # what other threads put in the queues at the last step is read from here on
        for layer in tl.range(0, N_LAYERS, num_stages=STAGES):
            gap = tl.load(gaps + layer)
            slot = queue + (start + (time + k) % gap) * D + d
            past = tl.load(slot).to(tl.float32)
            tl.store(slot, x.to(queues.dtype.element_ty))
            old = taps + layer * 4 * D * D
            new = old + 2 * D * D
            value = _tile(old, d, d, 2 * D) * past[:, None] + _tile(new, d, d, 2 * D) * x[:, None]
            gate = _tile(old + D, d, d, 2 * D) * past[:, None] + _tile(new + D, d, d, 2 * D) * x[:, None]
            value = tl.sum(value, axis=0) + tl.load(taps_bias + layer * 2 * D + d).to(tl.float32)
            gate = tl.sum(gate, axis=0) + tl.load(taps_bias + layer * 2 * D + D + d).to(tl.float32)
            if CONDITIONED:
                bias = biases + row * bias_row + k * bias_step + layer * 2 * D
                value += tl.load(bias + d).to(tl.float32)
                gate += tl.load(bias + D + d).to(tl.float32)
            z = (2 * tl.sigmoid(2 * value) - 1) * tl.sigmoid(gate)
            x += tl.sum(_tile(onward + layer * D * D, d, d, D) * z[None, :], axis=1)
            x += tl.load(onward_bias + layer * D + d).to(tl.float32)
            skips += _tile(skip + layer * D * D_SKIP, d_skip, d, D) * z[None, :]
            start += gap
        inner = tl.maximum(tl.sum(skips, axis=1) + tl.load(skip_bias + d_skip).to(tl.float32), 0.0)
        hidden = tl.sum(_tile(leave, d_skip, d_skip, D_SKIP) * inner[:, None], axis=0)
        hidden = tl.maximum(hidden + tl.load(leave_bias + d_skip).to(tl.float32), 0.0)
        k += 1
    tl.store(hiddens + row * D_SKIP + d_skip, hidden.to(hiddens.dtype.element_ty))
