"""Derivatives in forward mode: against the reference implementation and against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from catena.structure.backend import use_backend
from tests.structure.test_transforms import KINDS, drawn

STEP = 1e-5
SUMS: dict[str, Callable[[Any], Tensor]] = {
    "log_partition": lambda s: s.log_partition(),
    "marginals": lambda s: s.marginals(),
    "entropy": lambda s: s.entropy(),
    "max": lambda s: s.max(),
    "log_prob": lambda s: s.log_prob(s.argmax()),
}

pytestmark = pytest.mark.parametrize("kind", KINDS)


def scores_and_tangents(kind: str) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    _, own, shared = KINDS[kind]
    return tuple(drawn(2, own, shared)), tuple(drawn(2, own, shared, seed=9))


@pytest.mark.parametrize("name", SUMS)
def test_jvp_equals_finite_differences(kind: str, name: str) -> None:
    scores, tangents = scores_and_tangents(kind)

    def value(*x: Tensor) -> Tensor:
        return SUMS[name](KINDS[kind][0](*x))

    before, after = (value(*(x + h * t for x, t in zip(scores, tangents, strict=True))) for h in (-STEP, STEP))
    found, tangent = jvp(value, scores, tangents)
    assert torch.allclose(found, value(*scores))
    assert torch.allclose(tangent, (after - before) / (2 * STEP), atol=1e-8)


@pytest.mark.parametrize("name", SUMS)
def test_dual_tensors_equal_jvp_of_the_reference_backend(kind: str, name: str) -> None:
    scores, tangents = scores_and_tangents(kind)

    def value(*x: Tensor) -> Tensor:
        return SUMS[name](KINDS[kind][0](*x))

    with use_backend("reference"):
        expected = jvp(value, scores, tangents)[1]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, t) for x, t in zip(scores, tangents, strict=True)]
        found = forward_ad.unpack_dual(value(*duals)).tangent
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("name", ["log_partition", "entropy", "log_prob"])
def test_second_derivatives_of_every_order_of_modes_agree(kind: str, name: str) -> None:
    scores, _ = scores_and_tangents(kind)

    def value(x: Tensor) -> Tensor:
        return SUMS[name](KINDS[kind][0](x, *scores[1:])).sum()

    with use_backend("reference"):
        expected = jacrev(jacrev(value))(scores[0])
    for way in (hessian, lambda f: jacrev(jacfwd(f)), lambda f: jacfwd(jacfwd(f)), lambda f: jacfwd(grad(f))):
        assert torch.allclose(way(value)(scores[0]), expected, atol=1e-10)


def test_hessian_vector_products_reach_shared_scores(kind: str) -> None:
    """Forward over reverse with respect to all scores together, including shared ones."""
    scores, tangents = scores_and_tangents(kind)

    def gradients(*x: Tensor) -> tuple[Tensor, ...]:
        def log_z(*x: Tensor) -> Tensor:
            return KINDS[kind][0](*x).log_partition().sum()

        return grad(log_z, argnums=tuple(range(len(x))))(*x)

    found = jvp(gradients, scores, tangents)[1]
    before, after = (gradients(*(x + h * t for x, t in zip(scores, tangents, strict=True))) for h in (-STEP, STEP))
    assert len(found) > 0
    for product, low, high in zip(found, before, after, strict=True):
        assert torch.allclose(product, (high - low) / (2 * STEP), atol=1e-8)


def test_jvp_under_vmap_equals_loop(kind: str) -> None:
    scores, tangents = scores_and_tangents(kind)

    def tangent(*t: Tensor) -> Tensor:
        return jvp(lambda *x: KINDS[kind][0](*x).log_partition(), scores, t)[1]

    found = vmap(tangent)(*(torch.stack((t, 2 * t)) for t in tangents))
    assert torch.allclose(found, torch.stack((tangent(*tangents), tangent(*(2 * t for t in tangents)))))
