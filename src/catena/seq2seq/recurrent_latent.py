r"""Latent alignments: each step attends to one source position, which is summed out or sampled.

.. math::  p(y_t \mid y_{<t}, x) = \sum_j p(a_t = j \mid y_{<t}, x)\, p(y_t \mid a_t = j, y_{<t}, x)

``Marginal`` is a decoder whose states do not depend on earlier attention, so that this sum, one step at a time, is the
exact probability (Shankar & Sarawagi 2018, "posterior attention", without its feedback; Wu et al. 2018). It needs an
output layer for each source position: O(s) times the cost.

``Reinforce`` trains with one sampled alignment instead of the sum: the expectation of :math:`\log p(y \mid a)`, which
is at most :math:`\log p(y)`. Its gradient is the gradient of

.. math::  \sum_t \log p(y_t \mid a_{\le t}) + \sum_t \lfloor R_t - b_t \rfloor \log p(a_t \mid a_{<t})

where :math:`R_t` sums the log-probabilities that depend on :math:`a_t`, and :math:`b_t` is a moving mean of them
(Williams 1992; Xu et al. 2015, section 4.1).
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.numerics import NEG_INF, log_sum_exp, safe_log
from catena.outputs.base import OutputLayer
from catena.seq2seq.recurrent_decoder import (
    AttendFn,
    DecoderOutput,
    DecoderState,
    RecurrentDecoder,
    RecurrentStack,
    step_numbers,
)


class Marginal(RecurrentDecoder):
    """Luong's order without input feeding, with an output vector for each source position.

    Its attention must have ``apart = True``.
    """

    def __init__(self, stack: RecurrentStack, d_context: int, d_out: int) -> None:
        super().__init__()
        self.stack, self.d_out = stack, d_out
        self.readout = nn.Linear(d_context + stack.d, d_out)

    def forward(self, x: Float[Tensor, "b t d_in"], state: DecoderState, look: AttendFn | None) -> DecoderOutput:
        assert look is not None
        y, layers = self.stack.whole(x, state.layers)
        looked = look(y, step_numbers(state.steps, x.shape[1]))
        beside = y[:, :, None].expand(*looked.context.shape[:3], y.shape[-1])
        vectors = torch.tanh(self.readout(torch.cat((looked.context, beside), dim=-1)))  # b t s d
        after = DecoderState(tuple(layers), None, state.steps + x.shape[1])
        return DecoderOutput(self.stack.dropout(vectors), looked, after)


def marginal_log_prob(
    output: OutputLayer,
    vectors: Float[Tensor, "n s d"],
    weights: Float[Tensor, "n s"],
    targets: Int[Tensor, " n"],
) -> Float[Tensor, " n"]:
    """log p(target) of each row, summed over the positions by their weights."""
    may = weights > 0
    found = output.log_prob(vectors[may], targets[:, None].expand_as(may)[may])
    at_each = found.new_full(may.shape, NEG_INF).masked_scatter(may, found)
    return log_sum_exp(at_each + safe_log(weights), dim=1)


def marginal_log_probs(
    output: OutputLayer, vectors: Float[Tensor, "n s d"], weights: Float[Tensor, "n s"]
) -> Float[Tensor, "n v"]:
    """log p of every id, summed over the positions by their weights."""
    at_each = output.log_probs(vectors.flatten(0, 1)).unflatten(0, vectors.shape[:2])  # n s v
    return log_sum_exp(at_each + safe_log(weights)[..., None], dim=1)


class Reinforce(nn.Module):
    """The loss of sampled alignments.

    Args:
        remembers: whether later steps depend on the attention of a step; then they all count for it.
        momentum: the weight of the old mean in the new one.
        weight: the factor of the gradient of the sampled log-probabilities.
    """

    baseline: Tensor
    """The moving mean of a token's log-probability, saved with the model."""

    def __init__(self, *, remembers: bool, momentum: float = 0.9, weight: float = 1.0) -> None:
        super().__init__()
        self.remembers, self.momentum, self.weight = remembers, momentum, weight
        self.register_buffer("baseline", torch.zeros(()))

    def forward(
        self,
        log_probs: Float[Tensor, "b t"],
        drawn: Float[Tensor, "b t"],
        real: Bool[Tensor, "b t"],
        expected: Float[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean over tokens of ``-log_probs``, with the gradient of the sampled log-probabilities, too.

        Args:
            log_probs: of the targets, given the samples.
            drawn: the log-probabilities of the samples.
            real: which targets are not padding.
            expected: estimates of ``log_probs`` that do not depend on the samples; they are subtracted from the reward,
                and the baseline is the mean of what is left.
        """
        n = real.sum()
        rewards = log_probs.detach() if expected is None else log_probs.detach() - expected
        rewards = rewards.masked_fill(~real, 0.0)
        mean = rewards.sum() / n
        count = real.to(rewards.dtype)
        if self.remembers:
            rewards, count = (x.flip(1).cumsum(1).flip(1) for x in (rewards, count))
        # The mean is of earlier batches only: including this sample would bias the gradient.
        score = ((rewards - self.baseline * count) * drawn).masked_fill(~real, 0.0).sum() / n
        self.baseline.lerp_(mean.to(self.baseline.dtype), 1 - self.momentum)
        return -log_probs.masked_fill(~real, 0.0).sum() / n - self.weight * (score - score.detach())
