"""Dependency trees under torch's transforms, and bugs of other libraries as tests.

Every defect was reproduced on the libraries' current releases. Those that are laws of all structures, or of both kinds
of trees, are in ``tests/laws``: instances with one root and with many, scores moved by ±100 and by 1e4, no
epsilon in any weight, plain tensors, samples and k best that exist, -inf in every pattern, derivatives of -inf, second
derivatives, dtypes, and unchanged inputs.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from catena.structure.backend import use_backend
from catena.structure.dependency_tree import DependencyTree
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.projective import ProjectiveTree
from tests.laws.dependency_laws import listed
from tests.laws.structure_checks import kept_for_backward
from tests.laws.structure_laws import Case
from tests.oracle.moments import log_add

KINDS = pytest.mark.parametrize("kind", [ProjectiveTree, NonProjectiveTree])
ROOTS = pytest.mark.parametrize("single_root", [True, False], ids=["one root", "many roots"])


@pytest.fixture(autouse=True, params=["reference", "kernels"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_backend(request.param):
        yield request.param


# --- transforms of torch ------------------------------------------------------------------------------------

TRACED = """
import torch
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.projective import ProjectiveTree

torch.manual_seed(0)
arcs, labels = torch.randn(2, 5, 5, requires_grad=True), torch.randn(2, 5, 5, 3, requires_grad=True)
lengths, mask = torch.tensor([4, 2]), torch.tensor([[True, True, True, True], [True, False, True, False]])
y = torch.tensor([[[2, 0], [0, 1], [2, 2], [3, 0]], [[0, 1], [1, 1], [-1, -1], [-1, -1]]])

def query(arcs, labels):
    tree, holes = ProjectiveTree(arcs, labels, lengths=lengths), NonProjectiveTree(arcs, mask=mask, single_root=False)
    return tree.log_prob(y) + holes.log_partition(), tree.argmax(), holes.topk(2).structures

