"""The state of a WaveNet as a stepper, and the weights of its steps in the layout of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from catena.encoders.conv_state import ConvState
from catena.encoders.dilated import Dilated
from catena.kernels.wavenet.ops import build_kernel
from catena.kernels.wavenet.reference import Biases, Step, StepWeights
from catena.outputs.base import OutputLayer
from catena.outputs.softmax import Softmax
from catena.randomness import counted_uniforms


@dataclass(frozen=True, eq=False, slots=True)
class WaveNetState:
    """The state of ``n`` recordings.

    Args:
        step: queues, times and the vectors that predict the next level.
        constant: the speaker's vector of each row.
        bias: what it adds inside the gates of each layer.
        series: the upsampled series of several sources; index i is for sample ``i - field + 1``.
        sources: the row of ``series`` of each row.
        predictors: the state of the linear predictors of each row, on the CPU in double precision.
    """

    step: Step
    constant: Float[Tensor, "n g"] | None = None
    bias: Float[Tensor, "n l d2"] | None = None
    series: Float[Tensor, "m s k"] | None = None
    sources: Int[Tensor, " n"] | None = None
    predictors: Float64[Tensor, "n p"] | None = None


def copy_step(step: Step) -> Step:
    """A copy that may be changed in place."""
    return Step(*(x.clone() for x in step))


def step_from_tails(
    tails: ConvState, time: Int[Tensor, " n"], hidden: Float[Tensor, "n d_skip"], sizes: Sequence[int]
) -> Step:
    """The queues that hold the last inputs of each layer, after ``time`` positions."""
    queues = []
    for tail, size in zip(tails, sizes, strict=True):
        slots = (time[:, None] + torch.arange(size, device=time.device)) % size
        queues.append(torch.empty_like(tail).scatter_(1, slots[..., None].expand_as(tail), tail))
    return Step(torch.cat(queues, dim=1), time, hidden)


def tails_from_step(step: Step, sizes: Sequence[int]) -> ConvState:
    """The last inputs of each layer, the oldest first."""
    tails = []
    for queue, size in zip(step.queues.split(list(sizes), dim=1), sizes, strict=True):
        slots = (step.time[:, None] + torch.arange(size, device=step.time.device)) % size
        tails.append(queue.gather(1, slots[..., None].expand_as(queue)))
    return tuple(tails)


def series_ahead(state: WaveNetState, field: int, t: int) -> Float[Tensor, "n t k"] | None:
    """The vectors of the series for the samples after each of the next ``t`` ones; the last one is held."""
    if state.series is None or state.sources is None:
        return None
    after = state.step.time[:, None] + torch.arange(1, t + 1, device=state.step.time.device)
    positions = (after + field - 1).clamp(max=state.series.shape[1] - 1)
    return state.series[state.sources[:, None], positions]


def join_features(
    series: Float[Tensor, "n t k"] | None, features: Float[Tensor, "n t f"] | None
) -> Float[Tensor, "n t _"] | None:
    """The vectors that the gates read: those of the series, and the features of predictions after them."""
    present = [x for x in (series, features) if x is not None]
    return torch.cat(present, dim=-1) if present else None


def join_states(states: Sequence[WaveNetState]) -> WaveNetState:
    """The rows of several states, concatenated."""
    step = Step(*(torch.cat(x) for x in zip(*(state.step for state in states), strict=True)))
    names = ("constant", "bias", "predictors")
    constant, bias, predictors = (_cat([getattr(state, name) for state in states]) for name in names)
    return WaveNetState(step, constant, bias, *_join_series(states), predictors)


def _cat(tensors: Sequence[Tensor | None]) -> Tensor | None:
    present = [x for x in tensors if x is not None]
    return torch.cat(present) if present else None


def _join_series(states: Sequence[WaveNetState]) -> tuple[Tensor | None, Tensor | None]:
    """One table of series for all rows. Series of different lengths are continued by their last vectors."""
    tables = list({id(state.series): state.series for state in states if state.series is not None}.values())
    if not tables:
        return None, None
    length = max(table.shape[1] for table in tables)
    padded = [torch.cat((x, x[:, -1:].expand(-1, length - x.shape[1], -1)), dim=1) for x in tables]
    starts = np.cumsum([0, *map(len, tables)])
    start = {id(table): int(first) for table, first in zip(tables, starts, strict=False)}
    sources = [state.sources + start[id(state.series)] for state in states if state.sources is not None]
    return (tables[0] if len(tables) == 1 else torch.cat(padded)), torch.cat(sources)


def uniforms_ahead(time: Int[Tensor, " n"], seed: int, k: int) -> Float[Tensor, "n k"]:
    """Uniform numbers for the next ``k`` samples of each row, by the seed, the row and the time."""
    rows = [counted_uniforms(seed, row, first, k) for row, first in enumerate(time.tolist())]
    return torch.from_numpy(np.stack(rows)).to(time.device) if rows else torch.zeros(0, k, device=time.device)


class CompiledSteps:
    """Copies of the weights of a WaveNet for the kernels; to be rebuilt when they are not current."""

    def __init__(self, embedding: nn.Embedding, encoder: Dilated, output: OutputLayer) -> None:
        self.sources = [p for module in (embedding, encoder, output) for p in module.parameters()]
        self.versions = _versions(self.sources)
        self.kernel = build_kernel(pack_steps(embedding, encoder, output))
        self.field = encoder.field
        self.can_sample = isinstance(output, Softmax)
        """Whether the kernels know the output layer."""
        local = [layer.from_local.weight for layer in encoder.dilated_layers() if layer.from_local is not None]
        self.local = torch.stack(local) if local else None

    def is_current(self) -> bool:
        """Whether no weight has changed since, or moved to another device or dtype."""
        return self.versions == _versions(self.sources)

    def biases(self, state: WaveNetState, k: int, features: Float[Tensor, "n k f"] | None = None) -> Biases | None:
        """What the condition adds inside the gates at each of the next ``k`` steps, with features of predictions."""
        constant = None if state.bias is None else state.bias[:, None]
        series = join_features(series_ahead(state, self.field, k), features)
        if series is None or self.local is None:
            return constant
        local = torch.einsum("nki,ldi->nkld", series, self.local)
        return local if constant is None else local + constant


def _versions(parameters: Sequence[Tensor]) -> list[tuple[int, int]]:
    return [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters]


def pack_steps(embedding: nn.Embedding, encoder: Dilated, output: OutputLayer) -> StepWeights:
    """The weights of one step; the weights of the logits are 0 if the output layer is not a softmax."""
    layers = list(encoder.dilated_layers())
    d, d_skip = encoder.d, encoder.d_out
    zeros = encoder.leave.weight.new_zeros
    logits, logits_bias = zeros(output.v, d_skip), zeros(output.v)
    if isinstance(output, Softmax):
        logits = output.scores.weight / output.temperature
        bias = output.final_bias
        logits_bias = logits_bias if bias is None else bias / output.temperature
    weights = StepWeights(
        embedding=embedding.weight,
        taps=torch.stack([layer.convolution.weight.permute(2, 1, 0).flatten(0, 1) for layer in layers]),
        taps_bias=torch.stack([_present(layer.convolution.bias) for layer in layers]),
        onward=torch.stack([zeros(d, d) if layer.onward is None else layer.onward.weight.t() for layer in layers]),
        onward_bias=torch.stack([zeros(d) if layer.onward is None else layer.onward.bias for layer in layers]),
        skip=torch.cat([layer.skip.weight.t() for layer in layers]),
        skip_bias=torch.stack([layer.skip.bias for layer in layers]).sum(dim=0),
        leave=encoder.leave.weight.t(),
        leave_bias=encoder.leave.bias,
        output=logits.t(),
        output_bias=logits_bias,
        gaps=tuple(encoder.gaps),
    )
    return StepWeights._make(x.detach().contiguous() if isinstance(x, Tensor) else x for x in weights)


def _present(bias: Tensor | None) -> Tensor:
    assert bias is not None
    return bias
