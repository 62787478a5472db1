"""Greedy and beam search compared to enumeration and to a plain reference beam."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF
from catena.search.beam_search import beam
from catena.search.combine import Ensemble
from catena.search.forbid_ids import ForbidIds
from catena.search.greedy_search import greedy
from catena.search.hypothesis import Hypothesis
from catena.search.ranking import (
    average_length_penalty,
    gnmt_length_penalty,
    no_length_penalty,
    stop_after,
    stop_at_max_length,
    stop_when_optimal,
)
from catena.search.repeats import NoRepeatNgram
from catena.search.stepper import HasAttention, Stepper
from catena.search.table_stepper import TableStepper
from tests.oracle.search import all_sequences, beam_by_hand, gnmt
from tests.search.models import as_model, random_table

THE, A, CAT, DOG, END = range(5)
# After THE the nouns have similar probabilities and CAT ends rarely; after A, less probable, one noun dominates.
WORKED = TableStepper.of(
    {
        (): [0.6, 0.4, 0, 0, 0],
        (THE,): [0, 0, 0.55, 0.45, 0],
        (A,): [0, 0, 0.05, 0.95, 0],
        (CAT,): [0.3, 0.2, 0, 0, 0.5],
        (DOG,): [0.1, 0, 0, 0, 0.9],
    },
    end=END,
)


def test_beam_of_two_finds_a_better_sequence_than_greedy() -> None:
    (first,), (best,) = greedy(WORKED, WORKED.start(1), 3)[0], beam(WORKED, WORKED.start(1), 2, 3)[0]
    assert first.ids == (THE, CAT)
    assert first.log_prob == pytest.approx(math.log(0.6 * 0.55 * 0.5))  # 0.165
    assert best.ids == (A, DOG)
    assert best.log_prob == pytest.approx(math.log(0.4 * 0.95 * 0.9))  # 0.342
    assert first.finished
    assert best.finished


def test_beam_keeps_the_two_prefixes_of_the_worked_example() -> None:
    kept = beam(WORKED, WORKED.start(1), 2, 2, n_best=2)[0]
    assert [h.ids for h in kept] == [(A, DOG), (THE, CAT)]
    assert [math.exp(h.log_prob) for h in kept] == pytest.approx([0.38, 0.33])
    assert not any(h.finished for h in kept)


def plain(found: Sequence[Hypothesis]) -> list[tuple[tuple[int, ...], float, float, bool]]:
    return [(h.ids, round(h.log_prob, 9), round(h.score, 9), h.finished) for h in found]


def rounded(wanted: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(ids, round(log_prob, 9), round(score, 9), done) for ids, log_prob, score, done in wanted]


# (v, order, max_length): the edge cases, and more of those where searches differ.
SHAPES = [(1, 1, 0), (1, 2, 3), (2, 1, 1), (2, 2, 0), (2, 3, 4), (3, 1, 4), (3, 2, 3), (3, 3, 4), (4, 2, 4), (4, 3, 3)]


@st.composite
def problems(draw: st.DrawFn) -> tuple[TableStepper, int]:
    v, order, max_length = draw(st.sampled_from(SHAPES))
    end, seed, impossible = draw(st.integers(0, v - 1)), draw(st.integers(0, 99)), draw(st.sampled_from([0, 0.4]))
    return random_table(v, order, end, seed, impossible), max_length


@given(problems())
def test_greedy_takes_the_most_probable_id_at_each_step(problem: tuple[TableStepper, int]) -> None:
    table, max_length = problem
    model = as_model(table)
    ids, log_prob, finished = (), 0.0, False
    while len(ids) < max_length and not finished:
        p = model(ids)
        best = max(range(table.v), key=lambda w: p[w])
        log_prob, finished = log_prob + math.log(p[best]), best == table.end
        ids = ids if finished else (*ids, best)
    (found,) = greedy(table, table.start(1), max_length)[0]
    assert plain([found]) == rounded([(ids, log_prob, log_prob, finished)])


@given(
    problems(),
    st.sampled_from(
        [(no_length_penalty, lambda n: 1), (average_length_penalty, lambda n: n), (gnmt_length_penalty(0.6), gnmt(0.6))]
    ),
)
def test_wide_beam_equals_exhaustive_search(problem: tuple[TableStepper, int], norms: Any) -> None:
    table, max_length = problem
    everything = all_sequences(as_model(table), table.end, max_length)
    wanted = sorted(
        ((not done, -log_prob / norms[1](len(ids) + done or 1), ids) for (ids, done), log_prob in everything.items())
    )
    for stop in (stop_at_max_length, stop_when_optimal):
        n = len(everything)
        found = beam(
            table, table.start(1), max(n, 1), max_length, n_best=max(n, 1), length_penalty=norms[0], stop=stop
        )[0]
        assert [(not h.finished, round(-h.score, 9)) for h in found] == [(u, round(s, 9)) for u, s, _ in wanted]
        assert {h.ids: h.log_prob for h in found if h.finished} == pytest.approx(
            {ids: log_prob for (ids, done), log_prob in everything.items() if done}
        )
        assert {h.ids for h in found if not h.finished} == {ids for ids, done in everything if not done}


def by_ngrams(rows: list[tuple[Any, ...]], n: int) -> list[tuple[Any, ...]]:
    """Rows with the sorted n-grams of their ids: sequences of the same n-grams tie, and either may be found."""
    padded = [([-1] * (n - 1) + list(ids), rest) for ids, *rest in rows]
    return [(sorted(tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)), *rest) for ids, rest in padded]


@given(problems(), st.integers(1, 5), st.integers(0, 2), st.sampled_from([None, 1, 2]))
def test_narrow_beam_equals_reference_beam(
    problem: tuple[TableStepper, int], width: int, min_length: int, limit: int | None
) -> None:
    table, max_length = problem
    min_length = min(min_length, max(max_length - 1, 0))
    wanted = beam_by_hand(as_model(table), table.end, width, max_length, min_length, gnmt(0.8), limit)
    stop = stop_at_max_length if limit is None else stop_after(limit)
    found = beam(
        table,
        table.start(1),
        width,
        max_length,
        min_length,
        n_best=width,
        length_penalty=gnmt_length_penalty(0.8),
        stop=stop,
    )
    n = table.table.dim()
    assert by_ngrams(plain(found[0]), n) == by_ngrams(rounded(wanted[:width]), n)


@given(
    problems(),
    st.integers(1, 5),
    st.sampled_from([(no_length_penalty, gnmt(0)), (average_length_penalty, lambda n: n)]),
)
def test_stop_when_optimal_does_not_change_the_result(
    problem: tuple[TableStepper, int], width: int, norms: Any
) -> None:
    table, max_length = problem
    for n_best in {1, width}:
        late, soon = (
            beam(table, table.start(1), width, max_length, n_best=n_best, length_penalty=norms[0], stop=stop)[0]
            for stop in (stop_at_max_length, stop_when_optimal)
        )
        assert plain(soon) == plain(late)


class Counted(TableStepper):
    """A table that counts the calls of log_probs."""

    asked = 0

    def log_probs(self, state: Tensor) -> Tensor:
        self.asked += 1
        return super().log_probs(state)


def test_beam_stops_as_soon_as_its_rule_allows() -> None:
    rows = {(): [0.9, 0.1], (1,): [0.5, 0.5]}
    sure, first, long = (Counted(TableStepper.of(rows, end=0).table, end=0) for _ in range(3))
    beam(sure, sure.start(1), 2, 50, stop=stop_when_optimal)
    beam(first, first.start(1), 2, 50, n_best=2, stop=stop_after(2))
    beam(long, long.start(1), 2, 50, stop=stop_at_max_length)
    assert (sure.asked, first.asked, long.asked) == (1, 2, 50)


def test_beam_with_length_penalty_waits_for_better_hypotheses() -> None:
    # Ending immediately scores -0.69; continuing costs only the first step, so a mean over many steps is better.
    table = TableStepper.of({(): [0.5, 0.5], (1,): [0.02, 0.98]}, end=0)
    found = beam(table, table.start(1), 2, 30, length_penalty=average_length_penalty, stop=stop_when_optimal)[0][0]
    assert found.ids == (1,) * 29
    assert beam(table, table.start(1), 2, 30, length_penalty=average_length_penalty, stop=stop_after(1))[0][0].ids == ()


class Single(TableStepper):
    """A table with ``single_rows`` that counts its rows."""

    single_rows = True

    def __init__(self, table: Tensor, end: int) -> None:
        super().__init__(table, end)
        self.rows: list[int] = []

    def advance(self, state: Tensor, ids: Tensor) -> Tensor:
        self.rows.append(len(ids))
        return super().advance(state, ids)


@given(problems(), st.integers(1, 4), st.sampled_from([no_length_penalty, average_length_penalty]))
def test_beam_leaving_single_rows_does_not_change_the_result(
    problem: tuple[TableStepper, int], width: int, normalize: Any
) -> None:
    table, max_length = problem
    single = Single(table.table, table.end)
    prompts = torch.randint(0, table.v, (4, 3), generator=torch.Generator().manual_seed(1))
    state = table.extend(table.start(4), prompts, torch.tensor([0, 3, 1, 2]))
    for stop in (stop_when_optimal, stop_after(2)):
        for n_best in {1, width}:
            wanted, found = (
                beam(stepper, state, width, max_length, 0, n_best, normalize, stop=stop) for stepper in (table, single)
            )
            assert found == wanted


def test_beam_drops_hypotheses_that_cannot_win() -> None:
    # After one step 0.3 has ended: 0.5 may win, 0.2 may not.
    single = Single(TableStepper.of({(): [0.3, 0.5, 0.2], (1,): [0.5, 0.5, 0], (2,): [1, 0, 0]}, end=0).table, end=0)
    assert beam(single, single.start(1), 3, 5)[0][0].ids == ()
    assert single.rows == [1]


@given(problems(), st.permutations(range(4)), st.integers(1, 4))
def test_search_rows_do_not_depend_on_the_batch(
    problem: tuple[TableStepper, int], order: list[int], width: int
) -> None:
    table, max_length = problem
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(0, table.v, (4, 3), generator=generator)
    lengths = torch.tensor([0, 3, 1, 2])
    state = table.extend(table.start(4), prompts, lengths)
    searches: list[Callable[[Any], Any]] = [
        lambda s: greedy(table, s, max_length),
        lambda s: beam(table, s, width, max_length, n_best=width, length_penalty=average_length_penalty),
        lambda s: beam(table, s, width, max_length, n_best=width, stop=stop_after(1)),
    ]
    for search in searches:
        together = search(state)
        assert search(table.select(state, torch.tensor(order))) == [together[i] for i in order]
        for i in range(4):
            alone = table.extend(table.start(1), prompts[i : i + 1, : lengths[i]], lengths[i : i + 1])
            assert search(alone) == [together[i]]
        assert search(table.select(state, torch.tensor([], dtype=torch.int64))) == []


def test_beam_states_stay_with_their_rows() -> None:
    for seed in range(8):
        table = random_table(3, 3, seed=seed)  # the last id does not determine the state
        prompts, lengths = torch.tensor([[0, 1, 2], [1, 2, 1], [2, 2, 2], [1, 1, 2]]), torch.tensor([0, 3, 1, 2])
        state = table.extend(table.start(4), prompts, lengths)
        together = beam(table, state, 3, 4, n_best=3)
        alone = [beam(table, table.select(state, torch.tensor([i])), 3, 4, n_best=3)[0] for i in range(4)]
        assert together == alone


class Counting(TableStepper):
    """Records the number of rows of each step."""

    def advance(self, state: Any, ids: Tensor) -> Any:
        self.__dict__.setdefault("rows", []).append(len(ids))
        return super().advance(state, ids)


@pytest.mark.parametrize("width", [None, 2])
def test_finished_rows_leave_the_batch(width: int | None) -> None:
    v = 7
    table = torch.full((v + 1, v), NEG_INF, dtype=torch.float64)
    table[range(1, v), range(v - 1)] = 0.0  # counts down to 0, which is the end
    table[0, 0] = table[v, v - 1] = 0.0
    stepper = Counting(table, 0)
    prompts = [5, 1, 3, 6]
    state = stepper.extend(stepper.start(4), torch.tensor(prompts)[:, None], torch.ones(4, dtype=torch.long))
    stepper.__dict__["rows"] = []
    found = greedy(stepper, state, 9) if width is None else beam(stepper, state, width, 9)
    assert [hypotheses[0].ids for hypotheses in found] == [tuple(range(n - 1, 0, -1)) for n in prompts]
    assert all(hypotheses[0].finished for hypotheses in found)
    if width is None:
        assert stepper.__dict__["rows"] == [3, 3, 2, 2, 1]
    else:
        assert stepper.__dict__["rows"] == [3 * 2, 3 * 2, 2 * 2, 2 * 2, 1 * 2]


def test_finished_hypotheses_take_no_beam_slot() -> None:
    # The end is the best of the first step, and still both 1 and 0 are kept; the hypothesis from 0 is then second.
    table = TableStepper.of({(): [0.2, 0.3, 0.5], (0,): [0, 0, 1], (1,): [0.5, 0.49, 0.01]}, end=2)
    found = beam(table, table.start(1), 2, 2, n_best=2)[0]
    assert [(h.ids, round(math.exp(h.log_prob), 9)) for h in found] == [((), 0.5), ((0,), 0.2)]


def test_beam_size_one_that_stops_at_the_first_end_equals_greedy() -> None:
    for seed in range(20):
        table = random_table(4, 2, seed=seed)
        assert beam(table, table.start(1), 1, 6, stop=stop_after(1)) == greedy(table, table.start(1), 6)


@pytest.mark.parametrize("search", [greedy, lambda s, state, n: beam(s, state, 3, n)])
def test_max_length_zero_returns_the_empty_prefix(search: Any) -> None:
    table = random_table(3)
    assert search(table, table.start(2), 0) == [[Hypothesis((), 0.0, 0.0, False)]] * 2


def test_dead_end_gives_no_beam_hypothesis_and_stops_greedy() -> None:
    table = TableStepper.of({(): [0.5, 0.5, 0], (0,): [0, 0, 1]}, end=2)  # nothing is possible after 1
    assert [h.ids for h in beam(table, table.start(1), 3, 4, n_best=3)[0]] == [(0,)]
    dead = table.advance(table.start(1), torch.tensor([1]))
    assert beam(table, dead, 2, 4, n_best=2) == [[]]
    assert greedy(table, dead, 4) == [[Hypothesis((), 0.0, 0.0, False)]]
    lured = TableStepper.of({(): [0.4, 0.6, 0], (0,): [0, 0, 1]}, end=2)
    assert plain(greedy(lured, lured.start(1), 4)[0]) == rounded([((1,), math.log(0.6), math.log(0.6), False)])


class Looking(TableStepper, HasAttention[Tensor]):
    """A table that attends to source position w after it has read w; position 2 of row 1 is padding."""

    single_rows = True

    def attention(self, state: Tensor) -> Tensor:
        last = torch.where(state[:, -1] == self.v, 0, state[:, -1])
        return torch.nn.functional.one_hot(last, self.v).double() * 0.75

    def source_mask(self, state: Tensor) -> Tensor:
        return torch.tensor([True] * (self.v - 1) + [False]).expand(len(state), self.v)


def test_coverage_prefers_hypotheses_that_attend_to_the_whole_source() -> None:
    table = random_table(4, 2, end=3, seed=11)
    looking, beta, max_length = Looking(table.table, 3), 0.7, 4
    wanted = []
    for (ids, done), log_prob in all_sequences(as_model(table), 3, max_length).items():
        if done:
            looks = [0, *ids]  # each step attends to the last id, the first step to 0
            mass = [0.75 * looks.count(position) for position in range(3)]
            penalty = beta * sum(math.log(min(1.0, max(m, 1e-6))) for m in mass)
            wanted.append((round(log_prob / (len(ids) + 1) + penalty, 9), ids))
    found = beam(
        looking, looking.start(1), 300, max_length, n_best=200, length_penalty=average_length_penalty, coverage=beta
    )[0]
    finished = [(round(h.score, 9), h.ids) for h in found if h.finished]
    assert len(finished) > 20
    assert sorted(finished) == sorted(wanted)
    assert finished != sorted(((round(h.log_prob, 9), h.ids) for h in found if h.finished), reverse=True)


def test_coverage_finds_attention_of_a_wrapped_stepper() -> None:
    looking = Looking(random_table(4, 2, end=3, seed=11).table, 3)
    silent = random_table(4, 1, end=3, seed=12)  # no attention: the first of an ensemble is used
    wrapped = NoRepeatNgram(ForbidIds(Ensemble([looking, silent], [1.0, 0.0]), []), 9)
    found, wanted = (
        beam(stepper, stepper.start(2), 4, 5, n_best=4, length_penalty=average_length_penalty, coverage=0.7)
        for stepper in (wrapped, looking)
    )
    assert [plain(row) for row in found] == [plain(row) for row in wanted]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam_size": 0}, "n_best must be from 1 to beam_size = 0, got 1"),
        ({"beam_size": 2, "n_best": 3}, "n_best must be from 1 to beam_size = 2, got 3"),
        (
            {"beam_size": 2, "min_length": 5},
            "max_length must be above min_length = 5 to include the end, got 5. Use at least 6.",
        ),
        ({"beam_size": 2, "min_length": -1}, "min_length and max_length must be at least 0"),
        (
            {"beam_size": 2, "coverage": 0.2},
            "coverage must be 0 for TableStepper, which has no attention over a source, got 0.2",
        ),
    ],
)
def test_beam_invalid_options_raise(options: dict[str, Any], words: str) -> None:
    table = random_table(3)
    with pytest.raises(ConfigError, match=words):
        beam(table, table.start(1), max_length=5, **options)
    with pytest.raises(ConfigError, match="alpha"):
        gnmt_length_penalty(-1.0)


def test_search_uses_only_the_stepper_interface() -> None:
    """States are opaque: a stepper with other states gives the same result."""

    class Boxed(Stepper[list[Tensor]]):
        v, end, inner = 4, 0, random_table(4, 3)

        def start(self, n: int) -> list[Tensor]:
            return [self.inner.start(n)]

        def log_probs(self, state: list[Tensor]) -> Tensor:
            return self.inner.log_probs(state[0]).float()

        def advance(self, state: list[Tensor], ids: Tensor) -> list[Tensor]:
            return [self.inner.advance(state[0], ids)]

        def select(self, state: list[Tensor], rows: Tensor) -> list[Tensor]:
            return [self.inner.select(state[0], rows)]

        def join(self, states: Sequence[list[Tensor]]) -> list[Tensor]:
            return [self.inner.join([state[0] for state in states])]

    boxed, table = Boxed(), Boxed.inner
    found, wanted = (beam(s, s.start(2), 3, 6, n_best=3)[1] for s in (boxed, table))
    assert [h.ids for h in found] == [h.ids for h in wanted]
    assert [h.log_prob for h in found] == pytest.approx([h.log_prob for h in wanted], abs=1e-5)
