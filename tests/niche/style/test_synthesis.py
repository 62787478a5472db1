"""Textures and styles: the loss falls, results repeat, options do what they say, and Ctrl-C keeps the picture."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from catena.errors import ConfigError, DataError
from catena.niche.style import RandomFilters, SynthesisProgress, SynthesisResult, synthesize_texture, transfer_style
from catena.niche.style.losses import gram_matrix, relative_gram_loss
from catena.niche.style.pictures import to_unit
from catena.niche.style.synthesis import measure_grams, split_steps, to_tensor
from tests.niche.style.networks import disk, small_network, stripes

pytest.importorskip("PIL.Image")
NETWORK = small_network(torch.float32)
FEW = RandomFilters((3, 5, 7), n_filters=8)


def texture(**options: object) -> SynthesisResult:
    return synthesize_texture(stripes(), **{"network": NETWORK, "steps": 15, "device": "cpu", **options})  # type: ignore[arg-type]


def style(**options: object) -> SynthesisResult:
    return transfer_style(disk(), stripes(), **{"network": NETWORK, "steps": 12, "device": "cpu", **options})  # type: ignore[arg-type]


def grams(picture: np.ndarray) -> dict[str, torch.Tensor]:
    return measure_grams(NETWORK, [to_unit(picture)], ("conv1_1", "conv2_1", "conv3_1"))


@pytest.mark.parametrize("network", [NETWORK, FEW])
def test_loss_of_a_texture_never_rises_and_reaches_a_hundredth(network: RandomFilters) -> None:
    result = texture(network=network, steps=60)
    totals = [losses.total for losses in result.losses]
    assert [losses.step for losses in result.losses] == list(range(len(totals)))
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] < 0.01 * totals[0]
    assert result.best == result.losses[-1]
    assert not result.interrupted


def test_reported_style_loss_is_the_relative_gram_loss_of_the_picture() -> None:
    pale = (stripes() // 4 + 96).astype(np.uint8)  # so that few pixels are clipped
    result = synthesize_texture(pale, network=NETWORK, steps=8, start="noise", device="cpu")
    assert (result.picture.shape, result.picture.dtype) == ((32, 32, 3), np.uint8)
    measured = relative_gram_loss(grams(result.picture), grams(pale))
    assert measured == pytest.approx(result.best.style, rel=0.3)
    assert measured < 0.5 * result.losses[0].style


def test_same_seed_gives_the_same_picture_and_another_seed_another() -> None:
    first, second, other = texture(seed=3), texture(seed=3), texture(seed=4)
    np.testing.assert_array_equal(first.picture, second.picture)
    assert first.losses == second.losses
    assert (first.picture != other.picture).any()


def test_default_network_has_random_filters_of_the_seed() -> None:
    sample = stripes(64, 64)
    result = synthesize_texture(sample, steps=1, layers=("random3",), device="cpu")
    again = synthesize_texture(sample, steps=1, layers=("random3",), device="cpu", network=RandomFilters(seed=0))
    np.testing.assert_array_equal(result.picture, again.picture)


def test_adam_keeps_the_best_picture() -> None:
    result = texture(optimizer="adam", steps=30, learning_rate=0.5)
    totals = [losses.total for losses in result.losses]
    assert len(totals) == 31
    assert result.best.total == min(totals) < totals[0]


def test_best_picture_is_kept_if_the_loss_rises() -> None:
    result = texture(optimizer="adam", steps=10, learning_rate=10.0)
    totals = [losses.total for losses in result.losses]
    assert result.best.total == min(totals) < totals[-1]


def test_size_of_a_texture_is_free_and_its_sample_is_reduced() -> None:
    result = synthesize_texture(stripes(64, 64), network=NETWORK, size=32, width=48, steps=1, device="cpu")
    assert result.picture.shape == (32, 48, 3)


def test_tileable_texture_has_no_seam() -> None:
    def seam(picture: np.ndarray) -> float:
        x = picture.astype(float)
        inside = np.abs(x[:, 1:] - x[:, :-1]).mean()
        return float(np.abs(x[:, 0] - x[:, -1]).mean() / inside)

    plain, wrapped = texture(steps=60), texture(steps=60, tileable=True)
    assert seam(wrapped.picture) < 1.5
    assert not np.array_equal(plain.picture, wrapped.picture)


def test_levels_divide_the_steps_and_end_at_full_size() -> None:
    sizes: list[tuple[int, ...]] = []
    result = texture(steps=12, levels=2, on_step=lambda progress: sizes.append(progress.picture().shape))
    assert result.picture.shape == (32, 32, 3)
    assert set(sizes) == {(16, 16, 3), (32, 32, 3)}
    assert result.losses[-1].step == 12
    assert split_steps(120, 1) == [120]
    assert split_steps(120, 3) == [20, 20, 80]
    assert split_steps(2, 3) == [1, 1, 1]


# --- style ------------------------------------------------------------------------------------------------------------


def test_style_loss_falls_and_content_is_kept_by_its_weight() -> None:
    strong, weak = style(style_weight=1e4), style(style_weight=1e-2)
    assert strong.best.style < 0.2 * strong.losses[0].style
    assert strong.losses[0].content < 1e-12  # it starts with the content
    assert weak.best.content < strong.best.content


def test_content_loss_without_style_gives_back_the_content() -> None:
    network = RandomFilters((3,), n_filters=60)
    result = style(network=network, style_weight=0.0, start="noise", content_layers=("random3",), steps=200)
    assert result.best.content < 1e-3
    assert np.abs(result.picture.astype(int) - disk()).mean() < 5


def test_content_that_is_its_own_style_does_not_change() -> None:
    result = transfer_style(disk(), disk(), network=NETWORK, steps=3, device="cpu")
    np.testing.assert_array_equal(result.picture, disk())
    assert result.losses[0].total == pytest.approx(0, abs=1e-10)


def test_paper_form_reports_relative_losses() -> None:
    relative, paper = style(steps=1), style(steps=1, loss="paper", style_weight=1000.0)
    assert paper.losses[0].style == pytest.approx(relative.losses[0].style)
    assert paper.losses[0].total != pytest.approx(relative.losses[0].total)


def test_several_styles_have_the_mean_of_their_grams() -> None:
    pictures = [to_unit(stripes()), to_unit(disk())]
    mixed = measure_grams(NETWORK, pictures, ["conv1_1"], [0.25, 0.75])["conv1_1"]
    single = [gram_matrix(NETWORK(to_tensor(one, NETWORK), ["conv1_1"])["conv1_1"][0]) for one in pictures]
    torch.testing.assert_close(mixed, 0.25 * single[0] + 0.75 * single[1])
    only = transfer_style(disk(), [stripes(), disk()], mix=[1.0, 0.0], network=NETWORK, steps=2, device="cpu")
    np.testing.assert_array_equal(only.picture, style(steps=2).picture)


def test_luminance_keeps_the_colors_of_the_content() -> None:
    def chroma(picture: np.ndarray) -> np.ndarray:
        x = picture.astype(float)
        return x - (x @ [0.299, 0.587, 0.114])[..., None]

    kept, free = style(color="luminance", style_weight=1e4), style(style_weight=1e4)
    assert np.abs(chroma(kept.picture) - chroma(disk())).mean() < 3
    assert np.abs(chroma(free.picture) - chroma(disk())).mean() > 10


def test_histogram_moves_colors_towards_the_content() -> None:
    matched, free = style(color="histogram", style_weight=1e4), style(style_weight=1e4)
    wanted = disk().reshape(-1, 3).mean(0)

    def distance(result: SynthesisResult) -> float:
        return float(np.abs(result.picture.reshape(-1, 3).mean(0) - wanted).mean())

    assert distance(matched) < distance(free)


# --- stopping and errors ----------------------------------------------------------------------------------------------


def test_on_step_stops_and_keeps_the_best_picture() -> None:
    def stop(progress: SynthesisProgress) -> bool:
        seen.append(progress.losses.step)
        return progress.losses.step == 4

    seen: list[int] = []
    result = texture(on_step=stop)
    assert seen == [0, 1, 2, 3, 4]
    assert result.interrupted
    assert result.best.step == 4


def test_ctrl_c_stops_after_the_step_at_full_size() -> None:
    def interrupt(progress: SynthesisProgress) -> None:
        if progress.losses.step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    result = texture(on_step=interrupt, levels=2, steps=12)
    assert result.interrupted
    assert len(result.losses) == 2
    assert result.picture.shape == (32, 32, 3)


def test_bad_options_raise() -> None:
    with pytest.raises(ConfigError, match=r"layers must be among conv1_1, .*, got 'conv5_9'"):
        texture(layers=["conv5_9"])
    with pytest.raises(ConfigError, match=r"layer_weights must be 2 values of at least 0, .* got \[1.0\]. Add"):
        texture(layers=["conv1_1", "conv1_2"], layer_weights=[1.0])
    with pytest.raises(ConfigError, match=r"mix must be 1 values .*, got \[0.5, 0.5\]"):
        style(mix=[0.5, 0.5])
    with pytest.raises(
        ConfigError, match=r"Height and width must be at most 4096 pixels, got 32 x 5000. Use a smaller"
    ):
        texture(width=5000)
    with pytest.raises(DataError, match=r"Height and width must be at least 8 pixels for the layer conv3_1, got 5 x 5"):
        synthesize_texture(stripes(5, 5), network=NETWORK, steps=1, device="cpu")


def test_result_is_saved_as_a_file(tmp_path: Path) -> None:
    result = texture(steps=1)
    result.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 100
