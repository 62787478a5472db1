from __future__ import annotations

import pytest
import torch

from catena.kernels.top import largest


@pytest.mark.parametrize(("n", "v", "k"), [(1, 256, 1), (3, 300, 6), (5, 1000, 32), (2, 700, 11), (0, 300, 3)])
def test_they_are_those_of_torch(n: int, v: int, k: int) -> None:
    x = torch.randn(n, v, generator=torch.Generator().manual_seed(v))
    if n:
        x[0, ::3] = -torch.inf
        x[-1] = x[-1].sort().values  # every piece has larger ones
    values, places = largest(x, k)
    wanted = x.topk(k, dim=1)
    assert torch.equal(values, wanted.values)
    assert torch.equal(places, wanted.indices)


def test_of_equals_the_first_come_first() -> None:
    x = torch.zeros(1, 400)
    x[0, [300, 70]] = 1.0
    values, places = largest(x, 4)
    assert values.tolist() == [[1.0, 1.0, 0.0, 0.0]]
    assert places.tolist() == [[70, 300, 0, 1]]


def test_rows_with_nothing_possible_have_as_many_places() -> None:
    values, places = largest(torch.full((2, 300), -torch.inf), 3)
    assert (values == -torch.inf).all()
    assert places.tolist() == [[0, 1, 2]] * 2


def test_other_numbers_are_left_to_torch() -> None:
    x = torch.randn(2, 300, dtype=torch.float64)
    assert torch.equal(largest(x, 3)[1], x.topk(3, dim=1).indices)
