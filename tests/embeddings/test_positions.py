"""Positions: the waves compared to their formula; rotary products depend only on position differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from catena.embeddings.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from catena.errors import ShapeError


@pytest.mark.parametrize("d", [6, 7])
@pytest.mark.parametrize("start", [0, 5])
def test_sinusoidal_positions_equal_the_formula(d: int, start: int) -> None:
    waves = SinusoidalPositions(d)(torch.zeros(2, 4, d, dtype=torch.float64), start)
    for i in range(4):
        for j in range(d):
            angle = (start + i) / 10000 ** ((j - j % 2) / d)
            wanted = math.cos(angle) if j % 2 else math.sin(angle)
            assert waves[1, i, j].item() == pytest.approx(wanted, abs=1e-12)


def test_positions_are_added_and_the_dtype_kept() -> None:
    x = torch.randn(2, 4, 6)
    for positions in (SinusoidalPositions(6), LearnedPositions(9, 6)):
        added = positions(x)
        assert added.dtype == torch.float32
        torch.testing.assert_close(added - x, positions(torch.zeros(2, 4, 6)))
        assert positions(x.bfloat16()).dtype == torch.bfloat16


def test_sinusoidal_large_positions_are_exact_in_single_precision() -> None:
    rough = SinusoidalPositions(4)(torch.zeros(1, 1, 4), start=1_000_003)
    assert rough[0, 0, 0].item() == pytest.approx(math.sin(1_000_003), abs=1e-6)


def test_learned_positions_add_rows_and_raise_above_max_length() -> None:
    positions = LearnedPositions(5, 3)
    x = torch.zeros(1, 2, 3)
    assert torch.equal(positions(x, start=3)[0], positions.weight[3:5])
    with pytest.raises(ShapeError, match="at most max_length = 5, got 6"):
        positions(x, start=4)


def test_rotary_positions_rotate_each_pair_by_its_angle() -> None:
    x = torch.randn(5, 4, dtype=torch.float64)
    turned = RotaryPositions(4)(x, start=2)
    for i in range(5):
        for j in (0, 1):
            angle = (2 + i) / 10000 ** (2 * j / 4)
            a, b = x[i, 2 * j].item(), x[i, 2 * j + 1].item()
            assert turned[i, 2 * j].item() == pytest.approx(a * math.cos(angle) - b * math.sin(angle), abs=1e-12)
            assert turned[i, 2 * j + 1].item() == pytest.approx(a * math.sin(angle) + b * math.cos(angle), abs=1e-12)


@given(
    first=st.integers(0, 200),
    second=st.integers(0, 200),
    shift=st.integers(1, 200),
    half=st.integers(1, 4),
    seed=st.integers(0, 999),
)
def test_rotary_products_depend_only_on_position_differences(
    first: int, second: int, shift: int, half: int, seed: int
) -> None:
    rotary = RotaryPositions(2 * half)
    q, k = torch.randn(2, 1, 2 * half, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    here = (rotary(q, first) * rotary(k, second)).sum().item()
    there = (rotary(q, first + shift) * rotary(k, second + shift)).sum().item()
    assert here == pytest.approx(there, abs=1e-9)
    assert rotary(q, first).norm().item() == pytest.approx(q.norm().item(), abs=1e-9)


def test_rotary_products_differ_for_different_distances() -> None:
    rotary, q = RotaryPositions(4), torch.ones(1, 4, dtype=torch.float64)
    assert (rotary(q, 3) * rotary(q, 5)).sum().item() != pytest.approx((rotary(q, 3) * rotary(q, 6)).sum().item())


def test_rotary_positions_of_odd_size_raise() -> None:
    with pytest.raises(ShapeError, match="d must be even for rotary positions, got 5"):
        RotaryPositions(5)


@pytest.mark.parametrize("kind", [SinusoidalPositions, RotaryPositions, lambda d: LearnedPositions(40, d)])
def test_positions_accept_a_start_for_each_sequence(kind: Callable[[int], nn.Module]) -> None:
    positions = kind(6)
    for shape in ((3, 4, 6), (3, 2, 4, 6)):
        x = torch.randn(shape)
        together = positions(x, torch.tensor([0, 7, 33]))
        for i, start in enumerate((0, 7, 33)):
            torch.testing.assert_close(together[i : i + 1], positions(x[i : i + 1], start))


def test_rotary_half_precision_rounds_only_the_result() -> None:
    x = torch.randn(1, 3, 8).bfloat16()
    exact = RotaryPositions(8)(x.float(), 1000)
    assert torch.equal(RotaryPositions(8)(x, 1000), exact.bfloat16())
