"""Laws of all structured distributions. A new distribution defines the hooks and inherits the tests.

    class TestLinearChain(StructureLaws):
        def structure(self, case): ...

Every query is compared with enumeration to 1e-10 times the largest magnitude that was summed, on
dense scores, with impossible parts, with ties, at lengths from 1 to the longest, and at score scales from
1e-3 to 1e4, by every backend.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from tests.conftest import devices
from tests.devices import TensorsOn
from tests.oracle import moments

Ids = tuple[Any, ...]
Member = tuple[Ids, float]


@dataclass(frozen=True)
class Case:
    """A recipe for random scores: seed, scale, fraction of -inf, and rounding for ties."""

    seed: int = 1
    scale: float = 1.0
    never: float = 0.0
    ties: bool = False
    dtype: torch.dtype = torch.float64

    def draw(self, *shape: int, salt: int = 0) -> Tensor:
        """A tensor of random scores. A different ``salt`` gives an independent one."""
        generator = torch.Generator().manual_seed(1000 * self.seed + salt)
        scores = torch.randn(shape, generator=generator, dtype=torch.float64) * self.scale
        if self.ties:
            scores = (scores / self.scale).round() * self.scale
        if self.never:
            scores = scores.masked_fill(torch.rand(shape, generator=generator) < self.never, -math.inf)
        return scores.to(self.dtype)

    def __str__(self) -> str:
        words = [f"scale={self.scale:g}"] + [f"never={self.never}"] * bool(self.never) + ["ties"] * self.ties
        return "-".join(words)


CASES = [
    Case(1),
    Case(2, scale=1e-3),
    Case(3, scale=30),
    Case(4, scale=300),
    Case(5, scale=1e4),
    Case(6, never=0.25),
    Case(7, never=0.25, scale=300),
    Case(8, never=0.7),
    Case(9, never=0.4, scale=1e4),
    Case(10, ties=True),
    Case(11, ties=True, never=0.3, scale=10),
    Case(12, never=1.0),
]

LIKE = [CASES[i] for i in (2, 3, 5, 9)]
"""Cases that are redundant for reference programs, which sum in the same way at all scales, unlike kernels."""


FEW_CASES = [case for case in CASES if case.seed in (1, 5, 9, 11)]
"""Cases for an additional variant of a distribution that is tested on all cases."""


class StructureLaws(ABC):
    """The hooks and the laws."""

    cases: ClassVar[list[Case]] = CASES

    backends: ClassVar[tuple[str, ...]] = ("reference", "kernels")
    field_ranks: ClassVar[dict[str, int]]
    """For each tensor field, its number of axes after the batch axes."""

    # --- hooks ----------------------------------------------------------------------------------------------

    @abstractmethod
    def structure(self, case: Case) -> StructuredDistribution:
        """A distribution with one batch axis of size 4, whose lengths include 1 and the longest."""

    @abstractmethod
    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        """All structures of one row with their scores, by the oracle, including impossible ones.

        Ids are nested tuples.
        """

    @abstractmethod
    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        """The indices of the parts of a structure in the marginals of its row."""

    @abstractmethod
    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        """The same distributions with other scores at padding."""

    # --- helpers --------------------------------------------------------------------------------------------

    @pytest.fixture(autouse=True)
    def backend(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        """A CPU backend, or the name of another device, to which all distributions are moved."""
        if request.param in ("reference", "kernels"):
            with use_backend(request.param):
                yield request.param
            return
        made = type(self).structure

        def moved(laws: StructureLaws, case: Case) -> StructuredDistribution:
            with TensorsOn("cpu"):
                return made(laws, case).to(request.param)

        monkeypatch.setattr(type(self), "structure", moved)
        with TensorsOn(request.param):
            yield request.param

    def rows(self, structure: StructuredDistribution) -> range:
        assert structure.batch_shape[0] > 0
        return range(structure.batch_shape[0])

    def regrouped(
        self, structure: StructuredDistribution, change: Callable[[Tensor], Tensor]
    ) -> StructuredDistribution:
        """A distribution with ``change`` applied to every tensor with a batch axis."""
        changed = {}
        for name, rank in self.field_ranks.items():
            tensor = getattr(structure, name)
            if tensor is not None and tensor.dim() > rank:
                changed[name] = change(tensor)
        return replace(structure, **changed)  # type: ignore[type-var]

    def value(self, structure: StructuredDistribution, seed: int) -> StructuredDistribution:
        """A distribution whose scores are finite values of the parts."""
        return self.structure(Case(seed=seed))

    def scores(self, structure: StructuredDistribution, row: int) -> list[float]:
        return [score for _, score in self.members(structure, row)]

    def values(self, value: StructuredDistribution, row: int) -> list[float]:
        return self.scores(value, row)

    def tolerance(self, *lists: list[float]) -> float:
        finite = [abs(x) for numbers in lists for x in numbers if math.isfinite(x)]
        return 1e-10 * max([1.0, *finite])

    def same(self, found: float, expected: float, tolerance: float) -> bool:
        return found == expected or abs(found - expected) <= tolerance

    # --- laws -----------------------------------------------------------------------------------------------

    def test_log_partition_and_max_equal_enumeration(self, case: Case) -> None:
        structure = self.structure(case)
        log_z, best = structure.log_partition(), structure.max()
        for row in self.rows(structure):
            scores = self.scores(structure, row)
            tolerance = self.tolerance(scores)
            assert self.same(log_z[row].item(), moments.log_add(scores), tolerance)
            assert self.same(best[row].item(), max(scores), tolerance)

    def test_log_prob_equals_enumeration(self, case: Case) -> None:
        structure = self.structure(case)
        for row in self.rows(structure):
            members = self.members(structure, row)
            total = moments.log_add([score for _, score in members])
            batch = torch.tensor([ids for ids, _ in members])
            one = self.regrouped(structure, lambda x, row=row: x[row])
            found = one.log_prob(batch).tolist()
            for (_, score), log_p in zip(members, found, strict=True):
                expected = score - total if score > -math.inf else -math.inf
                assert self.same(log_p, expected, self.tolerance([score]))

    def test_marginals_equal_enumeration(self, case: Case) -> None:
        structure = self.structure(case)
        marginals = structure.marginals()
        for row in self.rows(structure):
            members = self.members(structure, row)
            sums: dict[tuple[int, ...], float] = defaultdict(float)
            for (ids, score), p in zip(members, moments.probabilities([score for _, score in members]), strict=True):
                if score > -math.inf:
                    for place in self.parts_of(ids):
                        sums[place] += p
            expected = torch.zeros_like(marginals[row])
            for place, p in sums.items():
                expected[place] = p
            # A score of size s is known to s × 2⁻⁵², so probabilities are only as precise as their logs.
            tolerance = self.tolerance([score for _, score in members])
            assert (marginals[row] - expected).abs().max() <= tolerance

    def test_parts_of_a_structure_match_its_definition(self) -> None:
        structure = self.structure(Case())
        for row in self.rows(structure):
            one = self.regrouped(structure, lambda x, row=row: x[row])
            members = self.members(structure, row)[:20]
            parts = one.parts(torch.tensor([ids for ids, _ in members]))
            assert parts.shape[1:] == structure.marginals()[row].shape
            for (ids, _), found in zip(members, parts, strict=True):
                assert {tuple(place) for place in found.nonzero().tolist()} == set(self.parts_of(ids))
                assert found.max() <= 1

    def test_argmax_is_a_best_structure(self, case: Case) -> None:
        structure = self.structure(case)
        best = structure.argmax()
        for row in self.rows(structure):
            members = dict(self.members(structure, row))
            top = max(members.values())
            if top == -math.inf:
                assert (best[row] == -1).all()
            else:
                assert members[as_ids(best[row])] >= top - self.tolerance(list(members.values()))

    @pytest.mark.parametrize("k", [1, 5])
    def test_topk_equals_enumeration(self, case: Case, k: int) -> None:
        structure = self.structure(case)
        top = structure.topk(k)
        for row in self.rows(structure):
            members = dict(self.members(structure, row))
            expected = sorted((s for s in members.values() if s > -math.inf), reverse=True)[:k]
            tolerance = self.tolerance(list(members.values()))
            ids = [as_ids(member[row]) for member in top.structures]
            assert len(set(ids[: len(expected)])) == len(expected), "a structure occurs twice"
            for n, score in enumerate(expected):
                assert self.same(top.scores[n, row].item(), score, tolerance)
                assert self.same(members[ids[n]], score, tolerance)
            for n in range(len(expected), k):
                assert top.scores[n, row] == -math.inf
                assert (top.structures[n, row] == -1).all()

    def test_entropy_cross_entropy_and_kl(self, case: Case) -> None:
        structure = self.structure(case)
        other = self.structure(replace(case, seed=case.seed + 50))
        finite = self.value(structure, 77)
        entropy, cross, kl = structure.entropy(), structure.cross_entropy(other), structure.kl(finite)
        to_self = structure.kl(structure)
        for row in self.rows(structure):
            scores, others, values = (self.scores(s, row) for s in (structure, other, finite))
            tolerance = self.tolerance(scores, others)
            if max(scores) == -math.inf:
                assert entropy[row] == 0
                continue
            expected = moments.entropy(scores)
            assert self.same(entropy[row].item(), expected, tolerance)
            assert self.same(cross[row].item(), moments.cross_entropy(scores, others), tolerance)
            assert self.same(kl[row].item(), moments.cross_entropy(scores, values) - expected, tolerance)
            assert abs(to_self[row].item()) <= tolerance

    def test_expectation_variance_and_covariance(self, case: Case) -> None:
        structure = self.structure(case)
        a, b = self.value(structure, 91), self.value(structure, 92)
        mean, variance, covariance = (
            structure.expectation(a),
            structure.variance(a),
            structure.covariance(a, b),
        )
        for row in self.rows(structure):
            scores, of_a, of_b = self.scores(structure, row), self.scores(a, row), self.scores(b, row)
            tolerance = self.tolerance(scores, of_a) * 10
            if max(scores) == -math.inf:
                assert mean[row] == 0
                continue
            assert self.same(mean[row].item(), moments.expectation(scores, of_a), tolerance)
            assert self.same(variance[row].item(), moments.covariance(scores, of_a, of_a), tolerance)
            assert self.same(covariance[row].item(), moments.covariance(scores, of_a, of_b), tolerance)

    def test_value_may_be_a_tensor_shaped_like_the_marginals(self) -> None:
        structure = self.structure(Case())
        marginals = structure.marginals()
        value = torch.randn(marginals.shape, dtype=marginals.dtype)
        own = tuple(range(1, marginals.dim()))
        assert torch.allclose(structure.expectation(value), (marginals * value).sum(own))
        several = torch.randn(3, *marginals.shape, dtype=marginals.dtype)
        expected = torch.stack([structure.expectation(v) for v in several])
        assert torch.allclose(structure.expectation(several), expected)
        expected = torch.stack([structure.covariance(v, value) for v in several])
        assert torch.allclose(structure.covariance(several, value), expected)

    @pytest.mark.parametrize("scale", [1.0, 300.0])
    def test_sample_frequencies_match_probabilities(self, scale: float) -> None:
        structure = self.structure(Case(seed=3, scale=scale, never=0.2))
        n = 2000
        drawn = structure.sample(n, torch.Generator().manual_seed(5))
        assert drawn.shape[:2] == (n, structure.batch_shape[0])
        for row in self.rows(structure):
            members = self.members(structure, row)
            chances = moments.probabilities([score for _, score in members])
            numbers = {ids: i for i, (ids, _) in enumerate(members)}
            counts = [0] * len(members)
            if max(score for _, score in members) == -math.inf:
                assert (drawn[:, row] == -1).all()
                continue
            for one in as_ids(drawn[:, row]):
                counts[numbers[one]] += 1
            assert all(c == 0 for c, p in zip(counts, chances, strict=True) if p == 0)
            statistic, freedom = moments.chi_square(counts, chances)
            assert surprise(statistic, freedom) < 4

    def test_samples_of_one_call_are_independent(self) -> None:
        structure = self.structure(Case(scale=0.1))
        drawn = structure.sample(4, torch.Generator().manual_seed(1))
        again = structure.sample(4, torch.Generator().manual_seed(1))
        other = structure.sample(4, torch.Generator().manual_seed(2))
        assert torch.equal(drawn, again)
        assert not torch.equal(drawn, other)
        assert not all(torch.equal(drawn[0], one) for one in drawn)

    def test_batched_equals_single_with_any_batch_axes(self) -> None:
        structure = self.structure(Case())
        log_z, marginals, best = structure.log_partition(), structure.marginals(), structure.argmax()
        entropy = structure.entropy()
        for row in self.rows(structure):
            one = self.regrouped(structure, lambda x, row=row: x[row])
            assert one.batch_shape == ()
            assert torch.allclose(one.log_partition(), log_z[row])
            assert torch.allclose(one.marginals(), marginals[row])
            assert torch.equal(one.argmax(), best[row])
            assert one.sample(2).shape == (2, *best[row].shape)
        square = self.regrouped(structure, lambda x: x.reshape(2, 2, *x.shape[1:]))
        assert torch.allclose(square.log_partition().flatten(), log_z)
        assert torch.allclose(square.marginals().flatten(0, 1), marginals)
        assert torch.allclose(square.entropy().flatten(), entropy)
        assert torch.equal(square.argmax().flatten(0, 1), best)
        assert torch.equal(square.topk(2).structures.flatten(1, 2), structure.topk(2).structures)
        assert square.sample(3).flatten(1, 2).shape == (3, *best.shape)

    def test_padding_does_not_change_results(self) -> None:
        structure = self.structure(Case(never=0.1))
        spoiled = self.spoiled(structure)
        assert torch.allclose(structure.log_partition(), spoiled.log_partition())
        assert torch.allclose(structure.marginals(), spoiled.marginals())
        assert torch.equal(structure.argmax(), spoiled.argmax())
        assert torch.equal(structure.topk(3).structures, spoiled.topk(3).structures)
        assert torch.allclose(structure.entropy(), spoiled.entropy())
        assert torch.allclose(structure.kl(spoiled), torch.zeros(()).double(), atol=1e-12)
        seeds = [torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)]
        assert torch.equal(structure.sample(5, seeds[0]), spoiled.sample(5, seeds[1]))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_results_keep_the_dtype_and_do_not_change_the_input(self, dtype: torch.dtype) -> None:
        structure = self.structure(Case(never=0.1, dtype=dtype))
        tensors = [x for x in structure.score_tensors() if x is not None]
        copies = [x.clone() for x in tensors]
        value = self.value(structure, 9)
        value = value.with_score_tensors([x if x is None else x.to(dtype) for x in value.score_tensors()])
        answers = [
            structure.log_partition(), structure.max(), structure.marginals(), structure.topk(2).scores,
            structure.entropy(), structure.cross_entropy(value), structure.kl(value),
            structure.expectation(value), structure.variance(value), structure.log_prob(structure.argmax()),
            structure.parts(structure.argmax()),
        ]  # fmt: skip
        structure.sample(2)
        assert {answer.dtype for answer in answers} == {dtype}
        assert all(torch.equal(x, copy) for x, copy in zip(tensors, copies, strict=True))
        assert not any(x.requires_grad for x in tensors)

    def test_float32_agrees_with_float64(self) -> None:
        for case in (Case(), Case(scale=30), Case(never=0.3), Case(scale=300, never=0.3)):
            wide, narrow = self.structure(case), self.structure(replace(case, dtype=torch.float32))
            size = max(1.0, case.scale) * 10
            a, b = wide.log_partition(), narrow.log_partition().double()
            assert ((a == b) | ((a - b).abs() < 1e-6 * size)).all()
            assert (wide.marginals() - narrow.marginals()).abs().max() < 1e-6 * size

    @staticmethod
    def queried(structure: StructuredDistribution) -> list[Tensor]:
        """The results of all deterministic queries."""
        return [
            structure.log_partition(), structure.marginals(), structure.max(), structure.argmax(), *structure.topk(2),
            structure.entropy(), structure.expectation(structure), structure.variance(structure),
            structure.kl(structure),
        ]  # fmt: skip

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_queries_under_no_grad_and_inference_mode_equal_those_outside(self, mode: Any) -> None:
        structure = self.structure(Case())
        expected = self.queried(structure)
        with mode():
            created = self.structure(Case())
            for one in (structure, created):
                for found, wanted in zip(self.queried(one), expected, strict=True):
                    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12, equal_nan=True)
                one.sample(2)
        for found, wanted in zip(self.queried(created), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12, equal_nan=True)

    def differentiated(
        self, case: Case, ask: Callable[[StructuredDistribution], Tensor]
    ) -> tuple[Any, tuple[Tensor, ...]]:
        structure = self.structure(case)
        given = [i for i, x in enumerate(structure.score_tensors()) if x is not None]
        inputs = tuple(structure.score_tensors()[i].clone().requires_grad_() for i in given)  # type: ignore[union-attr]
        assert inputs

        def function(*tensors: Tensor) -> Tensor:
            found = list(structure.score_tensors())
            for i, x in zip(given, tensors, strict=True):
                found[i] = x
            return ask(structure.with_score_tensors(found))

        return function, inputs

    def test_first_and_second_derivatives(self) -> None:
        function, inputs = self.differentiated(Case(seed=21), lambda s: s.log_partition())
        assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)

    def test_other_queries_are_differentiable(self) -> None:
        member = self.structure(Case(seed=21)).argmax()
        value = self.value(self.structure(Case()), 33)
        for ask in (
            lambda s: s.marginals(), lambda s: s.entropy(), lambda s: s.log_prob(member), lambda s: s.max(),
            lambda s: s.expectation(value), lambda s: s.kl(value), lambda s: value.kl(s),
            lambda s: _where_finite(s.topk(3).scores),
        ):  # fmt: skip
            function, inputs = self.differentiated(Case(seed=21), ask)
            assert torch.autograd.gradcheck(function, inputs, fast_mode=True)

    def test_gradients_at_minus_infinity_are_finite(self) -> None:
        for case in (Case(never=0.6), Case(never=1.0), Case(never=0.4, scale=1e4)):
            for ask in (
                lambda s: s.log_partition(), lambda s: s.entropy(), lambda s: s.max(),
                lambda s: s.expectation(s), lambda s: s.topk(2).scores,
            ):  # fmt: skip
                function, inputs = self.differentiated(case, ask)
                answer = function(*inputs)
                if not answer.requires_grad:
                    continue
                answer = answer[answer.isfinite()].sum() + 0.0 * answer.isfinite().sum()
                for grad in torch.autograd.grad(answer, inputs, allow_unused=True):
                    assert grad is None or not grad.isnan().any()

    def test_impossible_row_has_log_partition_minus_infinity_and_zero_gradient(self) -> None:
        function, inputs = self.differentiated(Case(never=1.0), lambda s: s.log_partition())
        log_z = function(*inputs)
        assert (log_z == -math.inf).all()
        grads = torch.autograd.grad(log_z.sum(), inputs)
        assert all((grad == 0).all() for grad in grads)
        structure = self.structure(Case(never=1.0))
        assert (structure.marginals() == 0).all()
        assert (structure.sample(2) == -1).all()

    def test_vmap_and_func_grad(self) -> None:
        structure = self.structure(Case())
        batched = self.regrouped(structure, lambda x: x)
        names = [n for n, rank in self.field_ranks.items() if (x := getattr(batched, n)) is not None and x.dim() > rank]
        stacked = {name: getattr(batched, name) for name in names}

        def log_z(tensors: dict[str, Tensor]) -> Tensor:
            return replace(structure, **tensors).log_partition()  # type: ignore[type-var]

        def marginals(tensors: dict[str, Tensor]) -> Tensor:
            return replace(structure, **tensors).marginals()  # type: ignore[type-var]

        assert torch.allclose(torch.vmap(log_z)(stacked), structure.log_partition())
        assert torch.allclose(torch.vmap(marginals)(stacked), structure.marginals())
        function, inputs = self.differentiated(Case(), lambda s: s.log_partition().sum())
        plain = torch.autograd.grad(function(*inputs), inputs)
        functional = torch.func.grad(function, argnums=tuple(range(len(inputs))))(*inputs)
        assert all(torch.allclose(a, b) for a, b in zip(plain, functional, strict=True))


def as_ids(x: Tensor) -> Ids:
    """A tensor of ids as nested tuples."""

    def frozen(rows: list[Any]) -> Ids:
        return tuple(frozen(row) if isinstance(row, list) else row for row in rows)

    return frozen(x.tolist())


def _where_finite(x: Tensor) -> Tensor:
    return torch.where(x.isfinite(), x, 0.0)


def surprise(statistic: float, freedom: int) -> float:
    """The number of standard deviations by which a chi-square statistic is too high (Wilson & Hilferty 1931)."""
    if freedom == 0:
        return 0.0
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def pytest_generate_laws(metafunc: pytest.Metafunc) -> None:
    """Parametrize the laws; test modules import it as ``pytest_generate_tests``.

    Every law runs with every backend on every case, except redundant cases of reference programs.
    """
    laws = metafunc.cls
    if laws is None or not issubclass(laws, StructureLaws):
        return
    backends = [
        name for device in devices(metafunc.config) for name in (laws.backends if device == "cpu" else [device])
    ]
    if "case" not in metafunc.fixturenames:
        metafunc.parametrize("backend", backends, indirect=True)
        return
    pairs = [(name, case) for name in backends for case in laws.cases if name == "kernels" or case not in LIKE]
    metafunc.parametrize(("backend", "case"), pairs, indirect=["backend"], ids=[f"{a}-{b}" for a, b in pairs])
