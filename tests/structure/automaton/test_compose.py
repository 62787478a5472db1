"""Composition: each pair of paths once, with the product of their weights."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings

from catena.errors import LimitError, ShapeError
from catena.structure.automaton.build import edit_model, from_arcs, from_string
from catena.structure.automaton.composition import compose, intersect
from catena.structure.automaton.distance import total
from catena.structure.automaton.rational import closure
from catena.structure.backend import use_backend
from catena.structure.semirings import (
    CountingSemiring,
    ExpectationSemiring,
    KBestSemiring,
    LogSemiring,
    MaxSemiring,
    RealSemiring,
    TropicalSemiring,
)
from tests.oracle.automata import Plain, alignments, log_add, paths, table
from tests.structure.automaton.machines import built, listed, near, plain_machines, same_tables

small = plain_machines(most_states=3, most_arcs=5, acyclic=True)


def joined(a: Plain, b: Plain) -> list[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """All pairs of paths in which the second reads what the first writes."""
    return [
        (p.read, q.written, p.score + q.score) for p in paths(a, 4) for q in paths(b, 4) if p.written == q.read
    ]  # fmt: skip


@settings(max_examples=150)
@given(a=small, b=small)
def test_compose_has_one_path_for_each_pair_of_paths(a: Plain, b: Plain) -> None:
    expected = joined(a, b)
    found = compose(built(a), built(b))
    assert total(found.over(CountingSemiring())) == len(expected)
    lists: dict = {}
    for read, written, score in expected:
        lists.setdefault((read, written), []).append(score)
    assert same_tables(table(paths(listed(found), 12), log_add), {k: log_add(v) for k, v in lists.items()})


@pytest.mark.parametrize("semiring", [LogSemiring(), MaxSemiring(), TropicalSemiring()], ids=lambda s: type(s).__name__)
@settings(max_examples=60)
@given(a=plain_machines(most_arcs=8), b=plain_machines(most_arcs=8))
def test_compose_kernel_equals_reference(semiring, a: Plain, b: Plain) -> None:
    first, second = built(a, semiring), built(b, semiring)
    found = compose(first, second)
    with use_backend("reference"):
        expected = compose(first, second)
    assert listed(found) == listed(expected)
    assert found.weight.dtype == expected.weight.dtype


def test_compose_kernel_keeps_float32_and_leaves_gradients_to_reference() -> None:
    x, model = from_string("ab", dtype=torch.float32), edit_model("ab", -4.0, -3.0, -2.0, dtype=torch.float32)
    found = compose(x, model)
    assert found.weight.dtype == found.initial.dtype == found.final.dtype == torch.float32
    weight = model.weight.clone().requires_grad_()
    other = compose(x, model.with_weights(weight, model.initial, model.final))
    assert other.weight.requires_grad
    assert listed(found) == listed(other.detach())
    with pytest.raises(LimitError, match="more than limit=2 states"):
        compose(x, model, limit=2)


@settings(max_examples=60)
@given(
    a=plain_machines(most_states=3, most_arcs=5, labels=(1, 2)),
    b=plain_machines(most_states=3, most_arcs=5, labels=(1, 2)),
)
def test_compose_of_cyclic_automata(a: Plain, b: Plain) -> None:
    """Without epsilons a path of the composition is as long as those it joins."""
    found = compose(built(a), built(b))
    lists: dict = {}
    for p in paths(a, 3):
        for q in paths(b, 3):
            if p.written == q.read:
                lists.setdefault((p.read, q.written), []).append(p.score + q.score)
    assert same_tables(table(paths(listed(found), 3), log_add), {k: log_add(v) for k, v in lists.items()})


@settings(max_examples=60)
@given(a=small, b=small)
def test_compose_keeps_only_accepting_paths(a: Plain, b: Plain) -> None:
    found = listed(compose(built(a), built(b)))
    structural = Plain(
        tuple((s, t, i, o, 0.0) for s, t, i, o, _ in found.arcs), found.initial, found.final
    )  # arcs of weight zero are kept: they may be parameters
    on_paths = list(paths(structural, 12))
    assert {arc for path in on_paths for arc in path.arcs} == set(range(len(found.arcs)))
    visited = {path.start for path in on_paths} | {found.arcs[i][1] for path in on_paths for i in path.arcs}
    assert visited == set(range(len(found.final)))


def test_compose_counts_epsilon_interleavings_once() -> None:
    """Three silent moves on one side and two on the other can be mixed in many ways; one is kept."""
    a = from_arcs([(0, 1, 1, 0, -1.0), (1, 2, 1, 0, -1.0), (2, 3, 1, 0, -1.0), (3, 4, 2, 2, 0.0)], [0], [4])
    b = from_arcs([(0, 1, 0, 5, -1.0), (1, 2, 0, 5, -1.0), (2, 3, 2, 2, 0.0), (3, 4, 0, 6, -1.0)], [0], [4])
    found = compose(a, b)
    assert total(found.over(CountingSemiring())) == 1
    assert near(total(found).item(), -6.0)


def test_compose_of_optional_epsilons_counts_each_choice() -> None:
    a = from_arcs([(0, 1, 1, 0, -1.0)], [0], [0, 1])
    b = from_arcs([(0, 1, 0, 5, -2.0)], [0], [0, 1])
    found = compose(a, b)
    assert total(found.over(CountingSemiring())) == 4  # each machine moves or not
    with use_backend("reference"):
        assert listed(found) == listed(compose(a, b))


@pytest.mark.parametrize(("x", "y"), [("", ""), ("ab", ""), ("", "ba"), ("abca", "bcab"), ("aab", "abb")])
def test_an_edit_lattice_sums_all_alignments(x: str, y: str) -> None:
    weights = {"insert": -0.7, "delete": -1.1, "substitute": -1.9, "match": 0.2}
    expected = alignments(x, y, **weights)
    for semiring, combine in (
        (LogSemiring(), log_add),
        (MaxSemiring(), max),
        (TropicalSemiring(), lambda s: -max(s)),
        (CountingSemiring(), len),
    ):
        model = edit_model("abc", **weights, semiring=semiring)
        a, b = from_string(x, semiring=semiring), from_string(y, semiring=semiring)
        for lattice in (compose(compose(a, model), b), compose(a, compose(model, b))):
            assert near(total(lattice).item(), combine(expected), 1e-12)


def test_levenshtein_distance_is_a_total() -> None:
    model = edit_model("kitenstgh", semiring=TropicalSemiring())
    x, y = (from_string(s, semiring=TropicalSemiring()) for s in ("kitten", "sitting"))
    assert total(compose(compose(x, edit_model("kitensg", semiring=TropicalSemiring())), y)) == 3
    assert total(compose(compose(x, model), x)) == 0


def test_gradients_reach_the_weights_of_both_machines() -> None:
    def function(insert, delete, substitute, scores):
        x = from_string("aba", scores=scores)
        return total(compose(compose(x, edit_model("ab", insert, delete, substitute)), from_string("bab")))

    inputs = tuple(torch.randn(shape).double().requires_grad_() for shape in ((2,), (2,), (2, 2), (3,)))
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)
    gradient = torch.autograd.grad(function(*inputs), inputs[2])[0]
    assert (gradient.diagonal() == 0).all(), "a symbol is not substituted by itself"


def test_other_semirings_compose_too() -> None:
    x, y = from_string("ab"), from_string("b")
    model = edit_model("ab")
    scores = sorted(alignments("ab", "b", -1, -1, -1, 0), reverse=True)
    best = total(compose(compose(x.over(KBestSemiring(2)), model.over(KBestSemiring(2))), y.over(KBestSemiring(2))))
    assert best.tolist() == pytest.approx(scores[:2])
    real = total(compose(compose(x.over(RealSemiring()), model.over(RealSemiring())), y.over(RealSemiring())))
    assert real.item() == pytest.approx(math.fsum(map(math.exp, scores)))
    one, none = torch.ones(model.n_arcs).double(), [torch.zeros(n).double() for n in (2, 1)]
    counted = compose(
        compose(x.over(ExpectationSemiring(), none[0]), model.over(ExpectationSemiring(), one)),
        y.over(ExpectationSemiring(), none[1]),
    )
    edits = total(counted)[1]
    weights = [math.exp(s) for s in scores]
    assert 2 < edits < 3
    assert sum(weights) > 0


def test_batches_of_weights_compose() -> None:
    x, model, y = from_string("ab"), edit_model("ab"), from_string("ba")
    many = model.with_weights(model.weight * torch.tensor([[0.5], [2.0]]), *(torch.zeros(2, 1).double(),) * 2)
    found = total(compose(compose(x, many), y))
    for row, scale in enumerate((0.5, 2.0)):
        one = model.with_weights(model.weight * scale, model.initial, model.final)
        assert near(found[row].item(), total(compose(compose(x, one), y)).item())


def test_intersection_multiplies_the_weights_of_strings() -> None:
    a = from_arcs([(0, 0, 1, 1, -1.0), (0, 0, 2, 2, -2.0)], [0], [0])
    b = from_arcs([(0, 1, 1, 1, -0.5), (1, 1, 2, 2, -0.25)], [0], [1])
    assert near(total(compose(from_string([1, 2, 2]), intersect(a, b))).item(), -5.0 - 1.0)
    with pytest.raises(ShapeError, match="a transducer as the second"):
        intersect(a, edit_model("a"))


def test_compose_invalid_arguments_raise() -> None:
    with pytest.raises(TypeError, match="over LogSemiring, got MaxSemiring"):
        compose(from_string("a"), from_string("a", semiring=MaxSemiring()))
    with pytest.raises(TypeError, match=r"over .*Semiring, got"):
        compose(from_string("a").over(KBestSemiring(2)), from_string("a").over(KBestSemiring(3)))
    wide = closure(edit_model("abc"))
    with pytest.raises(LimitError, match="more than limit=3 states"):
        compose(from_string("abcabc"), wide, limit=3)


def test_compose_without_common_strings_is_empty() -> None:
    for a, b in ((from_string("a"), from_string("b")), (from_arcs([], [], []), from_string("b"))):
        found = compose(a, b)
        assert (found.n_states, found.n_arcs) == (0, 0)
        assert total(found) == -math.inf
