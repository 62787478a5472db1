"""Readable colors in light and dark mode. Contrast by the formula of WCAG 2.2."""

from __future__ import annotations

import pytest

from catena.draw.palette import N_CATEGORIES, PALETTE, category, in_the_dark, on_heat, stylesheet

MODES = [0, 1]


def rgb(color: str) -> tuple[float, ...]:
    return tuple(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))


def luminance(color: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def blend(color: tuple[float, ...], paper: tuple[float, ...], opacity: float) -> tuple[float, ...]:
    return tuple(opacity * c + (1 - opacity) * p for c, p in zip(color, paper, strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["ink", "soft", "accent", "best", "good", "bad", *map(category, range(N_CATEGORIES))])
def test_text_contrasts_with_paper(name, mode):
    assert contrast(rgb(PALETTE[name][mode]), rgb(PALETTE["paper"][mode])) >= 4.5
    assert contrast(rgb(PALETTE[name][mode]), rgb(PALETTE["faint"][mode])) >= 4.4


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("heat", ["heat", "cold"])
def test_numbers_contrast_with_heat_of_any_strength(heat, mode):
    for hundredths in range(101):
        opacity = hundredths / 100
        cell = blend(rgb(PALETTE[heat][mode]), rgb(PALETTE["faint"][mode]), opacity)
        assert contrast(rgb(PALETTE[on_heat(opacity)][mode]), cell) >= 4.2, opacity


@pytest.mark.parametrize("mode", MODES)
def test_numbers_contrast_with_discs(mode):
    for disc in ("accent", "best"):
        assert contrast(rgb(PALETTE["on-strong"][mode]), rgb(PALETTE[disc][mode])) >= 4.5


def test_categories_differ_and_repeat():
    assert len({PALETTE[category(i)] for i in range(N_CATEGORIES)}) == N_CATEGORIES
    assert category(N_CATEGORIES) == category(0)


def test_dark_sheet_comes_last_and_can_be_made_only_one():
    sheet = stylesheet({"s-line", "f-ink"})
    light, dark = (PALETTE["ink"][mode] for mode in MODES)
    assert sheet.index(light) < sheet.index("@media (prefers-color-scheme:dark)") < sheet.index(dark)
    unwrapped = in_the_dark(sheet)
    assert "@media" not in unwrapped
    assert unwrapped.count("{") == unwrapped.count("}") == 4
    assert unwrapped.index(light) < unwrapped.index(dark)
