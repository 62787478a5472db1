"""Named, independent generators from one seed."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.randomness import Randomness, counted_uniforms
from tests.python_path import python_path


def test_same_seed_name_and_index_give_same_numbers() -> None:
    one, other = Randomness(13), Randomness(13)
    assert one.numpy("split", 2).random(5).tolist() == other.numpy("split", 2).random(5).tolist()
    assert torch.equal(torch.rand(5, generator=one.torch("weights")), torch.rand(5, generator=other.torch("weights")))


def test_generator_requested_twice_starts_again() -> None:
    randomness = Randomness(1)
    assert randomness.numpy("split").random() == randomness.numpy("split").random()


def test_different_seeds_names_and_indices_give_different_numbers() -> None:
    things = [
        Randomness(0).number("a"),
        Randomness(1).number("a"),
        Randomness(0).number("b"),
        Randomness(0).number("a", 1),
        Randomness(0).number("a/1"),
        Randomness(0).number("a/1", 1),
        Randomness(10).number("a"),
        Randomness(1).number("0/a"),
        Randomness(-1).number("a"),
    ]
    assert len(set(things)) == len(things)


@given(seed=st.integers(), name=st.text(st.characters(exclude_categories=["Cs"])), index=st.integers(0, 10**9))
def test_numbers_fit_every_generator(seed: int, name: str, index: int) -> None:
    number = Randomness(seed).number(name, index)
    assert 0 <= number < 2**63
    assert torch.Generator().manual_seed(number).initial_seed() == number


def test_numbers_use_all_their_bits() -> None:
    numbers = [Randomness(0).number("bits", i) for i in range(400)]
    for bit in range(63):
        ones = sum(number >> bit & 1 for number in numbers)
        assert 140 < ones < 260  # six standard deviations around a half


def test_numbers_do_not_depend_on_the_process() -> None:
    code = (
        "from catena.randomness import Randomness; import sys; sys.stdout.write(str(Randomness(7).number('split', 3)))"
    )
    source = Path(__file__).parents[1] / "src"
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": python_path(source), "PYTHONHASHSEED": hash_seed}
        said = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
        assert int(said.stdout) == Randomness(7).number("split", 3)


def test_seed_torch_seeds_the_global_generator() -> None:
    randomness = Randomness(5)
    randomness.seed_torch("dropout", 1)
    first = torch.rand(3)
    randomness.seed_torch("dropout", 1)
    assert torch.equal(torch.rand(3), first)
    randomness.seed_torch("dropout", 2)
    assert not torch.equal(torch.rand(3), first)


def test_generators_do_not_change_global_ones() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    expected = torch.rand(2), np.random.rand()
    torch.manual_seed(0)
    np.random.seed(0)
    Randomness(3).torch("weights")
    Randomness(3).numpy("split").random(10)
    torch.rand(4, generator=Randomness(3).torch("weights"))
    assert torch.equal(torch.rand(2), expected[0])
    assert np.random.rand() == expected[1]


def test_randomness_is_frozen() -> None:
    assert Randomness(3) == Randomness(3)
    assert Randomness().seed == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        Randomness(3).seed = 4  # type: ignore[misc]


def test_counted_uniforms_depend_only_on_seed_stream_and_index() -> None:
    whole = counted_uniforms(7, 2, 0, 50)
    for start in (0, 1, 3, 4, 11, 49):
        assert counted_uniforms(7, 2, start, 50 - start).tolist() == whole[start:].tolist()
    for seed, stream in ((8, 2), (7, 3), (2, 7)):
        assert counted_uniforms(seed, stream, 0, 50).tolist() != whole.tolist()
    assert counted_uniforms(-1, 0, 5, 0).tolist() == []
    many = counted_uniforms(1, 1, 0, 20_000)
    counts = np.histogram(many, bins=10, range=(0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 33.7  # 9 degrees of freedom, p = 0.0001
    assert abs(np.corrcoef(many[:-1], many[1:])[0, 1]) < 0.03


def split_mix(z: int) -> int:
    """The finalizer of SplitMix64 in unbounded integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def test_uniforms_equal_integers_of_python() -> None:
    randomness = Randomness(5)
    found = randomness.uniforms("augment", 7, torch.tensor([0, 3, 10**6]), 4)
    golden = 0x9E3779B97F4A7C15
    for row, numbers in zip((0, 3, 10**6), found.tolist(), strict=True):
        first = split_mix((row * golden + randomness.number("augment", 7)) % 2**64)
        wanted = [(split_mix((first + j * golden) % 2**64) >> 40) / 2**24 for j in range(4)]
        assert numbers == wanted


def test_uniforms_do_not_depend_on_the_batch(device: str) -> None:
    rows = torch.tensor([8, 2, 5, 2])
    whole = Randomness(1).uniforms("augment", 0, torch.arange(10), 6)
    assert torch.equal(Randomness(1).uniforms("augment", 0, rows.to(device), 6).cpu(), whole[rows])
    assert torch.equal(Randomness(1).uniforms("augment", 0, rows, 3), whole[rows, :3])


def test_uniforms_are_uniform_and_independent() -> None:
    found = Randomness(2).uniforms("augment", 1, torch.arange(20_000), 3).double()
    assert found.min() >= 0
    assert found.max() < 1
    counts = torch.histc(found[:, 0], 20, 0, 1)
    assert ((counts - 1000) ** 2 / 1000).sum() < 50  # chi-square with 19 degrees of freedom: p < 0.0002
    others = (
        found[:, 1],
        found[:, 0].roll(1),
        Randomness(2).uniforms("augment", 2, torch.arange(20_000), 1)[:, 0].double(),
        Randomness(3).uniforms("augment", 1, torch.arange(20_000), 1)[:, 0].double(),
    )
    for other in others:
        assert torch.corrcoef(torch.stack((found[:, 0], other)))[0, 1].abs() < 5 / 20_000**0.5
