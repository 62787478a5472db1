"""A step of each loss is lr times autograd's gradient; losses add up in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from catena.kernels.word2vec.cpu_learn import learn_hierarchical, learn_negative, learn_shared, learn_softmax
from catena.kernels.word2vec.cpu_sampling import huffman_paths
from tests.oracle import word2vec as oracle

V, D, LR = 7, 19, np.float32(0.5)
BAGS = [(2,), (0, 3, 6), (4, 4, 1, 5, 0), (1, 2)]
NOISE = [(1, 2, 3), (5, 5, 6), (0,), (3, 4, 6, 1, 2, 0, 4)]
EMPTY = np.zeros(0, np.float32)


def matrices(rows: int = V) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(0, 0.4, (V, D)).astype(np.float32), rng.normal(0, 0.4, (rows, D)).astype(np.float32)


def csr(bags: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    first = np.cumsum([0, *map(len, bags)]).astype(np.int64)
    return first, np.array([row for bag in bags for row in bag], np.int32)


def check(before: np.ndarray, after: np.ndarray, gradient: torch.Tensor) -> None:
    np.testing.assert_allclose(before - after, float(LR) * gradient.numpy(), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("bag", BAGS)
@pytest.mark.parametrize("noise", NOISE)
def test_negative_sampling_step_is_the_gradient(bag: tuple[int, ...], noise: tuple[int, ...], mean: bool) -> None:
    inputs, outputs = matrices()
    wanted, (d_inputs, d_outputs) = oracle.gradients(
        lambda a, b: oracle.negative(a, b, bag, 4, noise, mean), *map(torch.from_numpy, (inputs, outputs))
    )
    new_inputs, new_outputs, loss = inputs.copy(), outputs.copy(), np.zeros(2)
    learn_negative(
        *csr([bag]), np.array([4], np.int32), 1, np.array(noise, np.int32), len(noise), new_inputs, new_outputs, mean,
        False, False, EMPTY, EMPTY, 0, True, LR, loss,
    )  # fmt: skip
    check(inputs, new_inputs, d_inputs)
    check(outputs, new_outputs, d_outputs)
    assert loss.tolist() == [pytest.approx(wanted, rel=1e-6), 1.0]


@pytest.mark.parametrize("noise", NOISE)
def test_noise_contrastive_step_is_the_gradient(noise: tuple[int, ...]) -> None:
    inputs, outputs = matrices()
    q = np.arange(1, V + 1) / 28
    bias = np.linspace(-1, 0.5, V).astype(np.float32)
    shift = -np.log(len(noise) * q).astype(np.float32)
    wanted, gradients = oracle.gradients(
        lambda a, b, c: oracle.contrastive(a, b, c, (0, 3), 2, noise, q.tolist()),
        *map(torch.from_numpy, (inputs, outputs, bias)),
    )
    new_inputs, new_outputs, new_bias, loss = inputs.copy(), outputs.copy(), bias.copy(), np.zeros(2)
    learn_negative(
        *csr([(0, 3)]), np.array([2], np.int32), 1, np.array(noise, np.int32), len(noise), new_inputs, new_outputs,
        True, False, False, new_bias, shift, 0, True, LR, loss,
    )  # fmt: skip
    for before, after, gradient in zip(
        (inputs, outputs, bias), (new_inputs, new_outputs, new_bias), gradients, strict=True
    ):
        check(before, after, gradient)
    assert loss[0] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("bag", BAGS)
@pytest.mark.parametrize("noise", NOISE)
def test_step_with_shared_noise_is_the_gradient_of_the_product(bag: tuple[int, ...], noise: tuple[int, ...]) -> None:
    inputs, outputs = matrices()
    wanted, (d_inputs, d_outputs) = oracle.gradients(
        lambda a, b: oracle.product(a, b, bag, 4, noise), *map(torch.from_numpy, (inputs, outputs))
    )
    new_inputs, new_outputs, loss = inputs.copy(), outputs.copy(), np.zeros(2)
    learn_shared(
        *csr([bag]), np.array([4], np.int32), 1, np.array(noise, np.int32), len(noise), new_inputs, new_outputs, False,
        LR, loss,
    )  # fmt: skip
    check(inputs, new_inputs, d_inputs)
    check(outputs, new_outputs, d_outputs)
    assert loss.tolist() == [pytest.approx(wanted, rel=1e-6), len(bag)]


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("bag", BAGS)
@pytest.mark.parametrize("word", range(V))
def test_hierarchical_softmax_step_is_the_gradient(bag: tuple[int, ...], word: int, mean: bool) -> None:
    inputs, outputs = matrices(V - 1)
    first, nodes, codes = tree([40, 20, 9, 9, 5, 2, 1])
    steps = range(first[word], first[word + 1])
    path = [(int(nodes[i]), int(codes[i])) for i in steps]
    wanted, (d_inputs, d_outputs) = oracle.gradients(
        lambda a, b: oracle.hierarchical(a, b, bag, path, mean), *map(torch.from_numpy, (inputs, outputs))
    )
    new_inputs, new_outputs, loss = inputs.copy(), outputs.copy(), np.zeros(2)
    learn_hierarchical(
        *csr([bag]), np.array([word], np.int32), 1, first, nodes, codes, new_inputs, new_outputs, mean, False, 0, True,
        LR, loss,
    )  # fmt: skip
    check(inputs, new_inputs, d_inputs)
    check(outputs, new_outputs, d_outputs)
    assert loss.tolist() == [pytest.approx(wanted, rel=1e-6), 1.0]


def tree(counts: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first = np.zeros(len(counts) + 1, np.int64)
    given = np.array(counts, np.int64)
    n = huffman_paths(given, first, np.zeros(0, np.int32), np.zeros(0, np.uint8))
    nodes, codes = np.zeros(n, np.int32), np.zeros(n, np.uint8)
    huffman_paths(given, first, nodes, codes)
    return first, nodes, codes


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("bag", BAGS)
def test_full_softmax_step_is_the_gradient(bag: tuple[int, ...], mean: bool) -> None:
    inputs, outputs = matrices()
    wanted, (d_inputs, d_outputs) = oracle.gradients(
        lambda a, b: oracle.softmax(a, b, bag, 5, mean), *map(torch.from_numpy, (inputs, outputs))
    )
    new_inputs, new_outputs, loss = inputs.copy(), outputs.copy(), np.zeros(2)
    learn_softmax(
        *csr([bag]), np.array([5], np.int32), 1, new_inputs, new_outputs, mean, False, 0, True, LR, loss
    )  # fmt: skip
    check(inputs, new_inputs, d_inputs)
    check(outputs, new_outputs, d_outputs)
    assert loss.tolist() == [pytest.approx(wanted, rel=1e-6), 1.0]


def test_with_the_whole_error_each_row_of_a_mean_takes_the_gradient_of_the_mean() -> None:
    inputs, outputs = matrices()
    steps = []
    for whole in (False, True):
        new_inputs = inputs.copy()
        learn_negative(
            *csr([(0, 3, 6)]), np.array([4], np.int32), 1, np.array([1, 2], np.int32), 2, new_inputs, outputs.copy(),
            True, whole, False, EMPTY, EMPTY, 0, True, LR, np.zeros(2),
        )  # fmt: skip
        steps.append(new_inputs - inputs)
    np.testing.assert_allclose(steps[1], 3 * steps[0], rtol=1e-3, atol=1e-6)


def test_frozen_vectors_stay_and_others_are_trained() -> None:
    inputs, outputs = matrices()
    new_inputs, new_outputs = inputs.copy(), outputs.copy()
    learn_negative(
        *csr([(0, 6)]), np.array([4], np.int32), 1, np.array([1, 2], np.int32), 2, new_inputs, new_outputs, True, False,
        False, EMPTY, EMPTY, 6, False, LR, np.zeros(2),
    )  # fmt: skip
    assert (new_outputs == outputs).all()
    assert (new_inputs[:6] == inputs[:6]).all()
    assert (new_inputs[6] != inputs[6]).all()


@pytest.mark.parametrize("shared", [True, False])
def test_unit_rows_stay_on_the_sphere(shared: bool) -> None:
    inputs, outputs = matrices()
    for matrix in (inputs, outputs):
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    before = inputs.copy()
    given = (*csr([(0, 3)]), np.array([4], np.int32), 1, np.array([1, 2], np.int32), 2, inputs, outputs)
    if shared:
        learn_shared(*given, True, LR, np.zeros(2))
    else:
        learn_negative(*given, True, False, True, EMPTY, EMPTY, 0, True, LR, np.zeros(2))
    assert np.linalg.norm(inputs, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert np.linalg.norm(outputs, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert (before[[0, 3]] != inputs[[0, 3]]).all()


def test_a_loss_far_beyond_the_smallest_number_is_added_up_and_empty_bags_are_not_examples() -> None:
    inputs, outputs = np.full((1, D), 2.0, np.float32), np.full((2, D), -1.0, np.float32)
    n = 60
    loss, bags = np.zeros(2), [(0,)] * n + [()]
    learn_negative(
        *csr(bags), np.zeros(n + 1, np.int32), n + 1, np.ones(n + 1, np.int32), 1, inputs, outputs, True, False, False,
        EMPTY, EMPTY, 5, False, LR, loss,
    )  # fmt: skip
    assert loss.tolist() == [pytest.approx(38.0 * n, rel=1e-5), n]


def test_scores_of_any_size_give_finite_steps() -> None:
    inputs, outputs = np.full((1, D), 1e4, np.float32), np.full((2, D), 1e4, np.float32)
    loss = np.zeros(2)
    learn_negative(
        *csr([(0,)]), np.zeros(1, np.int32), 1, np.ones(1, np.int32), 1, inputs, outputs, True, False, False, EMPTY,
        EMPTY, 0, True, LR, loss,
    )  # fmt: skip
    assert np.isfinite(inputs).all()
    assert np.isfinite(outputs).all()
    assert np.isfinite(loss).all()
