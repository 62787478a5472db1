"""The loss of a picture: against the sums of its parts and finite differences, and independent of tiles."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from catena.niche.style.losses import content_loss, gram_loss, gram_matrix, relative_loss, total_variation
from catena.niche.style.objective import LossForm, LossWeights, Objective, split_tiles
from catena.niche.style.random_filters import RandomFilters
from tests.niche.style.networks import small_network

STYLE = ("conv1_1", "conv2_1", "conv3_1")
LAYERS = {"conv1_1": 0.5, "conv2_1": 0.2, "conv3_1": 0.3}


def picture(height: int, width: int, seed: int = 0) -> Tensor:
    return torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(form: LossForm = "relative", tile: int = 512, size: tuple[int, int] = (70, 61)) -> Objective:
    network = small_network()
    grams = {name: gram_matrix(maps[0]) for name, maps in network(picture(40, 44, seed=1), STYLE).items()}
    contents = network(picture(*size, seed=2), ["conv2_2"])
    weights = LossWeights(LAYERS, style=3.0, content=0.7, variation=0.4, form=form)
    return Objective(network, grams, contents, weights, tile=tile)


@pytest.mark.parametrize("form", ["relative", "paper"])
def test_total_is_the_weighted_sum_of_the_losses(form: LossForm) -> None:
    objective, x = build(form), picture(70, 61)
    losses, gradient = objective(x)
    y = x.clone().requires_grad_()
    maps = objective.network(y, [*STYLE, "conv2_2"])
    style = relative_loss if form == "relative" else gram_loss
    content = relative_loss if form == "relative" else content_loss
    total = 0.4 * total_variation(y) + 0.7 * content(maps["conv2_2"], objective.contents["conv2_2"])
    for name, weight in LAYERS.items():
        total = total + 3 * weight * style(gram_matrix(maps[name][0]), objective.grams[name])
    total.backward()
    assert losses.total == pytest.approx(total.item(), rel=1e-10)
    torch.testing.assert_close(gradient, y.grad, atol=1e-12, rtol=1e-9)


def test_reported_losses_are_relative_in_both_forms() -> None:
    (relative, _), (paper, _) = build("relative")(picture(70, 61)), build("paper")(picture(70, 61))
    assert (relative.style, relative.content) == pytest.approx((paper.style, paper.content))
    assert relative.total == pytest.approx(3 * relative.style + 0.7 * relative.content + 0.4 * relative.variation)


def test_gradient_equals_finite_differences() -> None:
    objective, x = build(size=(16, 16)), picture(16, 16)
    _, gradient = objective(x)
    for index in ((0, 0, 0, 0), (0, 1, 7, 9), (0, 2, 15, 15)):
        step = torch.zeros_like(x)
        step[index] = 1e-5
        slope = (objective(x + step)[0].total - objective(x - step)[0].total) / 2e-5  # style: a derivative
        assert gradient[index].item() == pytest.approx(slope, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("tile", [16, 24, 40, 64])
def test_losses_and_gradient_do_not_depend_on_tiles(tile: int) -> None:
    x = picture(70, 61)
    whole, gradient = build()(x)
    parts, tiled = build(tile=tile)(x)
    assert parts.total == pytest.approx(whole.total, rel=1e-10)
    assert (parts.style, parts.content) == pytest.approx((whole.style, whole.content), rel=1e-10)
    torch.testing.assert_close(tiled, gradient, atol=1e-13, rtol=1e-8)


def test_random_filters_do_not_depend_on_tiles() -> None:
    network = RandomFilters((3, 13), n_filters=3).double()
    grams = {name: gram_matrix(maps[0]) for name, maps in network(picture(30, 30, seed=1), network.names).items()}
    weights = LossWeights({"random3": 0.5, "random13": 0.5})
    whole, gradient = Objective(network, grams, {}, weights)(picture(50, 45))
    parts, tiled = Objective(network, grams, {}, weights, tile=20)(picture(50, 45))
    assert parts.total == pytest.approx(whole.total, rel=1e-10)
    torch.testing.assert_close(tiled, gradient, atol=1e-13, rtol=1e-8)


def test_targets_have_loss_zero() -> None:
    network, x = small_network(), picture(32, 32)
    maps = network(x, [*STYLE, "conv2_2"])
    grams = {name: gram_matrix(maps[name][0]) for name in STYLE}
    objective = Objective(network, grams, {"conv2_2": maps["conv2_2"]}, LossWeights(LAYERS, content=1.0))
    losses, gradient = objective(x)
    assert losses.total == pytest.approx(0, abs=1e-20)
    assert gradient.abs().max() < 1e-12


def test_circular_padding_makes_the_loss_independent_of_shifts() -> None:
    plain = build(size=(32, 32))
    objective = Objective(plain.network, plain.grams, {}, LossWeights(LAYERS), "circular", tile=16)
    x = picture(32, 32)
    moved = torch.roll(x, (8, 12), (2, 3))
    assert objective(moved)[0].total == pytest.approx(objective(x)[0].total, rel=1e-10)
    assert Objective(plain.network, plain.grams, {}, LossWeights(LAYERS))(moved)[0].total != pytest.approx(
        objective(x)[0].total, rel=1e-3
    )


def test_tiles_cover_each_pixel_once_with_margins() -> None:
    tiles = split_tiles((70, 61), 32, (8, 4))
    covered = torch.zeros(70, 61)
    for rows, columns in tiles:
        covered[rows.inner_start : rows.inner_end, columns.inner_start : columns.inner_end] += 1
        assert rows.start == max(0, rows.inner_start - 8)
        assert rows.end == min(70, rows.inner_end + 8)
        assert rows.inner_start % 4 == columns.inner_start % 4 == 0
        assert rows.inner_end - rows.inner_start <= 32 + 4
    assert len(tiles) == 6
    assert (covered == 1).all()


def test_circular_padding_has_one_tile() -> None:
    plain, x = build(), picture(96, 96)
    whole, parts = (
        Objective(plain.network, plain.grams, {}, LossWeights(LAYERS), "circular", tile=tile)(x)[0].total
        for tile in (512, 16)
    )
    assert parts == pytest.approx(whole, rel=1e-12)
