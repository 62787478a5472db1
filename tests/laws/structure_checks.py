"""Checks that each distribution runs once on its own example: every semiring, and the empty structure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from catena.structure.backend import use_backend
from catena.structure.semirings import (
    BooleanSemiring,
    CountingSemiring,
    EntropySemiring,
    ExpectationSemiring,
    KBestSemiring,
    LogSemiring,
    ProductSemiring,
    RealSemiring,
    SecondOrderExpectationSemiring,
    TropicalSemiring,
)


def agrees_in_every_semiring(structure: Any, value: Any, n_members: list[int]) -> None:
    """Check that the reference program in each semiring agrees with the derived queries.

    Args:
        structure: a distribution with one batch axis and at least three possible structures in every row.
        value: a distribution of the same class, whose finite scores are the values of the parts.
        n_members: the number of structures in each row.
    """
    with use_backend("reference"):
        log_z, mean = structure.log_partition(), structure.expectation(value)
        assert torch.allclose(structure.total(RealSemiring()).log(), log_z)
        assert torch.allclose(-structure.total(TropicalSemiring()), structure.max())
        assert structure.total(CountingSemiring()).tolist() == n_members
        assert structure.total(BooleanSemiring()).all()
        assert torch.allclose(structure.total(EntropySemiring()), torch.stack((log_z, structure.entropy())))
        assert torch.allclose(structure.total(ExpectationSemiring(), value), torch.stack((log_z, mean)))
        moments = [mean, structure.expectation(structure), structure.covariance(value, structure)]
        assert torch.allclose(
            structure.total(SecondOrderExpectationSemiring(), value, structure), torch.stack((log_z, *moments))
        )
        both = structure.total(ProductSemiring(LogSemiring(), KBestSemiring(3)))
        assert torch.allclose(both, torch.cat((log_z[None], structure.topk(3).scores)))


def first_row_is_empty(structure: Any) -> None:
    """Check that row 0 has a single structure, without parts and with score 0."""
    assert structure.log_partition()[0] == 0
    assert structure.max()[0] == 0
    assert structure.entropy()[0] == 0
    assert (structure.argmax()[0] == -1).all()
    assert (structure.marginals()[0] == 0).all()
    assert structure.topk(2).scores[:, 0].tolist() == [0, -math.inf]
    assert (structure.sample(2)[:, 0] == -1).all()


@contextmanager
def kept_for_backward() -> Iterator[dict[int, int]]:
    """The bytes of every storage that autograd saves inside the block, by address."""
    sizes: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        yield sizes


def numbers_of(tensors: Any, ranks: Any, row: int) -> list[Any]:
    """Scores of one row as lists for the oracle. Shared tensors apply to all rows, and None stays None."""
    return [
        None if x is None else (x[row] if x.dim() > rank else x).double().tolist()
        for x, rank in zip(tensors, ranks, strict=True)
    ]
