"""Torch operators for the scores and log-probabilities of given tag sequences on the CPU.

Arguments are as in :mod:`catena.kernels.chain.ops`, and ``tags`` ``[b, t]``. A score is linear, so its gradient is
the indicator of its parts; the gradient of a log-probability is that minus the marginals.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.errors import DataError
from catena.kernels.chain.arrays import Chains, FloatArray
from catena.kernels.chain.cpu import BOTH_WAYS
from catena.kernels.chain.cpu_search import add_parts, score_rows
from catena.kernels.chain.ops import forward_backward, kept_shapes, log_partition_gradients, with_rows
from catena.kernels.chain.reference import log_partition_reference
from catena.kernels.common.derivatives import second_derivative
from catena.kernels.common.ops import (
    as_array,
    differentiable,
    first_result,
    fold_vmap,
    is_plain,
    keep_all,
    keep_inputs,
    needs_grad,
    register_gradient_shapes,
    torch_operator,
)
from catena.numerics import NEG_INF


@torch_operator("chain_score")
def _score(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
    chains = Chains.of(emissions, tables, start, end, lengths)
    return torch.from_numpy(_scored(chains, tags).astype(chains.emissions.dtype))


def _scored(chains: Chains, tags: Tensor) -> FloatArray:
    b, _, k = chains.emissions.shape
    unknown = np.array([-1])
    scores = np.empty(b)
    arrays = (chains.emissions, chains.tables, chains.start, chains.end, chains.lengths)
    score_rows(*arrays, *chains.sharing, as_array(tags), scores, unknown)
    if unknown[0] >= 0:
        raise DataError(f"Tags must be below k = {k}, got {unknown[0]}. Check the tag ids, or pass more tags.")
    return scores


@torch_operator("chain_score_gradients")
def _score_gradients(
    scale: Tensor, emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chains = Chains.of(emissions, tables, start, end, lengths)
    found = [np.zeros_like(x) for x in (chains.emissions, chains.tables, chains.start, chains.end)]
    add_parts(as_array(scale), as_array(tags), chains.lengths, *chains.sharing, *found)
    by_emissions, by_tables, by_start, by_end = (torch.from_numpy(x) for x in found)
    return by_emissions, by_tables.view(tables.shape), by_start, by_end


@_score.register_fake
def _(emissions: Tensor, *_: Tensor) -> Tensor:
    return emissions.new_empty(emissions.shape[0])


register_gradient_shapes(_score_gradients, 4)


def _back_score(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_gradients_of_score(grad, *ctx.saved_tensors), None, None


def _back_gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    lengths, tags = ctx.saved_tensors[-2:]
    by_scale = score(*grads, lengths, tags)
    return torch.where(by_scale == NEG_INF, 0.0, by_scale), *(None for _ in range(6))


fold_vmap(_score)
fold_vmap(_score_gradients)
score = differentiable(_score, keep_inputs, _back_score)
_gradients_of_score = differentiable(_score_gradients, keep_inputs, _back_gradients, is_gradient=True)


# --- log-probabilities --------------------------------------------------------------------------------------
@torch_operator("chain_log_prob")
def _log_prob(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    chains = Chains.of(emissions, tables, start, end, lengths)
    log_z, *kept = forward_backward(chains, BOTH_WAYS)
    never = log_z == NEG_INF
    log_p = np.where(never, NEG_INF, _scored(chains, tags) - np.where(never, 0.0, log_z))
    marginals, a, onward, exact = (torch.from_numpy(x) for x in kept)
    return torch.from_numpy(log_p.astype(chains.emissions.dtype)), marginals, a, onward, exact


@torch_operator("chain_log_prob_gradients")
def _log_prob_gradients(
    scale: Tensor,
    emissions: Tensor,
    tables: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor,
    marginals: Tensor,
    a: Tensor,
    onward: Tensor,
    exact: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chains = Chains.of(emissions, tables, start, end, lengths)
    factors = as_array(scale)
    found = log_partition_gradients(chains, -factors, marginals, a, onward, exact)
    add_parts(factors, as_array(tags), chains.lengths, *chains.sharing, *found)
    by_emissions, by_tables, by_start, by_end = (torch.from_numpy(x) for x in found)
    return by_emissions, by_tables.view(tables.shape), by_start, by_end


_log_prob.register_fake(lambda emissions, *_: (emissions.new_empty(emissions.shape[0]), *kept_shapes(emissions)))
register_gradient_shapes(_log_prob_gradients, 4)


def _back_log_prob(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    return *_gradients_of_log_prob(grad, *ctx.saved_tensors), None, None


def _back_alone(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    saved = ctx.saved_tensors
    found = _gradients_of_log_prob(grad, *with_rows(*saved[:5]), *saved[5:])
    return *(x.view(of.shape) for x, of in zip(found, saved, strict=False)), None, None


def _back_log_prob_gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    scale, *scores, lengths, tags = ctx.saved_tensors[:7]
    log_z = partial(log_partition_reference, lengths=lengths)
    by_scale, *by_scores = second_derivative(log_z, -scale, scores, grads)
    of_score = score(*grads, lengths, tags)
    of_score = torch.where(of_score == NEG_INF, 0.0, of_score)
    return of_score - by_scale, *by_scores, *(None for _ in range(6))


fold_vmap(_log_prob)
fold_vmap(_log_prob_gradients)
_log_prob_and_kept = differentiable(_log_prob, keep_all, _back_log_prob)
_gradients_of_log_prob = differentiable(_log_prob_gradients, keep_inputs, _back_log_prob_gradients, is_gradient=True)
_log_prob_alone = first_result(_log_prob, _back_alone)


def log_prob(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
    """The log-probability of one chain for each row. What all rows share may lack the first axis."""
    if is_plain() and needs_grad(emissions, tables, start, end):
        return _log_prob_alone(emissions, tables, start, end, lengths, tags)
    return _log_prob_and_kept(*with_rows(emissions, tables, start, end, lengths), tags)[0]
