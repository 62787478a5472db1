"""Failure arcs: taken where the next label has no arc, and counted once."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import DataError, ShapeError
from catena.structure.automaton.build import edit_model, from_arcs, from_string
from catena.structure.automaton.composition import compose
from catena.structure.automaton.distance import total
from catena.structure.automaton.epsilon import remove_epsilon
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.ngrams import from_ngram_table, from_ngrams
from catena.structure.automaton.rational import (
    closure,
    concatenate,
    connect,
    invert,
    project,
    reverse,
    single_start_state,
    union,
)
from catena.structure.automaton.wfsa import FAILURE
from catena.structure.semirings import CountingSemiring, KBestSemiring, LogSemiring, MaxSemiring
from tests.oracle.automata import Plain, backoff_score, failing_score
from tests.structure.automaton.machines import SCORES, built, near, plain_machines

STRINGS = [s for n in range(4) for s in itertools.product((1, 2), repeat=n)]


@st.composite
def failing_machines(draw: st.DrawFn) -> Plain:
    plain = draw(plain_machines(most_states=4, most_arcs=6, labels=(1, 2), acceptor=True))
    n = len(plain.final)
    order = draw(st.permutations(range(n)))
    failing = []
    for place, q in enumerate(order[:-1]):
        if draw(st.booleans()):
            failing.append((q, draw(st.sampled_from(order[place + 1 :])), FAILURE, FAILURE, draw(SCORES)))
    return Plain((*plain.arcs, *failing), plain.initial, plain.final)


@settings(max_examples=50)
@given(plain=failing_machines())
def test_failure_arcs_follow_their_definition(plain: Plain) -> None:
    machine = built(plain)
    expanded = expand_failures(machine)
    assert not expanded.has_failures
    for string in STRINGS[:7]:
        expected = failing_score(plain, string)
        x = from_string(string)
        assert near(total(compose(x, machine)).item(), expected)
        assert near(total(compose(machine, x)).item(), expected)
        assert near(total(compose(x, expanded)).item(), expected)


def failing():
    """1 is known at state 0, 2 only at state 1; the end only at state 2."""
    arcs = [
        (0, 0, 1, 1, -1.0), (0, 1, FAILURE, FAILURE, -0.5), (1, 1, 2, 2, -2.0), (1, 0, 1, 1, -9.0),
        (1, 2, FAILURE, FAILURE, -0.25), (2, 0, 3, 3, -3.0),
    ]  # fmt: skip
    return from_arcs(arcs, [0], {2: -0.125})


def test_failure_arc_is_not_taken_for_known_label() -> None:
    machine = failing()
    assert total(compose(from_string([1]), machine)).item() == -1.0 - 0.75 - 0.125
    assert total(compose(from_string([2]), machine)).item() == -2.5 - 0.25 - 0.125
    assert total(compose(from_string([3]), machine)).item() == -0.75 - 3.0 - 0.75 - 0.125
    assert total(compose(from_string([]), machine)).item() == -0.75 - 0.125
    assert total(compose(from_string([4]), machine)) == -math.inf


def test_every_operation_keeps_what_failures_mean() -> None:
    machine = failing()
    plain = expand_failures(machine)
    x = from_string([1, 2])
    weight = total(compose(x, plain)).item()
    mirrored = from_string([2, 1])
    for changed in (
        connect(machine), remove_epsilon(machine), invert(machine), project(machine, "input"), union(machine),
        single_start_state(machine), machine.over(MaxSemiring()).over(LogSemiring()),
    ):  # fmt: skip
        assert near(total(compose(x, changed)).item(), weight)
    assert near(total(compose(mirrored, reverse(machine))).item(), weight)
    twice = from_string([1, 2, 1])
    for join, expected in (
        (concatenate(machine, machine), concatenate(plain, plain)),
        (closure(machine), closure(plain)),
    ):
        assert near(total(compose(twice, join)).item(), total(compose(twice, expected)).item())
    model = edit_model([1, 2, 3])
    both = compose(compose(x, compose(model, machine)), machine)
    assert near(total(both).item(), total(compose(compose(x, compose(model, plain)), plain)).item())
    assert near(total(compose(machine, machine)).item(), total(compose(plain, plain)).item())


def test_totals_do_not_take_failures_for_epsilons() -> None:
    """Both readings of label 1 would be counted if failing were free."""
    arcs = [(0, 2, 1, 1, 0.0), (0, 1, FAILURE, FAILURE, 0.0), (1, 2, 1, 1, 0.0), (1, 2, 2, 2, 0.0)]
    for semiring, expected in ((LogSemiring(), math.log(2)), (MaxSemiring(), 0.0), (CountingSemiring(), 2)):
        assert near(total(from_arcs(arcs, [0], [2], semiring)).item(), expected)


def test_failure_arc_to_state_with_epsilon_raises() -> None:
    machine = from_arcs([(0, 1, FAILURE, FAILURE, 0.0), (1, 2, 0, 0, 0.0), (2, 2, 1, 1, 0.0)], [0], [2])
    with pytest.raises(ShapeError, match=r"State 1 .* has an epsilon arc"):
        total(machine)


def test_weights_of_failure_arcs_have_gradients() -> None:
    machine = failing()

    def function(weight, final):
        return total(compose(from_string([1, 3, 2]), machine.with_weights(weight, machine.initial, final)))

    inputs = (machine.weight.clone().requires_grad_(), machine.final.clone().requires_grad_())
    grads = torch.autograd.grad(function(*inputs), inputs)
    assert grads[0].tolist() == [1.0, 2.0, 1.0, 0.0, 2.0, 1.0]
    assert grads[1].tolist() == [0.0, 0.0, 1.0]
    assert torch.autograd.gradcheck(lambda w: function(w, machine.final), inputs[:1])


# --- language models ----------------------------------------------------------------------------------------

START, END = 8, 9
LOG_PROBS = {
    (1,): -1.0, (2,): -1.2, (3,): -2.0, (END,): -1.5, (START, 1): -0.3, (1, 2): -0.4, (2, END): -0.2, (1, 1): -2.2,
    (START, 1, 2): -0.1, (1, 2, 3): -0.6, (2, 3, END): -0.05, (1, 2, 1): -0.9,
}  # fmt: skip
BACKOFFS = {(1,): -0.7, (2,): -0.9, (START,): -0.25, (START, 1): -0.45, (1, 2): -0.35, (3, 1): -0.15, (2, 3): -0.5}


def by_recursion(string: tuple[int, ...]) -> float:
    """Every word, and the end, given the two before it."""
    padded = (START, *string, END)
    return sum(
        backoff_score(LOG_PROBS, BACKOFFS, padded[max(0, i - 2) : i], padded[i]) for i in range(1, len(padded))
    )  # fmt: skip


def test_a_backoff_model_scores_as_its_definition() -> None:
    model = from_ngrams(LOG_PROBS, BACKOFFS, START, END)
    assert model.has_failures
    dense = expand_failures(model)
    for string in itertools.chain.from_iterable(itertools.product((1, 2, 3), repeat=n) for n in range(4)):
        expected = by_recursion(string)
        assert near(total(compose(from_string(string), model)).item(), expected)
        assert near(total(compose(from_string(string), dense)).item(), expected)
    assert model.n_arcs < dense.n_arcs
    two = from_string([1, 2]).over(KBestSemiring(2))
    assert total(compose(two, model.over(KBestSemiring(2)))).tolist() == pytest.approx(
        [by_recursion((1, 2)), -math.inf]
    )


def test_scores_of_ngrams_may_be_parameters() -> None:
    theta = torch.zeros(2).double().requires_grad_()
    grams = {**LOG_PROBS, (1,): theta[0], (END,): theta[1]}
    model = from_ngrams(grams, {**BACKOFFS, (2,): theta[1]}, START, END)
    total(compose(from_string([2, 1]), model)).backward()
    assert theta.grad is not None
    assert theta.grad.tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="empty n-gram"):
        from_ngrams({(): 0.0}, {}, START, END)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_dense_table_scores_as_its_definition(order: int) -> None:
    table = torch.randn((4,) * order).double().log_softmax(-1).requires_grad_()
    start, end = 3, 0
    model = from_ngram_table(table, start, end)
    for string in itertools.chain.from_iterable(itertools.product((1, 2), repeat=n) for n in range(4)):
        words = [start] * (order - 1) + [*string, end]
        expected = sum(table[tuple(words[i : i + order])] for i in range(len(string) + 1))
        found = total(compose(from_string([w + 1 for w in string]), model))
        assert near(found.item(), expected.item())  # type: ignore[union-attr]
    named = from_ngram_table(table, start, end, labels=[7, 5, 6, 8])
    assert near(total(compose(from_string([5]), named)).item(), total(compose(from_string([2]), model)).item())
    assert torch.autograd.grad(found, table)[0].sum() == 4
    if order == 2:
        probabilities = table.detach().clone()
        probabilities[:, start] = -math.inf
        proper = from_ngram_table(probabilities.log_softmax(-1), start, end)
        assert near(total(proper).item(), 0.0), "the probabilities of all strings sum to one"


def test_a_table_must_be_square() -> None:
    with pytest.raises(ShapeError, match="axes of one size"):
        from_ngram_table(torch.zeros(3, 4), 0, 1)
    with pytest.raises(ShapeError, match="end=4"):
        from_ngram_table(torch.zeros(4, 4), 0, 4)
