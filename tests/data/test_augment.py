"""Augmentation: every change is what it says, chosen for each example, and the same for any batch and device."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch

from catena.data.augment import (
    N_IMAGE_UNIFORMS,
    augment_images,
    augment_sounds,
    count_sound_uniforms,
    mix_noise,
    to_unit_scale,
)
from catena.data.media_config import ImageAugmentationConfig, SoundAugmentationConfig
from catena.randomness import Randomness

FILL = torch.tensor([0.25, 0.5, 0.75])


def pictures(b: int = 6, h: int = 7, w: int = 5) -> torch.Tensor:
    return torch.randint(0, 256, (b, h, w, 3), dtype=torch.uint8)


def change(pixels: torch.Tensor, u: torch.Tensor, **options: float) -> torch.Tensor:
    return augment_images(pixels, u, ImageAugmentationConfig(**options), FILL)


def test_no_augmentation_is_the_unit_scale() -> None:
    x, u = pictures(), torch.rand(6, N_IMAGE_UNIFORMS)
    assert torch.equal(change(x, u), to_unit_scale(x))
    assert to_unit_scale(x).max() <= 1
    assert torch.equal(to_unit_scale(x)[1, 2, 3, 4], x[1, 3, 4, 2] / 255)


def test_crop_and_flip_equal_plain_loops() -> None:
    x = pictures()
    u = torch.rand(6, N_IMAGE_UNIFORMS)
    found = change(x, u, padding=2, flip=0.5)
    for i in range(6):
        top, left = (int(5 * u[i, axis]) - 2 for axis in (0, 1))
        for c, row, column in product(range(3), range(7), range(5)):
            source_row = row + top
            source_column = (4 - column if u[i, 2] < 0.5 else column) + left
            inside = 0 <= source_row < 7 and 0 <= source_column < 5
            wanted = x[i, source_row, source_column, c] / 255 if inside else FILL[c]
            assert found[i, c, row, column] == wanted


def test_every_crop_offset_and_flip_occurs() -> None:
    x = torch.zeros(2000, 9, 9, 1, dtype=torch.uint8)
    x[:, 4, 3] = 255
    u = Randomness(0).uniforms("augment", 0, torch.arange(2000), N_IMAGE_UNIFORMS)
    found = augment_images(x, u, ImageAugmentationConfig(padding=2, flip=0.5), torch.zeros(1))
    positions = {tuple(p) for p in found.nonzero()[:, 2:].tolist()}
    columns = {1, 2, 3, 4, 5} | {3, 4, 5, 6, 7}  # of the flipped ones
    assert positions == set(product(range(2, 7), columns))


def test_erase_sets_a_square_to_the_fill() -> None:
    x = torch.zeros(50, 12, 12, 3, dtype=torch.uint8)
    u = torch.rand(50, N_IMAGE_UNIFORMS)
    found = change(x, u, erase=4)
    for i in range(50):
        rows, columns = (found[i, 0] != 0).any(1).nonzero().flatten(), (found[i, 0] != 0).any(0).nonzero().flatten()
        centers = int(12 * u[i, 5]), int(12 * u[i, 6])
        for positions, center in zip((rows, columns), centers, strict=True):
            assert positions.tolist() == [p for p in range(center - 2, center + 2) if 0 <= p < 12]
        assert (found[i, :, rows[0], columns[0]] == FILL).all()


def test_brightness_and_contrast_are_the_stated_factors() -> None:
    x, u = pictures(), torch.rand(6, N_IMAGE_UNIFORMS)
    plain = to_unit_scale(x)
    factor = lambda u, s: (1 + s * (2 * u - 1))[:, None, None, None]  # noqa: E731
    torch.testing.assert_close(change(x, u, brightness=0.4), plain * factor(u[:, 3], 0.4))
    mean = plain.mean(dim=(1, 2, 3), keepdim=True)
    torch.testing.assert_close(change(x, u, contrast=0.4), mean + (plain - mean) * factor(u[:, 4], 0.4))


def test_zoom_equals_bilinear_loops() -> None:
    """With a crop and a flip: the source of a pixel, its four neighbors, and the fill outside."""
    x, u = pictures(), torch.rand(6, N_IMAGE_UNIFORMS)
    found = change(x, u, padding=2, flip=0.5, zoom=0.4)
    n_outside = 0
    for i in range(6):
        sizes, offsets = (7, 5), [int(5 * u[i, axis]) - 2 for axis in (0, 1)]
        factors = [1 + 0.4 * (2 * u[i, 7 + axis].item() - 1) for axis in (0, 1)]
        for row, column in product(range(7), range(5)):
            cropped = row + offsets[0], (4 - column if u[i, 2] < 0.5 else column) + offsets[1]
            centers = [(size - 1) / 2 for size in sizes]
            at = [c + (p - c) * f for p, c, f in zip(cropped, centers, factors, strict=True)]
            if not all(-0.5 < p < size - 0.5 for p, size in zip(at, sizes, strict=True)):
                n_outside += 1
                assert torch.equal(found[i, :, row, column], FILL)
                continue
            inner = [min(max(p, 0), size - 1) for p, size in zip(at, sizes, strict=True)]
            low = [min(math.floor(p), size - 2) for p, size in zip(inner, sizes, strict=True)]
            wanted = torch.zeros(3)
            for down, right in product((0, 1), (0, 1)):
                weight = 1.0
                for p, start, step in zip(inner, low, (down, right), strict=True):
                    weight *= p - start if step else 1 - (p - start)
                wanted += weight * x[i, low[0] + down, low[1] + right] / 255
            torch.testing.assert_close(found[i, :, row, column], wanted, rtol=0, atol=1e-5)
    assert 0 < n_outside < 6 * 35


def test_zoom_goes_both_ways_about_the_center() -> None:
    x = torch.zeros(2, 21, 21, 3, dtype=torch.uint8)
    x[:, 6:15, 8:13] = 255
    u = torch.full((2, N_IMAGE_UNIFORMS), 0.5)
    u[0, 7:] = 0.0
    u[1, 7:] = 1 - 2**-24
    found = augment_images(x, u, ImageAugmentationConfig(zoom=0.3), torch.zeros(3))[:, 0]
    sizes = [((one[10] > 0.5).sum().item(), (one[:, 10] > 0.5).sum().item()) for one in found]
    assert sizes == [(7, 13), (3, 7)]  # 5 and 9 by 1 / 0.7 and by 1 / 1.3, of odd length about the center
    assert torch.allclose(found, found.flip(1), atol=1e-5)
    assert torch.allclose(found, found.flip(2), atol=1e-5)


def test_pictures_do_not_depend_on_their_batch_or_device(device: str) -> None:
    x, rows = pictures(10), torch.tensor([7, 2, 2, 9])
    options = {"padding": 2, "flip": 0.5, "erase": 3, "brightness": 0.2, "contrast": 0.2, "zoom": 0.3}

    def augmented(rows: torch.Tensor, epoch: int) -> torch.Tensor:
        u = Randomness(1).uniforms("augment", epoch, rows.to(device), N_IMAGE_UNIFORMS)
        config = ImageAugmentationConfig(**options)
        return augment_images(x[rows].to(device), u, config, FILL.to(device)).cpu()

    whole = augmented(torch.arange(10), 3)
    torch.testing.assert_close(augmented(rows, 3), whole[rows], rtol=0, atol=1e-6)
    assert not torch.equal(augmented(rows, 4), whole[rows])


# --- sounds -----------------------------------------------------------------------------------------------------------

SILENCE = math.log(1e-6)
LENGTHS = torch.tensor([20, 9, 1, 14])


def sounds(d: int = 8) -> torch.Tensor:
    x = torch.randn(4, 20, d, dtype=torch.float64)
    return x.masked_fill((torch.arange(20) >= LENGTHS[:, None])[..., None], math.nan)


def apply(x: torch.Tensor, u: torch.Tensor, **options: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    config = SoundAugmentationConfig(**options)
    fill = torch.full((x.shape[-1],), 0.5, dtype=x.dtype)
    return tuple(augment_sounds(x, LENGTHS, u[:, : count_sound_uniforms(config)], config, silence=SILENCE, fill=fill))


def test_no_augmentation_keeps_real_frames() -> None:
    x = sounds()
    y, n, sources = apply(x, torch.rand(4, 20))
    assert n.tolist() == LENGTHS.tolist()
    for i, size in enumerate(LENGTHS.tolist()):
        assert torch.equal(y[i, :size], x[i, :size])
        assert sources[i, :size].tolist() == list(range(size))


def test_tempo_interpolates_between_frames() -> None:
    x, u = sounds(), torch.rand(4, 20)
    y, n, sources = apply(x, u, tempo=2.0)
    for i, size in enumerate(LENGTHS.tolist()):
        speed = 2.0 ** (2 * u[i, 0].item() - 1)
        assert n[i] == max(1, round(size / speed))
        wanted = np.stack(
            [np.interp(np.arange(int(n[i])) * speed, np.arange(size), x[i, :size, j].numpy()) for j in range(8)],
            axis=1,
        )
        inside = np.arange(int(n[i])) * speed < size
        np.testing.assert_allclose(y[i, : n[i]][inside], wanted[inside], atol=1e-5)
        assert (y[i, : n[i]][~inside] == SILENCE).all()
        assert sources[i, : n[i]][inside].tolist() == [
            min(size - 1, round(t * speed)) for t in range(int(n[i])) if t * speed < size
        ]


def test_shift_moves_frames_and_fills_with_silence() -> None:
    x, u = sounds(), torch.rand(4, 20)
    y, n, sources = apply(x, u, shift=3)
    assert (n > 0).all()
    for i, size in enumerate(LENGTHS.tolist()):
        by = int(7 * u[i, 1]) - 3
        for t in range(int(n[i])):
            if 0 <= t - by < size:
                torch.testing.assert_close(y[i, t], x[i, t - by])
                assert sources[i, t] == t - by
            else:
                assert (y[i, t] == SILENCE).all()
                assert sources[i, t] == -1


def test_gain_adds_decibels_down_to_silence() -> None:
    x, u = sounds(), torch.rand(4, 20)
    y, n, _ = apply(x, u, gain=6.0)
    for i, size in enumerate(n.tolist()):
        added = (12 * u[i, 3] - 6) * math.log(10) / 10
        torch.testing.assert_close(y[i, :size], (x[i, :size] + added).clamp(min=SILENCE), rtol=0, atol=1e-6)
    quiet = torch.full_like(x, SILENCE)
    assert (apply(quiet, torch.zeros(4, 20), gain=60.0)[0][0] == SILENCE).all()


def test_mel_shift_interpolates_between_bands() -> None:
    x, u = sounds(), torch.rand(4, 20)
    y, n, _ = apply(x, u, mel_shift=2.0)
    assert (n > 0).all()
    for i, size in enumerate(n.tolist()):
        by = 4 * u[i, 2].item() - 2
        for t in range(size):
            wanted = np.interp(np.arange(8) - by, np.arange(8), x[i, t].numpy())
            np.testing.assert_allclose(y[i, t], wanted, atol=1e-5)


def test_masks_are_within_the_sound_and_not_too_long() -> None:
    x = torch.zeros(4, 20, 8, dtype=torch.float64)
    widest, longest = 0, 0
    for epoch in range(200):
        u = Randomness(5).uniforms("augment", epoch, torch.arange(4), 20)
        y, n, _ = apply(x, u, time_mask=5, mel_mask=3)
        for i, size in enumerate(n.tolist()):
            masked = y[i, :size] == 0.5
            frames, bands = masked.all(dim=1).sum().item(), masked.all(dim=0).sum().item()
            assert frames <= min(5, int(0.2 * size))
            assert bands <= 3 or size == frames
            assert (masked == (masked.all(dim=1)[:, None] | masked.all(dim=0))).all()
            widest, longest = max(widest, bands), max(longest, frames)
    assert (widest, longest) == (3, 4)


def test_sounds_do_not_depend_on_their_batch() -> None:
    x = torch.randn(4, 20, 8)
    config = SoundAugmentationConfig(tempo=1.3, shift=2, gain=3, mel_shift=1, time_mask=4, mel_mask=2)
    u = Randomness(1).uniforms("augment", 0, torch.arange(4), count_sound_uniforms(config))
    together = augment_sounds(x, LENGTHS, u, config, silence=SILENCE, fill=torch.zeros(8))
    for i in range(4):
        row = slice(i, i + 1)
        alone = augment_sounds(x[row], LENGTHS[row], u[row], config, silence=SILENCE, fill=torch.zeros(8))
        n = int(alone.lengths[0])
        assert n == together.lengths[i]
        torch.testing.assert_close(alone.features[0, :n], together.features[i, :n])


def test_mix_noise_adds_energies_at_the_stated_ratio() -> None:
    x, noise = torch.randn(3, 9, 4, dtype=torch.float64), 3 + torch.randn(3, 9, 4, dtype=torch.float64)
    decibels = torch.tensor([0.0, 10.0, -5.0], dtype=torch.float64)
    added = mix_noise(x, noise, decibels).exp() - x.exp()
    ratio = 10 * torch.log10(x.exp().sum((1, 2)) / added.sum((1, 2)))
    torch.testing.assert_close(ratio, decibels)
    torch.testing.assert_close(added / noise.exp(), (added / noise.exp())[:, :1, :1].expand(3, 9, 4))


@pytest.mark.parametrize("options", [{"tempo": 1.2}, {"shift": 4}, {"mel_shift": 1.5}, {"time_mask": 9}, {"gain": 5.0}])
def test_gradients_flow_through_augmentation(options: dict[str, float]) -> None:
    x = torch.randn(4, 20, 8, dtype=torch.float64, requires_grad=True)
    apply(x, torch.rand(4, 20), **options)[0].sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
