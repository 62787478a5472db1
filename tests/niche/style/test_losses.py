"""Losses of style transfer: values and gradients against double loops, and their invariances."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from catena.niche.style import content_loss, gram_loss, gram_matrix, relative_gram_loss, total_variation
from catena.niche.style.losses import relative_loss
from tests.oracle import style as oracle


def maps(c: int, height: int, width: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(c, height, width, generator=generator, dtype=torch.float64)


def test_gram_matrix_equals_double_loop() -> None:
    f = maps(4, 3, 5)
    np.testing.assert_allclose(gram_matrix(f), oracle.gram(f.reshape(4, 15).numpy()) / 15, atol=1e-12)


def test_gram_matrix_does_not_change_under_permutation_of_positions() -> None:
    f = maps(4, 3, 5)
    order = torch.randperm(15, generator=torch.Generator().manual_seed(1))
    moved = f.flatten(1)[:, order].view(4, 3, 5)
    assert not torch.equal(moved, f)
    torch.testing.assert_close(gram_matrix(moved), gram_matrix(f), atol=1e-12, rtol=0)


def test_gram_matrix_is_symmetric_and_positive_semidefinite() -> None:
    g = gram_matrix(maps(6, 2, 2))
    torch.testing.assert_close(g, g.mT)
    assert torch.linalg.eigvalsh(g).min() > -1e-12


def test_gram_matrix_of_a_picture_repeated_twice_is_the_same() -> None:
    f = maps(4, 3, 5)
    torch.testing.assert_close(gram_matrix(torch.cat([f, f], 2)), gram_matrix(f))


def test_gram_loss_and_its_gradient_equal_loops_for_pictures_of_two_sizes() -> None:
    f, a = maps(4, 3, 5).requires_grad_(), maps(4, 2, 3, seed=1)
    loss = gram_loss(gram_matrix(f), gram_matrix(a))
    loss.backward()
    flat, other = f.detach().reshape(4, 15).numpy(), a.reshape(4, 6).numpy()
    assert loss.item() == pytest.approx(oracle.layer_loss(flat, other), abs=1e-12)
    assert f.grad is not None
    np.testing.assert_allclose(f.grad.reshape(4, 15), oracle.layer_gradient(flat, other), atol=1e-12)


def test_gradients_are_zero_where_the_relu_is_zero() -> None:
    before, p = maps(3, 4, 4).requires_grad_(), F.relu(maps(3, 4, 4, seed=1))
    f = F.relu(before)
    (content_gradient,) = torch.autograd.grad(content_loss(f, p), before, retain_graph=True)
    (style_gradient,) = torch.autograd.grad(gram_loss(gram_matrix(f), gram_matrix(p)), before)
    off = before < 0
    assert off.any()
    assert (content_gradient[off] == 0).all()
    assert (style_gradient[off] == 0).all()
    torch.testing.assert_close(content_gradient[~off], (f - p)[~off].detach())  # equation 2


def test_content_loss_is_half_the_sum_of_squares() -> None:
    f, p = maps(2, 2, 3), maps(2, 2, 3, seed=1)
    pairs = zip(f.flatten().tolist(), p.flatten().tolist(), strict=True)
    assert content_loss(f, p).item() == pytest.approx(sum((x - y) ** 2 for x, y in pairs) / 2)
    assert content_loss(p, p).item() == 0


def test_relative_gram_loss_is_the_mean_over_layers_of_relative_squares() -> None:
    grams = {name: gram_matrix(maps(c, 3, 5, seed=c)) for name, c in (("a", 2), ("b", 4))}
    targets = {name: gram_matrix(maps(c, 4, 4, seed=c + 9)) for name, c in (("a", 2), ("b", 4))}
    parts = []
    for name, gram in grams.items():
        g, a = gram.numpy(), targets[name].numpy()
        parts.append(sum((g - a).ravel() ** 2) / sum(a.ravel() ** 2))
    assert relative_gram_loss(grams, targets) == pytest.approx(sum(parts) / 2, abs=1e-12)
    assert relative_gram_loss(targets, targets) == 0


def test_relative_loss_of_a_black_target_is_finite() -> None:
    assert torch.isfinite(relative_loss(torch.zeros(3), torch.zeros(3)))


def test_total_variation_equals_double_loop_and_is_zero_for_one_color() -> None:
    x = maps(3, 4, 5)
    assert total_variation(x).item() == pytest.approx(oracle.total_variation(x.numpy()), abs=1e-12)
    assert total_variation(torch.full((3, 4, 5), 0.3)).item() == 0
