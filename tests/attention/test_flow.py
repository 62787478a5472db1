"""Attention flow compared to double loops, and its laws: padding, order of the batch, gradients, memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from catena.attention import AttentionFlow, build_score
from catena.attention.flow import AttentionFlowResult
from catena.shapes import mask_from_lengths
from tests.oracle import reading as oracle

T, S, D = 5, 3, 4
LENGTHS, QUERY_LENGTHS = torch.tensor([5, 1, 3]), torch.tensor([2, 3, 1])
CLOSE = {"rtol": 0.0, "atol": 1e-12}


def inputs(t: int = T, s: int = S) -> tuple[Tensor, Tensor]:
    return torch.randn(3, t, D, dtype=torch.float64), torch.randn(3, s, D, dtype=torch.float64)


def run(flow: AttentionFlow, context: Tensor, query: Tensor) -> AttentionFlowResult:
    masks = mask_from_lengths(LENGTHS, context.shape[1]), mask_from_lengths(QUERY_LENGTHS, query.shape[1])
    return flow(context, query, *masks)


@pytest.mark.parametrize("c2q", [True, False])
@pytest.mark.parametrize("q2c", [True, False])
def test_flow_equals_double_loops(c2q: bool, q2c: bool) -> None:
    flow = AttentionFlow(D, context_to_query=c2q, query_to_context=q2c).double()
    context, query = inputs()
    found = run(flow, context, query)
    assert found.features.shape == (3, T, flow.d_out)
    w = flow.score.weight.tolist()
    for i, (t, s) in enumerate(zip(LENGTHS.tolist(), QUERY_LENGTHS.tolist(), strict=True)):
        a, b, g = oracle.flow(context[i, :t].tolist(), query[i, :s].tolist(), w, c2q, q2c)
        wanted = torch.tensor(a, dtype=torch.float64) if c2q else torch.full((t, s), 1 / s, dtype=torch.float64)
        torch.testing.assert_close(found.query_weights[i, :t, :s], wanted, **CLOSE)
        torch.testing.assert_close(found.context_weights[i, :t], torch.tensor(b, dtype=torch.float64), **CLOSE)
        torch.testing.assert_close(found.features[i, :t], torch.tensor(g, dtype=torch.float64), **CLOSE)


def test_weights_sum_to_one_and_vanish_at_padding() -> None:
    found = run(AttentionFlow(D).double(), *inputs())
    real = mask_from_lengths(LENGTHS, T)
    torch.testing.assert_close(found.query_weights.sum(-1), real.double(), **CLOSE)
    torch.testing.assert_close(found.context_weights.sum(-1), torch.ones(3, dtype=torch.float64), **CLOSE)
    assert (found.context_weights[~real] == 0).all()
    assert (found.features[~real] == 0).all()
    assert (found.query_weights.transpose(1, 2)[~mask_from_lengths(QUERY_LENGTHS, S)] == 0).all()


@pytest.mark.parametrize("value", [1e6, float("nan")])
def test_padding_changes_neither_outputs_nor_gradients(value: float) -> None:
    flow = AttentionFlow(D).double()
    context, query = inputs()
    results = []
    for more in (False, True):
        if more:
            context = torch.cat((context, torch.full((3, 2, D), value).double()), dim=1)
            query = torch.cat((query, torch.full((3, 1, D), value).double()), dim=1)
            context[~mask_from_lengths(LENGTHS, T + 2)] = value
            query[~mask_from_lengths(QUERY_LENGTHS, S + 1)] = value
        flow.zero_grad()
        found = run(flow, context, query)
        found.features.square().sum().backward()
        results.append((found.features[:, :T], found.query_weights[:, :T, :S], flow.score.weight.grad))
    torch.testing.assert_close(results[0], results[1], **CLOSE)


def test_gradients_equal_finite_differences() -> None:
    flow = AttentionFlow(D).double()
    context, query = inputs()
    weight = flow.score.weight.detach().clone().requires_grad_()

    def features(context: Tensor, query: Tensor, weight: Tensor) -> Tensor:
        masks = mask_from_lengths(LENGTHS, T), mask_from_lengths(QUERY_LENGTHS, S)
        return torch.func.functional_call(flow, {"score.weight": weight}, (context, query, *masks)).features

    assert torch.autograd.gradcheck(features, (context.requires_grad_(), query.requires_grad_(), weight))


def test_order_of_the_batch_and_of_the_query_does_not_matter() -> None:
    flow = AttentionFlow(D).double()
    context, query = inputs()
    masks = mask_from_lengths(LENGTHS, T), mask_from_lengths(QUERY_LENGTHS, S)
    whole = flow(context, query, *masks)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(
        flow(context[order], query[order], masks[0][order], masks[1][order]).features, whole.features[order], **CLOSE
    )
    flipped = flow(context, query.flip(1), masks[0], masks[1].flip(1))
    torch.testing.assert_close(flipped.features, whole.features, **CLOSE)
    torch.testing.assert_close(flipped.query_weights.flip(2), whole.query_weights, **CLOSE)


def test_context_equal_to_the_query_attends_to_itself() -> None:
    flow = AttentionFlow(D).double()
    with torch.no_grad():
        flow.score.weight.copy_(torch.cat((torch.zeros(2 * D), torch.full((D,), 50.0))))
    context = torch.eye(D, dtype=torch.float64)[None]
    full = torch.ones(1, D, dtype=torch.bool)
    found = flow(context, context, full, full)
    torch.testing.assert_close(found.query_weights[0], torch.eye(D, dtype=torch.float64), rtol=0, atol=1e-12)


def test_empty_query_gives_zeros_without_nan() -> None:
    flow = AttentionFlow(D)
    context = torch.randn(1, T, D, requires_grad=True)
    found = flow(context, torch.randn(1, S, D), torch.ones(1, T, dtype=torch.bool), torch.zeros(1, S, dtype=torch.bool))
    found.features.sum().backward()
    assert (found.features[..., D:] == 0).all()
    assert context.grad is not None
    assert context.grad.isfinite().all()


def test_score_is_replaceable() -> None:
    flow = AttentionFlow(D, build_score("dot", D, D))
    assert not list(flow.parameters())
    assert run(flow.double(), *inputs()).features.shape == (3, T, 4 * D)


def test_features_of_pairs_are_not_stored() -> None:
    """The largest tensor saved for the backward pass has t s or 4 t d values, not 3 t s d."""
    t, s, d = 40, 30, 20
    sizes: list[int] = []

    def record(x: Tensor) -> Tensor:
        sizes.append(x.numel())
        return x

    flow = AttentionFlow(d)
    with torch.autograd.graph.saved_tensors_hooks(record, lambda x: x):
        masks = torch.ones(1, t, dtype=torch.bool), torch.ones(1, s, dtype=torch.bool)
        flow(torch.randn(1, t, d, requires_grad=True), torch.randn(1, s, d, requires_grad=True), *masks)
    assert max(sizes) <= max(t * s, 4 * t * d)