plain, traced = query(arcs, labels), torch.compile(query, backend="aot_eager", fullgraph=True)(arcs, labels)
assert all(torch.equal(a, b) for a, b in zip(plain, traced))
grads = [torch.autograd.grad(x[0].sum(), (arcs, labels)) for x in (plain, traced)]
assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(*grads))
print("traced whole")
"""


def test_compile_traces_log_prob_and_argmax_of_trees(backend: str) -> None:
    if backend == "reference":
        pytest.skip("torch cannot trace the kernels")
    # In a separate process, because torch.compile cannot trace the shape checks of the tests.
    run = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout.strip() == "traced whole", run.stderr[-2000:]


@KINDS
@ROOTS
def test_per_sentence_gradients_by_vmap(kind: type[Any], single_root: bool) -> None:
    arcs = Case(seed=4).draw(3, 5, 5)
    gold = torch.tensor([[2, 0, 2, 3], [0, 1, 1, 1], [0, 1, 2, 3]])

    def loss(arcs: Tensor, heads: Tensor) -> Tensor:
        return -2.5 * kind(arcs, single_root=single_root).log_prob(heads)

    tree = kind(arcs, single_root=single_root)
    expected = 2.5 * (tree.marginals() - tree.parts(gold))  # expected counts minus observed counts
    assert torch.allclose(torch.vmap(torch.func.grad(loss))(arcs, gold), expected, atol=1e-12)
    arcs.requires_grad_()
    (found,) = torch.autograd.grad(loss(arcs, gold).sum(), arcs)
    assert torch.allclose(found, expected, atol=1e-12)


@KINDS
def test_backward_memory_is_independent_of_number_of_labels(kind: type[Any], backend: str) -> None:
    if backend == "reference":
        pytest.skip("the reference programs save what torch saves")
    arcs, labels = Case(seed=4).draw(2, 9, 9).requires_grad_(), Case(seed=5).draw(2, 9, 9, 40).requires_grad_()
    with kept_for_backward() as sizes:
        log_z = kind(arcs, labels).log_partition().sum()
    log_z.backward()
    assert sizes.pop(labels.untyped_storage().data_ptr()) == labels.untyped_storage().nbytes()
    assert sum(sizes.values()) <= 4 * arcs.untyped_storage().nbytes()


@KINDS
def test_first_and_second_derivatives_of_labels(kind: type[Any]) -> None:
    arcs, labels = Case(seed=4).draw(2, 4, 4), Case(seed=5).draw(2, 4, 4, 3)
    labels[0, 1, 2], labels[1, 0, 3, 1:] = -math.inf, -math.inf

    def log_z(labels: Tensor) -> Tensor:
        return kind(arcs, labels).log_partition().sum()

    gradients = torch.func.grad(log_z)(labels)
    assert torch.allclose(gradients, kind(arcs, labels).marginals(), atol=1e-12)
    curvature = torch.func.jacrev(torch.func.grad(log_z))(labels)
    flat = gradients.flatten()
    # The curvature is the covariance of labeled arcs: its diagonal is p (1 - p).
    assert torch.allclose(curvature.reshape(len(flat), len(flat)).diagonal(), flat * (1 - flat), atol=1e-10)


@KINDS
def test_jacobians_in_forward_and_reverse_mode_agree(kind: type[Any], backend: str) -> None:
    arcs = Case(seed=4).draw(4, 4)

    def log_z(x: Tensor) -> Tensor:
        return kind(x).log_partition()

    gradient = torch.func.jacrev(log_z)(arcs)
    assert torch.allclose(gradient, kind(arcs).marginals(), atol=1e-12)
    curvature = torch.func.jacrev(torch.func.jacrev(log_z))(arcs)
    marginals = torch.func.jacrev(lambda x: kind(x).marginals())(arcs)
    assert torch.allclose(curvature, marginals, atol=1e-10)
    # The curvature is the covariance of arcs: its diagonal is p (1 - p).
    own = curvature.flatten(2).flatten(0, 1).diagonal().reshape(4, 4)
    assert torch.allclose(own, gradient * (1 - gradient), atol=1e-10)


@KINDS
def test_searches_under_vmap_equal_batched_searches(kind: type[Any], backend: str) -> None:
    if backend == "reference":
        pytest.skip("the reference searches read tensor values")
    arcs = Case(seed=4).draw(3, 2, 5, 5)
    found = torch.vmap(lambda x: kind(x).argmax())(arcs)
    assert torch.equal(found, kind(arcs).argmax())
    found = torch.vmap(lambda x: kind(x).topk(3).scores)(arcs)
    assert torch.equal(found, kind(arcs).topk(3).scores.movedim(1, 0))


# --- what peers get wrong -----------------------------------------------------------------------------------


@KINDS
@ROOTS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_probability_is_above_one_at_scores_of_a_hundred_thousand(
    kind: type[Any], single_root: bool, dtype: torch.dtype
) -> None:
    tree = kind((1e5 * Case(seed=8).draw(3, 7, 7)).to(dtype), single_root=single_root)
    last_place = torch.finfo(dtype).eps * 1e6
    assert (tree.log_prob(tree.argmax()) <= last_place).all()
    assert tree.marginals().max() <= 1 + torch.finfo(dtype).eps
    assert (tree.entropy() >= -last_place).all()


@KINDS
@ROOTS
def test_forbidden_arc_has_probability_zero_at_any_score_scale(kind: type[Any], single_root: bool) -> None:
    for scale in (1.0, 1e5, 1e9):
        arcs = scale * Case(seed=8).draw(1, 4, 4)
        arcs[0, :, 2] = -math.inf
        tree = kind(arcs, single_root=single_root)
        assert tree.log_partition() == tree.max() == -math.inf
        assert (tree.marginals() == 0).all()
        assert tree.entropy() == 0


@KINDS
@ROOTS
def test_sentence_of_one_word_has_the_root_as_head(kind: type[Any], single_root: bool) -> None:
    tree = kind(torch.tensor([[7.0, -2.5], [9.0, 9.0]]), single_root=single_root)
    assert tree.log_partition() == tree.max() == -2.5
    assert tree.argmax().tolist() == [0]
    assert tree.marginals().tolist() == [[0, 1], [0, 0]]
    assert tree.sample(2).tolist() == [[0], [0]]
    assert tree.entropy() == 0


@KINDS
@ROOTS
def test_all_lengths_may_be_below_the_tensor_size(kind: type[Any], single_root: bool) -> None:
    arcs, lengths = Case(seed=8).draw(2, 7, 7), torch.tensor([4, 3])
    tree = kind(arcs, lengths=lengths, single_root=single_root)
    shorter = kind(arcs[:, :5, :5], lengths=lengths, single_root=single_root)
    assert torch.allclose(tree.log_partition(), shorter.log_partition())
    assert torch.equal(tree.argmax()[:, :4], shorter.argmax())
    assert (tree.argmax()[:, 4:] == -1).all()
    assert tree.log_partition()[1].item() == pytest.approx(log_add([s for _, s in listed(tree, 1)]), abs=1e-12)


@KINDS
def test_second_derivative_equals_reference_program(kind: type[Any]) -> None:
    arcs = Case(seed=8).draw(2, 6, 6).requires_grad_()

    def curvature() -> Tensor:
        (first,) = torch.autograd.grad(kind(arcs).log_partition().sum(), arcs, create_graph=True)
        return torch.autograd.grad((first**2).sum(), arcs)[0]

    found = curvature()
    with use_backend("reference"):
        expected = curvature()
    assert torch.allclose(found, expected, atol=1e-12)


@ROOTS
def test_nonprojective_argmax_and_samples_are_trees(single_root: bool) -> None:
    """No other library for torch samples them; one returns None for the best."""
    tree = NonProjectiveTree(Case(seed=8, dtype=torch.float32).draw(2, 9, 9), single_root=single_root)
    assert tree.are_trees(tree.argmax()).all()
    assert tree.are_trees(tree.sample(20)).all()
    best = tree.topk(5)
    assert torch.allclose(best.scores[0], tree.max())
    assert tree.are_trees(best.structures).all()


@KINDS
def test_half_precision_uses_the_reference_program(kind: type[Any], backend: str) -> None:
    arcs = Case(seed=8).draw(2, 5, 5)
    if backend == "kernels":
        with pytest.raises(ValueError, match="float16"):
            kind(arcs.half()).log_partition()
        return
    for dtype in (torch.float16, torch.bfloat16):
        log_z = kind(arcs.to(dtype)).log_partition()
        assert log_z.dtype == dtype
        assert torch.allclose(log_z.double(), kind(arcs.to(dtype).double()).log_partition(), rtol=0.05)


@pytest.mark.parametrize(("projective", "kind"), [(True, ProjectiveTree), (False, NonProjectiveTree)])
def test_dependency_tree_builds_either_kind(projective: bool, kind: type) -> None:
    arcs, labels = torch.randn(2, 4, 4, dtype=torch.float64), torch.randn(2, 4, 4, 3, dtype=torch.float64)
    options = {"single_root": False, "lengths": torch.tensor([3, 2])}
    tree = DependencyTree(arcs, labels, projective=projective, **options)
    assert isinstance(tree, kind)
    assert torch.equal(tree.marginals(), kind(arcs, labels, **options).marginals())
