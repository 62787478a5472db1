"""Matrices of 8 bits: the product is the one in integers, its error has a bound, and floats come back near."""

from __future__ import annotations

import copy
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from catena.engine.int8 import quantize_int8_
from catena.kernels.linear import cpu_int8 as int8_products
from catena.kernels.linear.cpu import PANEL_COLUMNS
from catena.kernels.linear.cpu_int8 import packed8, quantize, quantize_rows
from catena.kernels.linear.int8_weight import LONGEST, Int8Matrix, Int8Weight, pack_panels


def reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The same in plain numpy: integers, their sum, the two scales."""
    most = np.abs(x).max(axis=1, keepdims=True, initial=0)
    q = np.rint(x * np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)).astype(np.int64)
    scale = np.abs(weight).max(axis=1, initial=0) / np.float32(127)
    w = np.rint(weight / np.where(scale > 0, scale, np.float32(1))[:, None]).astype(np.int64)
    return (q @ w.T).astype(np.float32) * (most / np.float32(127) * scale) + bias


def drawn(n: int, d_in: int, d_out: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    shapes = (n, d_in), (d_out, d_in), (d_out,)
    x, weight, bias = (draw.normal(size=shape).astype(np.float32) for shape in shapes)
    return x, weight, bias


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40), st.integers(1, 70), st.integers(1, 110), st.integers(0, 2**31))
def test_result_equals_the_reference_for_every_size(n: int, d_in: int, d_out: int, seed: int) -> None:
    x, weight, bias = drawn(n, d_in, d_out, seed)
    found = Int8Matrix.of(torch.from_numpy(weight)).linear(torch.from_numpy(x), torch.from_numpy(bias))
    np.testing.assert_allclose(found.numpy(), reference(x, weight, bias), rtol=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 9), st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**31))
def test_error_is_within_the_bound(n: int, d_in: int, d_out: int, seed: int) -> None:
    x, weight, _ = (array.astype(np.float64) for array in drawn(n, d_in, d_out, seed))
    of_x = np.abs(x).max(axis=1)[:, None] / 254
    of_weight = np.abs(weight).max(axis=1) / 254
    bound = np.abs(x).sum(axis=1)[:, None] * of_weight + np.abs(weight).sum(axis=1) * of_x + d_in * of_x * of_weight
    matrix = Int8Matrix.of(torch.from_numpy(weight))
    found = matrix.linear(torch.from_numpy(x).float()).double().numpy()
    assert (np.abs(found - x @ weight.T) <= bound * (1 + 1e-5)).all()
    assert (np.abs(matrix.floats().double().numpy() - weight) <= of_weight[:, None] * (1 + 1e-5)).all()


def test_largest_value_of_a_row_is_127_and_zeros_stay_zero() -> None:
    numbers, scales = quantize_rows(np.array([[0.5, -2.0, 1.0], [0.0, 0.0, 0.0]]))
    assert numbers.tolist() == [[32, -127, 64], [0, 0, 0]]
    assert scales.tolist() == pytest.approx([2 / 127, 0])


def test_smallest_floats_keep_their_sign() -> None:
    least = np.float32(1.4e-45)  # a scale is an integer multiple of it
    numbers, scales = quantize_rows(np.array([[190, -190, 0]], np.float32) * least)
    assert numbers.tolist() == [[127, -127, 0]]
    assert scales.tolist() == [least]


def test_sums_of_the_longest_rows_fit_and_longer_ones_stay_floats() -> None:
    d = LONGEST
    assert Int8Matrix.of(torch.ones(1, d)).linear(-torch.ones(1, d)).item() == pytest.approx(-d)
    model = torch.nn.Sequential(torch.nn.Linear(d, 1), torch.nn.Linear(d + 1, 1))
    quantize_int8_(model)
    assert [isinstance(layer.weight, Int8Weight) for layer in model] == [True, False]


def test_vector_of_zeros_gives_the_bias_and_nan_reaches_the_result() -> None:
    x = torch.tensor([[0.0, 0.0], [1.0, float("inf")], [float("nan"), 1.0], [1.0, 2.0]])
    found = Int8Matrix.of(torch.tensor([[1.0, 1.0]])).linear(x, torch.tensor([0.5]))[:, 0].tolist()
    assert found[0] == 0.5
    assert np.isnan(found[1:3]).all()
    assert found[3] == pytest.approx(3.5, abs=0.01)


def has(feature: str) -> bool:
    return bool(llvmlite.binding.get_host_cpu_features().get(feature))


@pytest.mark.parametrize(
    "how",
    [
        "plain",
        pytest.param("vnni256", marks=pytest.mark.skipif(not has("avx512vnni"), reason="needs AVX-512 VNNI")),
        pytest.param("vnni512", marks=pytest.mark.skipif(not has("avx512vnni"), reason="needs AVX-512 VNNI")),
    ],
)
def test_result_does_not_depend_on_the_processor(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_products, "simd_variant", lambda: how)
    multiply = numba.njit(int8_products._multiply, error_model="numpy")
    x, weight, bias = drawn(15, 37, 2 * PANEL_COLUMNS)
    x[0], weight[0] = 3.0, -5.0  # the largest numbers everywhere: 255 and -127 with the shift
    panels = packed8(*quantize_rows(weight))
    q, scales = np.empty((15, 40), np.uint8), np.empty(15, np.float32)
    quantize(x, q, scales)
    y = np.empty((15, 2 * PANEL_COLUMNS), np.float32)
    multiply(y, q, panels, scales, bias, 0, 2)
    np.testing.assert_allclose(y, reference(x, weight, bias), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_split_the_columns(threads: int) -> None:
    x, weight, bias = drawn(40, 130, 2000)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = Int8Matrix.of(torch.from_numpy(weight)).linear(torch.from_numpy(x), torch.from_numpy(bias))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(found.numpy(), reference(x, weight, bias), rtol=1e-6, atol=1e-5)


# --- in the place of a float matrix -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weight() -> Int8Weight:
    return Int8Weight(Int8Matrix.of(torch.from_numpy(drawn(1, 10, 7)[1])))


X = torch.from_numpy(drawn(5, 10, 7)[0])
FIRST = torch.from_numpy(drawn(5, 7, 1)[0])
SAME = {
    "linear": (lambda w: F.linear(X, w, FIRST[0]), lambda m: m.linear(X, FIRST[0])),
    "of three axes": (lambda w: F.linear(X[None], w), lambda m: m.linear(X)[None]),
    "transposed": (lambda w: X @ w.t(), lambda m: m.linear(X)),
    "sum with a product": (lambda w: torch.addmm(FIRST, X, w.T), lambda m: m.linear(X) + FIRST),
    "into a place": (lambda w: torch.addmm(FIRST[0], X, w.t(), out=torch.empty(5, 7)), lambda m: m.linear(X, FIRST[0])),
    "columns": (lambda w: F.linear(X[:, 3:9], w[:, 3:9]), lambda m: m.columns(3, 9).linear(X[:, 3:9])),
    "joined": (lambda w: F.linear(X, torch.cat([w, w])), lambda m: m.linear(X).repeat(1, 2)),
    "rows": (lambda w: F.embedding(torch.tensor([[6, 0]]), w), lambda m: m.floats()[[6, 0]][None]),
    "rows by an index": (lambda w: w[torch.tensor([2, 2])], lambda m: m.floats()[[2, 2]]),
    "rows from the end": (lambda w: w[torch.tensor([-1, 0, -7])], lambda m: m.floats()[[6, 0, 0]]),
    "by the name of a dtype": (lambda w: w.to(dtype=torch.float64), lambda m: m.floats().double()),
    "anything else": (lambda w: (w * 2).sum(dim=1), lambda m: (m.floats() * 2).sum(dim=1)),
    "turned, anything else": (lambda w: w.t() + 1, lambda m: m.floats().t() + 1),
    "not a map": (lambda w: FIRST @ w, lambda m: FIRST @ m.floats()),
    "in double precision": (lambda w: F.linear(X.double(), w.double()), lambda m: X.double() @ m.floats().double().t()),
}


@pytest.mark.parametrize("case", SAME)
def test_operations_equal_those_of_a_float_matrix(case: str, weight: Int8Weight) -> None:
    done, wanted = SAME[case]
    torch.testing.assert_close(done(weight), wanted(weight.matrix), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("id_", [-1, 7, 31, 32])
def test_missing_row_raises(id_: int, weight: Int8Weight) -> None:
    with pytest.raises(IndexError, match="ids must be 0 to 6"):
        F.embedding(torch.tensor([0, id_]), weight)


def test_columns_keep_values_and_scales(weight: Int8Weight) -> None:
    torch.testing.assert_close(weight.matrix.columns(2, 5).floats(), weight.matrix.floats()[:, 2:5])
    assert weight.matrix.columns(2, 5) is weight.matrix.columns(2, 5)


def test_weight_has_the_interface_of_a_matrix(weight: Int8Weight) -> None:
    parameter = torch.nn.Parameter(weight, requires_grad=False)
    assert isinstance(parameter, Int8Weight)
    assert parameter.matrix is weight.matrix
    assert (tuple(parameter.shape), parameter.dtype, parameter.numel()) == ((7, 10), torch.float32, 70)
    assert tuple(parameter.t().shape) == (10, 7)
    assert copy.deepcopy(parameter).matrix is weight.matrix
    assert repr(weight) == "Int8Weight((7, 10))"


def test_weight_cannot_be_changed(weight: Int8Weight) -> None:
    """A change of the float copy, which is dropped, would be lost."""
    for change in (lambda w: w.zero_(), lambda w: w.copy_(torch.ones(7, 10)), lambda w: torch.add(w, 1, out=w)):
        with torch.no_grad(), pytest.raises(TypeError, match="8 bits cannot be changed"):
            change(weight)
    model = torch.nn.Linear(10, 7)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    quantize_int8_(model)
    with pytest.raises(RuntimeError, match="8 bits cannot be changed"):
        model.load_state_dict(state)


def test_panels_have_bytes_only_for_eight_bits(weight: Int8Weight) -> None:
    made: Any = [pack_panels(matrix) for matrix in (weight.t(), weight.floats().t(), weight.floats().t().contiguous())]
    assert [panels.dtype for panels in made] == [np.int8, np.float32, np.float32]
