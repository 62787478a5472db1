"""Sums over all edits: enumeration, closure of cycles, gradients, and the search that knows when it is exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import jaxtyping
import numpy as np
import pytest
import torch

from catena.errors import DivergentSumError, ShapeError
from catena.kernels.edits import ops
from catena.structure.automaton.build import Arc, from_arcs
from catena.structure.automaton.distance import total
from catena.structure.edits import DELETE, INSERT, SUBSTITUTE, EditLattice
from tests.oracle.transduction import edit_scripts, log_add

V, LENGTHS = 2, (3, 0, 2)


@pytest.fixture
def no_type_checks() -> Iterator[None]:
    """Users run without the checks of annotations, which would reject these calls first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(params=["kernels", "numpy"])
def searches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search by kernels, and the search of a cold process."""
    if request.param == "numpy":
        monkeypatch.setattr(ops, "can_skip_kernels", lambda microseconds: True)


def scores(seed: int = 0, insertion: float = -2.5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    b, t = len(LENGTHS), max(LENGTHS)
    return [drawn(b, t, V + 1, V), drawn(b, t + 1, V + 1, V) + insertion, drawn(b, t, V + 1), drawn(b, V + 1)]


def lattice(seed: int = 0) -> EditLattice:
    return EditLattice(*scores(seed), torch.tensor(LENGTHS))


def weight(edits: EditLattice, r: int, y: tuple[int, ...]) -> float:
    """log of the summed weights of all ways to write y, by listing them."""
    ways = []
    for script in edit_scripts(LENGTHS[r], y):
        score = 0.0
        for kind, i, p, q in script:
            table = {"insert": edits.insert, "substitute": edits.substitute}.get(kind)
            if table is not None:
                score += table[r, i, p, q].item()
            else:
                score += edits.delete[r, i, p].item() if kind == "delete" else edits.end[r, p].item()
        ways.append(score)
    return log_add(ways)


def as_rows(y: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.zeros(len(LENGTHS), max(len(y), 1), dtype=torch.long)
    ids[:, : len(y)] = torch.tensor(y, dtype=torch.long)
    return ids, torch.full((len(LENGTHS),), len(y))


@pytest.mark.parametrize("y", [(), (1,), (0, 1), (1, 1, 0, 1)])
def test_log_weights_equal_sum_over_all_edit_sequences(y: tuple[int, ...]) -> None:
    edits = lattice()
    found = edits.log_weights(*as_rows(y)).tolist()
    assert found == pytest.approx([weight(edits, r, y) for r in range(len(LENGTHS))], abs=1e-10)


def test_log_weights_of_all_targets_sum_to_log_partition() -> None:
    edits = EditLattice(*scores(insertion=-5.0), torch.tensor(LENGTHS))  # long targets have almost no weight
    strings = [y for n in range(8) for y in itertools.product(range(V), repeat=n)]
    weights = [edits.log_weights(*as_rows(y)).tolist() for y in strings]
    sums = edits.log_partition().tolist()
    assert len(sums) == len(LENGTHS)
    for log_z, row in zip(sums, zip(*weights, strict=True), strict=True):
        assert log_z == pytest.approx(log_add(row), abs=1e-5)


def test_log_partition_equals_cyclic_automaton_total() -> None:
    edits = lattice(3)
    for r, n in enumerate(LENGTHS):
        arcs = []
        for i in range(n + 1):
            for p in range(V + 1):
                here = i * (V + 1) + p
                arcs += [Arc(here, i * (V + 1) + q + 1, 0, q + 1, edits.insert[r, i, p, q].item()) for q in range(V)]
                if i < n:
                    there = (i + 1) * (V + 1)
                    arcs += [Arc(here, there + q + 1, 1, q + 1, edits.substitute[r, i, p, q].item()) for q in range(V)]
                    arcs.append(Arc(here, there + p, 1, 0, edits.delete[r, i, p].item()))
        final = {n * (V + 1) + p: edits.end[r, p].item() for p in range(V + 1)}
        assert edits.log_partition()[r].item() == pytest.approx(float(total(from_arcs(arcs, [0], final))), abs=1e-9)


def test_log_partition_of_insertions_is_a_geometric_series() -> None:
    """One symbol, inserted with weight w any number of times into an empty source: Z = 1 / (1 - w)."""
    w = 0.75
    insert = torch.full((1, 2, 2, 1), math.log(w), dtype=torch.float64)
    nothing = torch.zeros(1, 1, 2, 1, dtype=torch.float64)
    edits = EditLattice(nothing, insert, nothing[..., 0], torch.zeros(1, 2, dtype=torch.float64), torch.tensor([0]))
    assert edits.log_partition().item() == pytest.approx(-math.log(1 - w), abs=1e-12)
    n = torch.tensor([7])
    assert edits.log_prob(torch.zeros(1, 7, dtype=torch.long), n).item() == pytest.approx(math.log((1 - w) * w**7))


@pytest.mark.usefixtures("searches")
def test_divergent_insertions_raise_in_search() -> None:
    insert = torch.full((1, 2, 3, 2), math.log(0.6), dtype=torch.float64)
    nothing = torch.zeros(1, 1, 3, 2, dtype=torch.float64)
    edits = EditLattice(nothing, insert, nothing[..., 0], torch.zeros(1, 3, dtype=torch.float64), torch.tensor([1]))
    with pytest.raises(DivergentSumError, match="source 0 diverges"):
        edits.best(0)


def test_divergent_insertions_raise() -> None:
    insert = torch.full((1, 2, 2, 1), 0.01, dtype=torch.float64)
    nothing = torch.zeros(1, 1, 2, 1, dtype=torch.float64)
    edits = EditLattice(nothing, insert, nothing[..., 0], torch.zeros(1, 2, dtype=torch.float64), torch.tensor([1]))
    with pytest.raises(DivergentSumError, match=r"source 0 diverges.*Lower the scores of insertions"):
        edits.log_partition()
    with pytest.raises(DivergentSumError, match="source 0 diverges"):
        edits.best(0)


def test_gradients_equal_finite_differences() -> None:
    tensors = [x.requires_grad_() for x in scores(1, insertion=-3.5)]
    targets, lengths = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0]]), torch.tensor([3, 1, 0])

    def log_prob(*given: torch.Tensor) -> torch.Tensor:
        return EditLattice(*given, torch.tensor(LENGTHS)).log_prob(targets, lengths)

    assert torch.autograd.gradcheck(log_prob, tensors)


def test_large_scores_do_not_overflow() -> None:
    shifted = scores()
    shifted[0] += 900.0
    shifted[2] += 900.0
    plain, moved = lattice(), EditLattice(*shifted, torch.tensor(LENGTHS))
    by = torch.tensor(LENGTHS) * 900.0  # every symbol of a source is read once
    assert moved.log_partition().tolist() == pytest.approx((plain.log_partition() + by).tolist(), abs=1e-8)
    tiny = EditLattice(*[x - 800.0 for x in scores()], torch.tensor(LENGTHS))
    assert torch.isfinite(tiny.log_partition()).all()


@pytest.mark.usefixtures("searches")
@pytest.mark.parametrize("seed", range(4))
def test_best_finds_the_most_probable_targets_and_reports_it(seed: int) -> None:
    edits = EditLattice(*scores(seed, insertion=-4.0), torch.tensor(LENGTHS))
    strings = [y for n in range(8) for y in itertools.product(range(V), repeat=n)]
    for r in range(len(LENGTHS)):
        log_z = edits.log_partition()[r].item()
        ranked = sorted(((weight(edits, r, y) - log_z, y) for y in strings if len(y) < 6), reverse=True)[:4]
        found, sure = edits.best(r, 4, width=64)
        assert sure
        assert [y.ids for y in found] == [y for _, y in ranked]
        assert [y.log_prob for y in found] == pytest.approx([value for value, _ in ranked], abs=1e-9)


@pytest.mark.usefixtures("searches")
def test_best_with_small_width_reports_possible_search_error() -> None:
    flat = [torch.zeros_like(x) for x in scores()]
    flat[1] -= 2.0
    _, sure = EditLattice(*flat, torch.tensor(LENGTHS)).best(0, 4, width=4)
    assert not sure


@pytest.mark.usefixtures("searches")
def test_align_returns_the_best_edit_sequence() -> None:
    edits, y = lattice(5), (1, 0, 0)
    names = {"delete": DELETE, "insert": INSERT, "substitute": SUBSTITUTE}
    for r in range(len(LENGTHS)):
        ranked = []
        for script in edit_scripts(LENGTHS[r], y):
            score = sum(
                (edits.delete[r, i, p] if kind == "delete" else getattr(edits, kind)[r, i, p, q]).item()
                for kind, i, p, q in script
                if kind != "end"
            )
            ranked.append((score, [names[kind] for kind, *_ in script if kind != "end"]))
        assert edits.align(r, y) == max(ranked)[1]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("width", [1, 3, 40])
def test_search_without_kernels_equals_kernels(seed: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    n, v = int(rng.integers(0, 8)), int(rng.integers(1, 6))
    shapes = (n, v + 1, v), (n + 1, v + 1, v), (n, v + 1), (v + 1,)
    sub, ins, dele, end = (rng.normal(0.0, 20.0 if seed % 2 else 1.0, shape) for shape in shapes)
    ins -= 3.0 + np.maximum(ins, 0.0)
    for x in (sub, ins, dele):
        x[rng.random(x.shape) < 0.1] = -np.inf
    given = sub, ins, dele, end
    fast = ops.best_targets(given, n, 4, max(4, width), 2 * n + 10)
    monkeypatch.setattr(ops, "can_skip_kernels", lambda microseconds: True)
    slow = ops.best_targets(given, n, 4, max(4, width), 2 * n + 10)
    assert fast is not None
    assert slow is not None
    assert [ids for _, ids in slow[0]] == [ids for _, ids in fast[0]]
    assert [score for score, _ in slow[0]] == pytest.approx([score for score, _ in fast[0]], abs=1e-9)
    assert slow[1] == pytest.approx(fast[1], abs=1e-9)
    for _, ids in fast[0]:
        y = np.array(ids, np.int64)
        edits = ops.best_edits(given, y, n)
        monkeypatch.setattr(ops, "can_skip_kernels", lambda microseconds: False)
        assert ops.best_edits(given, y, n) == edits
        monkeypatch.setattr(ops, "can_skip_kernels", lambda microseconds: True)


def test_padding_changes_nothing() -> None:
    edits = lattice()
    garbage = [x.clone() for x in scores()]
    garbage[0][2, 2:], garbage[1][2, 3:], garbage[2][2, 2:] = 50.0, 50.0, 50.0
    other = EditLattice(*garbage, torch.tensor(LENGTHS))
    assert other.log_partition().tolist() == edits.log_partition().tolist()


def test_impossible_target_has_log_prob_minus_infinity_and_zero_gradient() -> None:
    never = [x.clone() for x in scores()]
    never[0][..., 1] = never[1][..., 1] = -math.inf
    tensors = [x.requires_grad_() for x in never]
    found = EditLattice(*tensors, torch.tensor(LENGTHS)).log_weights(*as_rows((1,)))
    assert found.tolist() == [-math.inf] * 3
    assert EditLattice(*tensors, torch.tensor(LENGTHS)).align(0, (1,)) is None
    EditLattice(*tensors, torch.tensor(LENGTHS)).log_partition().sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in tensors if x.grad is not None)


def test_symbols_and_lengths_out_of_range_raise() -> None:
    sub, ins, dele, end = scores()
    with pytest.raises(ShapeError, match="lengths must be from 0 to 3"):
        EditLattice(sub, ins, dele, end, torch.tensor([4, 0, 0]))
    for wrong in (2, -1):
        with pytest.raises(ShapeError, match=f"targets must be symbols from 0 to 1, got {wrong}. Number"):
            lattice().log_weights(torch.tensor([[wrong], [0], [0]]), torch.tensor([1, 1, 1]))
        with pytest.raises(ShapeError, match=f"target must be symbols from 0 to 1, got {wrong}. Number"):
            lattice().align(0, (0, wrong))
    for lengths in ([2, 1, 1], [1, -1, 1]):
        with pytest.raises(ShapeError, match="lengths of targets must be from 0 to 1"):
            lattice().log_weights(torch.tensor([[1], [0], [0]]), torch.tensor(lengths))
    padded, empty = (lattice().log_weights(torch.tensor([[pad]] * 3), torch.tensor([0] * 3)) for pad in (-1, 0))
    assert torch.equal(padded, empty)


@pytest.mark.parametrize("name", ["substitute", "insert", "delete", "end", "lengths"])
@pytest.mark.usefixtures("no_type_checks")
def test_edit_lattice_wrong_shape_raises_before_a_kernel_runs(name: str) -> None:
    names = ("substitute", "insert", "delete", "end", "lengths")
    given = dict(zip(names, (*scores(), torch.tensor(LENGTHS)), strict=True))
    for axis in range(given[name].dim()):
        for index in (slice(0, -1), [0, *range(given[name].shape[axis])]):  # one less, one more
            wrong = given[name].index_select(axis, torch.arange(given[name].shape[axis])[index])
            with pytest.raises(ShapeError, match=r"must have the shape \[.*got \["):
                EditLattice(**{**given, name: wrong})
    with pytest.raises(ShapeError, match="tensor"):
        EditLattice(**{**given, name: given[name].tolist()})  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_type_checks")
def test_scores_of_several_dtypes_raise() -> None:
    sub, ins, dele, end = scores()
    with pytest.raises(ShapeError, match=r"end must be torch.float64 on cpu, got torch.float32 on cpu"):
        EditLattice(sub, ins, dele, end.float(), torch.tensor(LENGTHS))
    with pytest.raises(ShapeError, match="floating-point"):
        EditLattice(sub, ins, dele, end.long(), torch.tensor(LENGTHS))


@pytest.mark.usefixtures("no_type_checks")
def test_log_weights_wrong_number_of_targets_raises() -> None:
    for targets, lengths in (([[1]], [1]), ([[1]] * 3, [1]), ([1, 1, 1], [1, 1, 1])):
        with pytest.raises(ShapeError, match="Pass one target for each source"):
            lattice().log_weights(torch.tensor(targets), torch.tensor(lengths))


@pytest.mark.parametrize(("arguments", "name"), [((0, 0), "n"), ((0, 1, 0), "width"), ((0, 1, 1, -1), "most")])
def test_best_raises_for_counts_below_the_least(arguments: tuple[int, ...], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        lattice().best(*arguments)


@pytest.mark.parametrize("r", [-1, 3])
def test_sources_out_of_range_raise(r: int) -> None:
    with pytest.raises(ShapeError, match=f"r must be a source from 0 to 2, got {r}"):
        lattice().best(r)
    with pytest.raises(ShapeError, match=f"r must be a source from 0 to 2, got {r}"):
        lattice().align(r, [0])


def test_wrong_symbols_and_lengths_give_nan_under_vmap() -> None:
    edits, n = lattice(), torch.tensor([1] * 3)
    symbols = torch.tensor([[[0]] * 3, [[2]] * 3, [[-1]] * 3])
    found = torch.func.vmap(lambda y: edits.log_weights(y, n))(symbols)
    assert found.isnan().all(1).tolist() == [False, True, True]
    assert torch.equal(found[0], edits.log_weights(symbols[0], n))
    lengths, given = torch.tensor([LENGTHS, (4, 0, 2), (-1, 0, 2)]), scores()
    found = torch.func.vmap(lambda m: EditLattice(*given, m).log_partition())(lengths)
    assert found.isnan().tolist() == [[False] * 3, [True, False, False], [True, False, False]]


def log_weights(*given: torch.Tensor) -> torch.Tensor:
    targets, lengths = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0]]), torch.tensor([3, 1, 0])
    return EditLattice(*given, torch.tensor(LENGTHS)).log_weights(targets, lengths)


def log_partition(*given: torch.Tensor) -> torch.Tensor:
    return EditLattice(*given, torch.tensor(LENGTHS)).log_partition()


@pytest.mark.parametrize("function", [log_partition, log_weights])
def test_second_derivatives_are_exact(function: Callable[..., torch.Tensor]) -> None:
    tensors = [x.requires_grad_() for x in scores(1, insertion=-3.5)]
    assert torch.autograd.gradgradcheck(function, tensors)
    assert torch.autograd.gradcheck(function, tensors, check_forward_ad=True, check_batched_grad=True)


@pytest.mark.parametrize("function", [log_partition, log_weights])
def test_hessian_equals_finite_differences(function: Callable[..., torch.Tensor]) -> None:
    first, *rest = scores(1, insertion=-3.5)
    tangent = scores(2)[0]

    def gradient(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda x: function(x, *rest).sum())(x)

    hessian = torch.func.hessian(lambda x: function(x, *rest).sum())(first).reshape(first.numel(), -1)
    expected = (gradient(first + 1e-5 * tangent) - gradient(first - 1e-5 * tangent)) / 2e-5
    assert torch.allclose(hessian @ tangent.flatten(), expected.flatten(), atol=1e-8)


def test_nan_that_is_read_gives_nan_only_in_its_row() -> None:
    """Every single score of a lattice in turn."""
    y = (1, 0)
    targets, lengths = as_rows(y)
    assert all(table.numel() for table in scores())
    for number, table in enumerate(scores()):
        for cell in itertools.product(*(range(size) for size in table.shape)):
            given = scores()
            given[number][cell] = math.nan
            edits = EditLattice(*given, torch.tensor(LENGTHS))
            r, n = cell[0], LENGTHS[cell[0]]
            read = number == 3 or cell[1] < n + (number == 1)
            row = [read and r == i for i in range(3)]
            assert edits.log_partition().isnan().tolist() == row
            assert (edits.best(r) == ([], False)) == read
            weights = [math.isnan(weight(edits, i, y)) for i in range(3)]
            assert edits.log_weights(targets, lengths).isnan().tolist() == weights
            assert edits.log_prob(targets, lengths).isnan().tolist() == row
            written = [script for script in edit_scripts(n, y) if (r, number, cell) in _cells(r, script)]
            assert (edits.align(r, y) is None) == (number < 3 and bool(written))
            tensors = [x.requires_grad_() for x in given]
            gradients = torch.autograd.grad(edits.log_partition().sum(), tensors)
            assert [bool(gradients[3][i].isnan().all()) for i in range(3)] == row


def _cells(r: int, script: Sequence[tuple[str, int, int, int]]) -> set[tuple[int, int, tuple[int, ...]]]:
    """The scores that a way to write a target reads: (row, number of the table, indices)."""
    numbers = {"substitute": 0, "insert": 1, "delete": 2, "end": 3}
    return {(r, numbers[kind], (r, i, p, q)[: 4 - (kind == "delete")]) for kind, i, p, q in script if kind != "end"}


@pytest.mark.parametrize("number", [0, 2, 3])
def test_plus_infinity_gives_nan_and_no_targets(number: int) -> None:
    given = scores()
    given[number][0] = math.inf
    edits = EditLattice(*given, torch.tensor(LENGTHS))
    assert edits.log_partition().isnan().tolist() == [True, False, False]
    assert edits.best(0) == ([], False)


def test_impossible_source_has_log_prob_of_minus_infinity() -> None:
    given = scores()
    given[3][1] = -math.inf
    assert EditLattice(*given, torch.tensor(LENGTHS)).log_prob(*as_rows((0,)))[1].item() == -math.inf
