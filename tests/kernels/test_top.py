from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from catena.kernels.linear.int8_weight import Int8Matrix
from catena.kernels.linear.ops import PackedLinear
from catena.kernels.top_k.ops import largest


@pytest.mark.parametrize(("n", "v", "k"), [(1, 256, 1), (3, 300, 6), (5, 1000, 32), (2, 700, 11), (0, 300, 3)])
def test_best_values_equal_torch_topk(n: int, v: int, k: int) -> None:
    x = torch.randn(n, v, generator=torch.Generator().manual_seed(v))
    if n:
        x[0, ::3] = -torch.inf
        x[-1] = x[-1].sort().values  # every piece has larger ones
    values, places = largest(x, k)
    wanted = x.topk(k, dim=1)
    assert torch.equal(values, wanted.values)
    assert torch.equal(places, wanted.indices)


def test_ties_are_ordered_by_index() -> None:
    x = torch.zeros(1, 400)
    x[0, [300, 70]] = 1.0
    values, places = largest(x, 4)
    assert values.tolist() == [[1.0, 1.0, 0.0, 0.0]]
    assert places.tolist() == [[70, 300, 0, 1]]


def test_rows_of_minus_infinity_have_as_many_results() -> None:
    values, places = largest(torch.full((2, 300), -torch.inf), 3)
    assert (values == -torch.inf).all()
    assert places.tolist() == [[0, 1, 2]] * 2


def test_other_dtypes_use_torch() -> None:
    x = torch.randn(2, 300, dtype=torch.float64)
    assert torch.equal(largest(x, 3)[1], x.topk(3, dim=1).indices)


# --- of products ------------------------------------------------------------------------------------------------------


MATRICES = pytest.mark.parametrize("pack", [Int8Matrix.of, PackedLinear], ids=["int8", "float"])
Pack = Callable[[torch.Tensor], Int8Matrix | PackedLinear]


def drawn(n: int, v: int, d: int = 20) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vectors, weights and biases."""
    random = torch.Generator().manual_seed(n + v)
    x, weight, bias = (torch.randn(*shape, generator=random) for shape in ((n, d), (v, d), (v,)))
    bias[::7] = -torch.inf
    return x, weight, bias


def products(matrix: Int8Matrix | PackedLinear, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The scores whose log-softmax is searched."""
    return matrix(x) if bias is None else matrix(x) + bias


@MATRICES
@pytest.mark.parametrize("v", [256, 257, 300, 640, 1111])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 40])
@torch.no_grad()
def test_top_log_probs_equal_sorted_log_softmax(n: int, v: int, pack: Pack) -> None:
    x, weight, bias = drawn(n, v)
    weight[v - 1] = 3 * x[-1] if n else 0.0  # the last word of the last piece
    matrix = pack(weight)
    for k in (1, 6, 32):
        for some in (None, bias):
            found, places = matrix.top_log_probs(x, some, k)
            wanted = products(matrix, x, some).double().log_softmax(dim=1).topk(k, dim=1)
            torch.testing.assert_close(found.double(), wanted.values, rtol=1e-6, atol=1e-5)
            assert torch.equal(places, wanted.indices)
            if n and some is None:
                assert places[-1, 0] == v - 1


@MATRICES
@torch.no_grad()
def test_top_log_probs_order_ties_by_index_and_put_impossible_words_last(pack: Pack) -> None:
    bias = torch.full((500,), -torch.inf)
    bias[[450, 130, 131, 7]] = torch.tensor([1.0, 1.0, 0.0, 0.0])
    found, places = pack(torch.zeros(500, 8)).top_log_probs(torch.ones(2, 8), bias, 6)
    assert places[:, :4].tolist() == [[130, 450, 7, 131]] * 2
    assert ((places >= 0) & (places < 500)).all()
    assert (found[:, 4:] == -torch.inf).all()
    torch.testing.assert_close(found[0].exp().sum(), torch.tensor(1.0))


@MATRICES
@torch.no_grad()
def test_top_log_probs_of_scores_far_apart_are_finite(pack: Pack) -> None:
    x, weight, _ = drawn(3, 999)
    matrix = pack(1000 * weight)
    found, places = matrix.top_log_probs(x, None, 2)
    assert torch.equal(places, matrix(x).topk(2, dim=1).indices)
    torch.testing.assert_close(found[:, 0], torch.zeros(3))


@MATRICES
@torch.no_grad()
def test_top_log_probs_of_nan_are_nan(pack: Pack) -> None:
    x, weight, bias = drawn(2, 400)
    x[1, 0] = torch.nan
    matrix = pack(weight)
    assert matrix.top_log_probs(x, None, 3)[0].isnan().all(1).tolist() == [False, True]
    bias[300] = torch.nan
    assert matrix.top_log_probs(x, bias, 3)[0].isnan().all()


@MATRICES
@torch.no_grad()
def test_top_log_probs_are_the_same_on_two_threads(pack: Pack) -> None:
    x, weight, bias = drawn(40, 900, d=300)
    matrix, before = pack(weight), torch.get_num_threads()
    one = matrix.top_log_probs(x, bias, 6)
    try:
        torch.set_num_threads(2)
        assert not matrix.can_find_top(3, 6)
        assert matrix.can_find_top(40, 6)
        for n in (3, 40):
            values, places = matrix.top_log_probs(x[:n], bias, 6)
            torch.testing.assert_close(values, one[0][:n])
            assert torch.equal(places, one[1][:n])
    finally:
        torch.set_num_threads(before)
