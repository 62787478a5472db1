"""What paths are given: sizes that must fit, batch axes that broadcast, ids that must exist, machines of nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from catena.errors import ConfigError, DataError, ShapeError
from catena.structure.automaton.build import edit_model, from_arcs, from_string
from catena.structure.automaton.composition import intersect
from catena.structure.automaton.ngrams import from_ngram_table
from catena.structure.automaton.paths import PathDistribution
from catena.structure.automaton.rational import concatenate, connect, union
from catena.structure.automaton.search import best_paths, best_strings
from catena.structure.automaton.transition_table import TransitionTable
from catena.structure.automaton.wfsa import FAILURE, Automaton
from catena.structure.backend import use_backend
from catena.structure.semirings import BooleanSemiring, LogSemiring

BACKENDS = ("reference", "kernels")
both_backends = pytest.mark.parametrize("backend", BACKENDS)
FORM = re.compile(r"must .+, got .+\. [A-Z].+\.$")
NEVER = -math.inf

ARCS = [(0, 1), (0, 1), (1, 2), (0, 2), (2, 3), (1, 3)]
MACHINE = from_arcs([(*arc, 1 + i, 1 + i, 0.0) for i, arc in enumerate(ARCS)], [0], [3])


def scores(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def remade(value: Any, **changed: Any) -> None:
    """Check a frozen value with other fields, past the types that tests check in ``__init__``."""
    kept = {name: getattr(value, name) for name in changed}
    try:
        for name, x in changed.items():
            object.__setattr__(value, name, x)
        value.__post_init__(*([None, "error"] if isinstance(value, PathDistribution) else []))
    finally:
        for name, x in kept.items():
            object.__setattr__(value, name, x)


# --- sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"weight": torch.zeros(5)}, r"weight must have the shape \[..., 6\].* arc .* got \[5\]"),
        ({"weight": torch.zeros(2, 7)}, r"weight .* got \[2, 7\]"),
        ({"weight": torch.zeros(())}, r"weight .* got \[\]"),
        ({"initial": torch.zeros(1)}, r"initial must have the shape \[..., 4\].* state .* got \[1\]"),
        ({"final": torch.zeros(3, 5)}, r"final .* got \[3, 5\]"),
        ({"final": torch.zeros(4, 1)}, r"final .* got \[4, 1\]"),
        ({"weight": torch.zeros(2, 6), "final": torch.zeros(3, 4)}, r"broadcast, got \[2\], \[\], \[3\]"),
        ({"initial": torch.zeros(4, device="meta")}, "initial must be on the device of weight, cpu, got meta"),
    ],
)
def test_scores_that_do_not_fit_raise_one_error_before_any_query(changed: dict[str, Tensor], what: str) -> None:
    paths = PathDistribution(MACHINE, torch.zeros(6), torch.zeros(4), torch.zeros(4))
    with pytest.raises(ShapeError, match=what) as raised:
        remade(paths, **changed)
    assert FORM.search(str(raised.value))


def test_failure_arcs_raise_an_error() -> None:
    machine = from_arcs([(0, 1, 1, 1, 0.0), (0, 1, FAILURE, FAILURE, -1.0)], [0], [1])
    with pytest.raises(ShapeError, match=FORM):
        PathDistribution(machine, machine.weight, machine.initial, machine.final)
    assert PathDistribution.of(machine).log_partition().isfinite()


def test_weights_of_another_machine_raise_an_error() -> None:
    with pytest.raises(ShapeError, match="for 4 states and 6 arcs"):
        MACHINE.with_weights(torch.zeros(6), torch.zeros(1), torch.zeros(1))
    with pytest.raises(ShapeError, match="for 4 states and 6 arcs"):
        MACHINE.with_weights(torch.zeros(5), torch.zeros(4), torch.zeros(4))
    with pytest.raises(ShapeError, match=r"floating-point over LogSemiring, got torch\.int64"):
        remade(MACHINE, weight=torch.zeros(6, dtype=torch.int64))
    remade(MACHINE.over(BooleanSemiring()))


@pytest.mark.parametrize("column", ["source", "target", "input", "output"])
@pytest.mark.parametrize("wrong", [torch.zeros(5, dtype=torch.int64), torch.zeros(6), torch.zeros(6, 1).long()])
def test_columns_of_arcs_that_do_not_fit_raise_an_error(column: str, wrong: Tensor) -> None:
    with pytest.raises(ShapeError, match=FORM):
        remade(MACHINE, **{column: wrong})


def batch_of(machine: Automaton, n: int) -> Automaton:
    return machine.with_weights(*(x.expand(n, -1) for x in (machine.weight, machine.initial, machine.final)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: union(batch_of(MACHINE, 2), batch_of(MACHINE, 3)),
        lambda: concatenate(MACHINE, batch_of(MACHINE, 3)),
        lambda: intersect(batch_of(MACHINE, 2), batch_of(MACHINE, 3)),
        lambda: best_strings(batch_of(MACHINE, 2)),
        lambda: best_paths(batch_of(MACHINE, 2)),
        lambda: from_arcs([(0, 1, 1, 1, 0.0)], {-1: 0.0}, [1]),
        lambda: from_arcs([(0, 1, 1, 1, 0.0)], [0], [5], n_states=2),
        lambda: edit_model("ab", substitute=torch.zeros(3, 3)),
        lambda: edit_model("ab", insert=torch.zeros(2, 2)),
        lambda: from_ngram_table(torch.zeros(3, 3), 0, 2, labels=[1, 2]),
        lambda: from_ngram_table(torch.zeros(3, 3), 0, 2, labels=[1, 0, 3]),
        lambda: TransitionTable.of(MACHINE, [-1, 2]),
    ],
)
def test_machines_that_do_not_fit_raise_an_error_in_words(call: Callable[[], object]) -> None:
    with pytest.raises((ShapeError, ConfigError), match=FORM):
        call()


def test_follow_ignores_ids_out_of_range() -> None:
    table = TransitionTable.of(from_arcs([(0, 1, 1, 1, -1.0), (1, 1, 1, 1, -2.0)], [0], [1]))
    states, found = table.follow(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, -1, 0]))
    assert states.tolist() == [1, -1, -1, 1]
    assert found.tolist() == [-1.0, NEVER, NEVER, -2.0]


def test_searches_for_no_path_raise_an_error() -> None:
    for search in (best_paths, best_strings):
        with pytest.raises(ValueError, match="n must be at least 1"):
            search(MACHINE, 0)


# --- batch axes ---------------------------------------------------------------------------------------------


@both_backends
@pytest.mark.parametrize(
    "leads",
    [((), (4,), ()), ((4,), (), (1,)), ((3, 1), (4,), ()), ((), (3, 4), (4,)), ((1,), (3, 1), (4,)), ((), (), ())],
)
def test_batch_axes_broadcast_in_every_query(backend: str, leads: tuple[tuple[int, ...], ...]) -> None:
    tensors = [scores(*lead, n, seed=i) for i, (lead, n) in enumerate(zip(leads, (6, 4, 4), strict=True))]
    batch = torch.broadcast_shapes(*leads)
    whole = [x.expand(*batch, x.shape[-1]) for x in tensors]
    with use_backend(backend):
        paths = PathDistribution(MACHINE, *tensors)
        assert paths.batch_shape == batch
        top, drawn = paths.topk(3), paths.sample(5, torch.Generator().manual_seed(0))
        value = scores(6, seed=9)
        for index in torch.ones(batch).nonzero().tolist():
            at = tuple(index)
            one = PathDistribution(MACHINE, *(x[at] for x in whole))
            assert torch.allclose(paths.log_partition()[at], one.log_partition())
            assert torch.allclose(paths.marginals()[at], one.marginals())
            assert torch.allclose(paths.entropy()[at], one.entropy())
            assert torch.allclose(paths.expectation(value)[at], one.expectation(value))
            assert torch.equal(paths.argmax()[at], one.argmax())
            assert torch.allclose(top.scores[:, *at], one.topk(3).scores)
            assert torch.equal(paths.parts(top.structures)[:, *at], one.parts(top.structures[:, *at]))
            assert torch.allclose(paths.log_prob(drawn)[:, *at], one.log_prob(drawn[:, *at]))
            assert torch.equal(paths.weighted(LogSemiring()).weight[at], one.weight)


@both_backends
def test_gradients_of_shared_scores_are_sums_over_the_batch(backend: str) -> None:
    weight, initial, final = (scores(*shape, seed=i) for i, shape in enumerate(((6,), (4, 4), (1, 4))))
    inputs = tuple(x.requires_grad_() for x in (weight, initial, final))
    with use_backend(backend):
        assert torch.autograd.gradcheck(lambda *x: PathDistribution(MACHINE, *x).log_partition(), inputs)
        assert torch.autograd.gradgradcheck(lambda *x: PathDistribution(MACHINE, *x).log_partition(), inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    arcs = [(i, i + 1, 1, 1, -0.1) for i in range(300) for _ in range(2)]
    paths = PathDistribution.of(from_arcs(arcs, [0], [300], dtype=torch.float64))
    narrow = PathDistribution(paths.machine, *(x.to(dtype) for x in (paths.weight, paths.initial, paths.final)))
    expected = 300 * (math.log(2) + float(torch.tensor(-0.1, dtype=dtype)))
    assert narrow.log_partition().item() == pytest.approx(expected, rel=2 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_searches_under_vmap_equal_those_of_a_batch(backend: str, dtype: torch.dtype) -> None:
    weight, initial, final = scores(3, 6).to(dtype), scores(4, seed=1).to(dtype), scores(3, 4, seed=2).to(dtype)
    with use_backend(backend):
        batch = PathDistribution(MACHINE, weight, initial, final)

        def mapped(query: Callable[[PathDistribution], Tensor]) -> Tensor:
            def one(weight: Tensor, final: Tensor) -> Tensor:
                return query(PathDistribution(MACHINE, weight, initial, final))

            return torch.vmap(one, randomness="different")(weight, final)

        assert torch.equal(mapped(lambda p: p.argmax()), batch.argmax())
        assert torch.equal(mapped(lambda p: p.topk(3).structures).transpose(0, 1), batch.topk(3).structures)
        assert torch.equal(mapped(lambda p: p.max()), batch.max())
        assert batch.score(mapped(lambda p: p.sample(5)).transpose(0, 1)).isfinite().all()


# --- ids of paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "what"),
    [([0, 99], "arc .* 0 to 5, .* got 99"), ([7, 0], "first state .* 0 to 3, .* got 7"), ([0, -2], "arc .* got -2")],
)
def test_ids_that_do_not_exist_raise_an_error(path: list[int], what: str) -> None:
    paths, y = PathDistribution.of(MACHINE), torch.tensor(path)
    for query in (paths.score, paths.log_prob, paths.parts):
        with pytest.raises(DataError, match=what) as raised:
            query(y)
        assert FORM.search(str(raised.value))
    with pytest.raises(ShapeError, match=FORM):
        paths.score(y[:0])


def test_ids_that_do_not_exist_have_probability_0_where_they_cannot_be_read() -> None:
    paths = PathDistribution.of(MACHINE)
    y = torch.tensor([[0, 3, 4], [0, 99, 4], [7, 3, 4], [0, -2, 4], [-1, -1, -1]])
    found = torch.vmap(paths.score)(y)
    assert found.tolist() == [0.0, NEVER, NEVER, NEVER, NEVER]
    assert torch.vmap(paths.parts)(y).isnan().all(1).tolist() == [False, True, True, True, False]


# --- nothing ------------------------------------------------------------------------------------------------


@both_backends
@pytest.mark.parametrize(
    "build",
    [
        lambda: from_arcs([], [], [], n_states=0),
        lambda: from_arcs([], [], [], n_states=2),
        lambda: connect(from_arcs([(0, 1, 1, 1, 0.0)], [0], [])),
        lambda: intersect(from_string("a"), from_string("b")),
    ],
)
def test_empty_automaton_supports_every_query(backend: str, build: Callable[[], Automaton]) -> None:
    machine = build()
    paths = PathDistribution.of(machine)
    with use_backend(backend):
        assert paths.log_partition() == NEVER
        assert paths.max() == NEVER
        assert paths.entropy() == 0
        assert paths.argmax().tolist() == [-1]
        assert paths.topk(2).scores.tolist() == [NEVER, NEVER]
        assert paths.topk(2).structures.tolist() == [[-1], [-1]]
        assert paths.sample(2).tolist() == [[-1], [-1]]
        assert paths.score(torch.tensor([-1])) == NEVER
        assert paths.marginals().shape == paths.parts(torch.tensor([-1])).shape == (machine.n_arcs,)
        rows = [x.expand(3, -1) for x in (paths.weight, paths.initial, paths.final)]
        assert PathDistribution(machine, *rows).argmax().tolist() == [[-1]] * 3


def test_no_path_may_be_sampled() -> None:
    assert PathDistribution.of(MACHINE).sample(0).shape == (0, 4)
    assert PathDistribution(MACHINE, scores(0, 6), scores(4), scores(4)).argmax().shape == (0, 4)
