"""Steppers without repeated n-grams."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from catena.errors import ConfigError
from catena.search.beam_search import beam
from catena.search.repeats import NoRepeatNgram
from tests.laws.stepper_laws import StepperLaws
from tests.oracle.search import all_sequences
from tests.search.models import as_model, random_table


class TestNoRepeat(StepperLaws):
    normalized = False

    @pytest.fixture(params=[1, 2, 3])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], NoRepeatNgram]:
        return lambda: NoRepeatNgram(random_table(6, 2, end=5), request.param)


def repeats(ids: tuple[int, ...], n: int) -> bool:
    windows = [ids[i : i + n] for i in range(len(ids) - n + 1)]
    return len(set(windows)) < len(windows)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_repeat_ngram_forbids_exactly_the_repetitions(n: int) -> None:
    table = random_table(3, 2, end=2)
    everything = all_sequences(as_model(table), 2, 7)
    wanted = {ids: log_prob for (ids, done), log_prob in everything.items() if done and not repeats(ids, n)}
    stepper = NoRepeatNgram(table, n)
    found = beam(stepper, stepper.start(1), 300, 7, n_best=300)[0]
    assert {h.ids: h.log_prob for h in found if h.finished} == pytest.approx(wanted)
    assert any(repeats(ids, n) for ids, _ in everything)


def test_no_repeat_ngram_counts_prompts_of_different_lengths() -> None:
    stepper = NoRepeatNgram(random_table(4, 1, end=3), 2)
    prompts, lengths = torch.tensor([[0, 1, 0], [1, 9, 9]]), torch.tensor([3, 1])
    log_probs = stepper.log_probs(stepper.extend(stepper.start(2), prompts, lengths))
    assert (log_probs.exp() == 0).tolist() == [[False, True, False, False], [False] * 4]


def test_no_repeat_ngram_of_size_zero_raises() -> None:
    with pytest.raises(ConfigError, match="n must be at least 1, got 0"):
        NoRepeatNgram(random_table(3), 0)
