"""Common helpers of structured distributions."""

from __future__ import annotations

import pytest
import torch

from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.paths import PathDistribution
from catena.structure.backend import use_backend
from catena.structure.chain import LinearChain
from catena.structure.checks import broadcasts_to_batch
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.tensors import uniform_numbers


@pytest.mark.parametrize(
    ("shape", "own", "fits"),
    [
        ((2, 3, 4), 1, True), ((4,), 1, True), ((1, 3, 4), 1, True), ((3, 4), 1, True), ((1, 4), 1, True),
        ((2, 3, 1), 1, False), ((2, 3, 1), 0, True), ((2, 1, 4), 2, False), ((3, 3, 4), 1, False), ((), 1, False),
        ((5, 2, 3, 4), 1, False), ((2, 4), 1, False), ((), 0, True),
    ],
)  # fmt: skip
def test_broadcasts_to_batch_checks_own_axes_exactly(shape: tuple[int, ...], own: int, fits: bool) -> None:
    assert broadcasts_to_batch(shape, (2, 3, 4), own) is fits


def test_uniform_numbers_use_the_generator() -> None:
    first, again = (uniform_numbers(3, 2, generator=torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(first, again)
    assert first.dtype == torch.float64
    assert not torch.equal(uniform_numbers(3, 2, generator=None), uniform_numbers(3, 2, generator=None))


def test_topk_of_few_structures_takes_one_backward_pass_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    own = LinearChain.read_structure
    monkeypatch.setattr(LinearChain, "read_structure", lambda self, gradients: calls.append(1) or own(self, gradients))
    chain = LinearChain(torch.tensor([[[0.0, 1.0, -torch.inf]], [[-torch.inf, 2.0, -torch.inf]]]))
    with use_backend("reference"):
        scores, members = chain.topk(50)
    assert len(calls) == 2
    assert members[:3, :, 0].tolist() == [[1, 1], [0, -1], [-1, -1]]
    assert scores[:2].tolist() == [[1.0, 2.0], [0.0, -torch.inf]]
    assert bool((members[2:] == -1).all())


def test_repr_has_shapes_and_no_scores() -> None:
    chain = LinearChain(torch.zeros(2, 500, 9), torch.zeros(9, 9), lengths=torch.tensor([500, 3]))
    expected = "LinearChain(emissions=float32[2, 500, 9], transitions=float32[9, 9], lengths=int64[2])"
    assert repr(chain) == str(chain) == expected
    machine = from_arcs([(0, 1, 1, 1, -1.0)], [0], [1])
    shown = repr(PathDistribution.of(machine))
    assert shown == "PathDistribution(machine=Automaton, weight=float64[1], initial=float64[2], final=float64[2])"
    assert repr(NonProjectiveTree(torch.zeros(4, 4))).startswith("NonProjectiveTree(arcs=float32[4, 4], ")
