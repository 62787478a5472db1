"""Attention scores compared to their formulas, one pair at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from catena.attention import scores
from catena.attention.scores import SCORES, AttentionScore, build_score
from catena.errors import ShapeError, UnknownNameError

Array = np.ndarray


def matrix(layer: torch.nn.Linear) -> Array:
    return layer.weight.detach().numpy()


def formula(name: str, score: AttentionScore) -> Callable[[Array, Array], float]:
    if name == "dot":
        return lambda q, k: sum(q * k)
    if name == "scaled":
        return lambda q, k: sum(q * k) / math.sqrt(len(q))
    if name == "cosine":
        return lambda q, k: sum(q * k) / math.sqrt(sum(q * q) * sum(k * k))
    if name == "bilinear":
        return lambda q, k: q @ matrix(score.keys) @ k
    v = score.weight.detach().numpy()
    if name in ("concat", "concat_product"):
        more = name == "concat_product"
        bias = float(score.bias.detach())
        return lambda q, k: math.tanh(sum(v * [*q, *k, *((q * k) if more else [])]) + bias)
    if name == "trilinear":
        return lambda q, k: sum(v * [*q, *k, *(q * k)])
    if name == "additive":
        bias = score.query.bias.detach().numpy()
        return lambda q, k: v @ np.tanh(matrix(score.query) @ q + matrix(score.keys) @ k + bias)
    return lambda q, k: v @ (np.tanh(matrix(score.query) @ q) * np.tanh(matrix(score.keys) @ k))


@pytest.mark.parametrize("name", list(SCORES))
def test_score_equals_its_formula(name: str) -> None:
    score = build_score(name, 4, 4, 3).double()
    with torch.no_grad():
        for parameter in score.parameters():
            parameter.add_(0.3)  # no bias is 0
    query, keys = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    found = score(query, keys).detach().numpy()
    assert found.shape == (2, 3, 5)
    pair = formula(name, score)
    for b in range(2):
        for i in range(3):
            for j in range(5):
                wanted = float(pair(query[b, i].numpy(), keys[b, j].numpy()))
                assert found[b, i, j] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("name", ["additive", "hadamard", "concat", "concat_product", "trilinear"])
def test_score_weights_are_initialized_like_a_linear_layer(name: str) -> None:
    score = build_score(name, 400, 400, 400)
    most = 1 / math.sqrt(len(score.weight))
    assert 0.95 * most < float(score.weight.detach().max()) <= most
    assert -most <= float(score.weight.detach().min()) < -0.95 * most
    assert not getattr(score, "bias", torch.zeros(())).any()


@pytest.mark.parametrize("name", ["bilinear", "additive", "hadamard", "concat"])
def test_learned_scores_accept_different_sizes(name: str) -> None:
    score = build_score(name, 4, 6)
    assert score(torch.randn(3, 4), torch.randn(5, 6)).shape == (3, 5)
    score(torch.randn(3, 4), torch.randn(5, 6)).square().sum().backward()
    assert all(p.grad is not None and (p.grad != 0).any() for p in score.parameters())


@pytest.mark.parametrize("name", ["dot", "scaled", "cosine", "concat_product", "trilinear"])
def test_scores_without_weights_raise_for_different_sizes(name: str) -> None:
    with pytest.raises(
        ShapeError, match=f"d_keys must be d_query = 4 for the {name} score, got 6. Make them equal, or use"
    ):
        build_score(name, 4, 6)


def test_cosine_score_of_zero_vector_is_zero_with_finite_gradients() -> None:
    query = torch.zeros(1, 3, requires_grad=True)
    found = build_score("cosine", 3, 3)(query, torch.randn(2, 3))
    assert found.tolist() == [[0.0, 0.0]]
    found.sum().backward()
    assert query.grad is not None
    assert query.grad.isfinite().all()


@pytest.mark.parametrize("name", list(SCORES))
def test_prepare_then_compare_equals_forward(name: str) -> None:
    score = build_score(name, 4, 4, 3).double()
    query, keys = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    prepared, whole = score.prepare(keys), score(query, keys)
    for i in range(3):
        assert torch.allclose(score.compare(query[:, i : i + 1], prepared), whole[:, i : i + 1], atol=1e-12)


def test_additive_score_limits_stored_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    score = build_score("additive", 4, 4, 3).double()
    query = torch.randn(2, 7, 4, dtype=torch.float64, requires_grad=True)
    keys = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    inputs = [query, keys, *score.parameters()]
    whole = score(query, keys)
    wanted = torch.autograd.grad(whole.square().sum(), inputs)
    held: list[int] = []
    pairs = score._of_pairs
    monkeypatch.setattr(scores, "MOST_PAIRS", 100)
    monkeypatch.setattr(score, "_of_pairs", lambda q, k: (held.append(q.shape[1]), pairs(q, k))[1])
    found = score(query, keys)
    assert held == [3, 3, 1]
    assert torch.allclose(found, whole, atol=1e-12)
    for a, b in zip(torch.autograd.grad(found.square().sum(), inputs), wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_build_score_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no attention score is called 'aditive': did you mean 'additive'"):
        build_score("aditive", 3, 3)
