"""check_stepper reports the rule that a custom stepper breaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from catena.errors import StepperError
from catena.search.automaton_acceptor import AutomatonAcceptor
from catena.search.beam_search import beam
from catena.search.check import check_stepper
from catena.search.constrained import Constrained
from catena.search.diverse import diverse_beam
from catena.search.filters import top_p
from catena.search.greedy_search import greedy
from catena.search.phrases import without_phrases
from catena.search.ranking import stop_at_max_length
from catena.search.sampling import sample
from catena.search.stepper import Stepper
from catena.search.stochastic import stochastic_beam
from catena.search.table_stepper import TableStepper
from tests.search.models import random_table

V, END = 6, 1
State = tuple[Tensor, Tensor]


class Own(Stepper[State]):
    """A small recurrent network, as a user would write it."""

    v, end = V, END

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.table, self.cell, self.out = nn.Embedding(V, 4), nn.LSTMCell(4, 5), nn.Linear(5, V)
        for parameter in self.out.parameters():
            parameter.data *= 5

    def start(self, n: int) -> State:
        return self.advance((torch.zeros(n, 5), torch.zeros(n, 5)), torch.zeros(n, dtype=torch.int64))

    def advance(self, state: State, ids: Tensor) -> State:
        return self.cell(self.table(ids), state)

    def log_probs(self, state: State) -> Tensor:
        return self.out(state[0]).log_softmax(-1)

    def select(self, state: State, rows: Tensor) -> State:
        return state[0][rows], state[1][rows]

    def join(self, states: Sequence[State]) -> State:
        return torch.cat([h for h, _ in states]), torch.cat([c for _, c in states])


def test_check_stepper_valid_stepper_passes() -> None:
    check_stepper(Own())
    check_stepper(Own(), n=1, t=0)
    check_stepper(TableStepper.of({(): [0.5, 0.5, 0], (0,): [0, 0, 1], (1,): [0, 0, 1]}, end=2))


class Narrow(Own):
    """It omits an id."""

    def log_probs(self, state: State) -> Tensor:
        return super().log_probs(state)[:, 1:]


def test_search_log_probs_of_wrong_shape_raise() -> None:
    own, words = Narrow(), r"must have the shape \[n, v\] with v = 6, got \[2, 5\]. Call .*check_stepper"
    for search in (greedy, partial(beam, beam_size=2), partial(sample, generators=torch.Generator())):
        with pytest.raises(StepperError, match=words):
            search(own, own.start(2), max_length=3)


@pytest.mark.parametrize("max_length", [2, 5])
@pytest.mark.parametrize(
    "search",
    [
        greedy,
        partial(sample, generators=torch.Generator(), n=2, filters=[partial(top_p, p=0.9)]),
        partial(beam, beam_size=3),
        partial(diverse_beam, beam_size=4, groups=2),
        partial(stochastic_beam, generator=torch.Generator(), n=2),
    ],
)
def test_search_nan_log_probs_raise(search: Callable[..., Any], max_length: int) -> None:
    stepper = random_table(5, order=3)
    stepper.table[2] = torch.nan  # one id after a 2
    state = stepper.advance(stepper.start(3), torch.tensor([1, 3, 2]))
    with pytest.raises(StepperError, match=r"log_probs of row 2 must be numbers, got nan after 1 ids.* in the weights"):
        search(stepper, state, max_length=max_length, min_length=1)


def test_beam_reports_nan_in_one_slot_at_the_last_step() -> None:
    stepper = random_table(5, order=3)
    stepper.table[2, 3] = torch.nan
    with pytest.raises(StepperError, match="log_probs of row 0 must be numbers, got nan after 2 ids"):
        beam(stepper, stepper.start(1), beam_size=16, max_length=3, stop=stop_at_max_length)


def test_check_stepper_accepts_constrained_steppers_if_not_normalized() -> None:
    bound = Constrained(Own(), AutomatonAcceptor(without_phrases([[3]], v=V), v=V))
    with pytest.raises(StepperError, match="sum to 1, got a sum of 0"):
        check_stepper(bound)
    check_stepper(bound, normalized=False)


def broken(name: str, change: Callable[[Own, Any], Any]) -> Own:
    """A stepper with one method whose result is changed."""
    stepper = Own()
    method = getattr(stepper, name)
    setattr(stepper, name, lambda *given: change(method(*given), *given))
    return stepper


BROKEN: dict[str, tuple[Own, str]] = {
    "logits": (broken("log_probs", lambda x, s: x + 1), r"sum to 1, got a sum of 2\.718. Apply log_softmax"),
    "one row": (
        broken("log_probs", lambda x, s: x[0]),
        r"shape \[n, v\] = \[3, 6\], got a tensor of shape \[6\]",
    ),
    "a list": (broken("log_probs", lambda x, s: x.tolist()), "got a list"),
    "nan": (broken("log_probs", lambda x, s: x * math.nan), "must be numbers, got nan. Use -inf for impossible ids"),
    "dropout": (
        broken("log_probs", lambda x, s: torch.randn_like(x).log_softmax(-1)),
        "call .eval\\(\\) on the network",
    ),
    "in place": (
        broken("advance", lambda x, s, ids: (s[0].copy_(x[0]), s[1].copy_(x[1]))),
        "advance must not change the state that it gets",
    ),
    "leaks": (
        broken("advance", lambda x, s, ids: (x[0] + x[0].mean(0), x[1])),
        "a row must not depend on the other rows",
    ),
    "half selected": (
        broken("select", lambda x, s, rows: (x[0], s[1][torch.zeros_like(rows)])),
        "select all parts of its state",
    ),
    "not turned": (
        broken("select", lambda x, s, rows: x if len(rows) == 1 else (s[0].repeat(2, 1), s[1].repeat(2, 1))),
        r"select must return the given rows in the given order \(log_probs differ by",
    ),
    "joined backwards": (
        broken("join", lambda x, states: (x[0].flip(0), x[1].flip(0))),
        "join must concatenate the rows of the states in order",
    ),
    "joined in part": (broken("join", lambda x, states: states[0]), r"shape \[3, 6\] instead of \[9, 6\]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_check_stepper_reports_the_broken_rule(name: str) -> None:
    stepper, law = BROKEN[name]
    with pytest.raises(StepperError, match=law):
        check_stepper(stepper)


def test_check_stepper_end_out_of_range_raises() -> None:
    stepper = Own()
    stepper.end = V
    with pytest.raises(StepperError, match="end must be an id below v = 6, got 6"):
        check_stepper(stepper)


def test_check_stepper_nan_after_the_end_raises() -> None:
    stepper = broken("advance", lambda x, s, ids: (x[0].masked_fill((ids == END)[:, None], math.nan), x[1]))
    with pytest.raises(StepperError, match="must not be nan after the end"):
        check_stepper(stepper)
