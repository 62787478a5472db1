"""Combinations of steppers."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from catena.errors import ConfigError
from catena.search.beam_search import beam
from catena.search.combine import Combined, Ensemble, LogLinear, shallow_fusion
from catena.search.table_stepper import TableStepper
from tests.laws.stepper_laws import StepperLaws
from tests.oracle.search import all_sequences
from tests.search.models import as_model, random_table

A, B = random_table(4, 2, end=3, seed=1, impossible=0.3), random_table(4, 3, end=3, seed=2, impossible=0.3)
C = random_table(4, 1, end=3, seed=5)


class TestCombined(StepperLaws):
    @pytest.fixture(
        params=[
            lambda: Ensemble([A, B]),
            lambda: Ensemble([A, B, C], [0.2, 0.0, 3.0]),
            lambda: LogLinear([A, C], [0.5, 1.5]),
            lambda: LogLinear([C], [2.0]),
        ],
        ids=["ensemble", "weighted", "log-linear", "one"],
    )
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Combined]:
        return request.param


class TestFusion(StepperLaws):
    normalized = False

    @pytest.fixture
    def make(self) -> Callable[[], LogLinear]:
        return lambda: shallow_fusion(A, B, 0.4)


PREFIXES = [(), (0,), (1, 2), (2, 0, 0)]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_ensemble_averages_probabilities(prefix: tuple[int, ...]) -> None:
    a, b, both = as_model(A)(prefix), as_model(B)(prefix), as_model(Ensemble([A, B]))(prefix)
    assert both == pytest.approx([(x + y) / 2 for x, y in zip(a, b, strict=True)])
    uneven = as_model(Ensemble([A, B], [3.0, 1.0]))(prefix)
    assert uneven == pytest.approx([0.75 * x + 0.25 * y for x, y in zip(a, b, strict=True)])


@pytest.mark.parametrize("prefix", PREFIXES)
def test_log_linear_multiplies_powers(prefix: tuple[int, ...]) -> None:
    a, c, both = as_model(A)(prefix), as_model(C)(prefix), as_model(LogLinear([A, C], [0.5, 1.5]))(prefix)
    products = [x**0.5 * y**1.5 for x, y in zip(a, c, strict=True)]
    assert both == pytest.approx([x / math.fsum(products) for x in products])


def test_log_linear_weight_zero_ignores_the_stepper() -> None:
    for prefix in PREFIXES:
        assert as_model(LogLinear([C, B], [1.0, 0.0]))(prefix) == pytest.approx(as_model(C)(prefix))
        assert as_model(Ensemble([C, B], [1.0, 0.0]))(prefix) == pytest.approx(as_model(C)(prefix))
    assert as_model(LogLinear([C], [0.0]))(()) == pytest.approx([0.25] * 4)


def test_shallow_fusion_ranks_by_the_weighted_sum() -> None:
    fused = shallow_fusion(A, C, 0.7)
    one, other = (all_sequences(as_model(s), 3, 3) for s in (A, C))
    wanted = {ids: log_prob + 0.7 * other[ids, True] for (ids, done), log_prob in one.items() if done}
    found = beam(fused, fused.start(1), 200, 3, n_best=200)[0]
    assert {h.ids: h.log_prob for h in found if h.finished} == pytest.approx(wanted)


def test_combined_different_vocabularies_raise() -> None:
    with pytest.raises(ConfigError, match="v = 4 and end = 3 in stepper 0, v = 5 and end = 3 in stepper 1"):
        Ensemble([A, random_table(5, 2, end=3)])
    with pytest.raises(ConfigError, match="v = 4 and end = 0 in stepper 2"):
        LogLinear([A, B, random_table(4, 2, end=0)], [1.0, 1.0, 1.0])

    def named(tokens: list[str]) -> TableStepper:
        stepper: Any = random_table(4, 2, end=3)
        stepper.vocabulary = SimpleNamespace(symbols=tokens)
        return stepper

    Ensemble([named(["a", "b", "c", "</s>"]), A, named(["a", "b", "c", "</s>"])])
    with pytest.raises(ConfigError, match="got different tokens for the same ids"):
        Ensemble([named(["a", "b", "c", "</s>"]), A, named(["b", "a", "c", "</s>"])])


@pytest.mark.parametrize(
    ("weights", "words"),
    [([1.0], "2 steppers and 1 weights"), ([1.0, -0.5], "must be at least 0"), ([0.0, 0.0], "got only zeros")],
)
def test_combined_invalid_weights_raise(weights: list[float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Ensemble([A, B], weights)
    with pytest.raises(ConfigError, match="got 0 steppers"):
        Ensemble([])


def test_combined_extend_calls_each_stepper() -> None:
    read = []

    class Prefilled(TableStepper):
        def extend(self, state: Any, ids: torch.Tensor, lengths: torch.Tensor) -> Any:
            read.append(lengths.tolist())
            return super().extend(state, ids, lengths)

    both = Ensemble([Prefilled(A.table, 3), B])
    both.extend(both.start(2), torch.tensor([[0, 1], [2, 2]]), torch.tensor([2, 1]))
    assert read == [[2, 1]]
