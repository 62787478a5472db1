"""Poolings compared to plain loops over the real positions, exact with padding."""

from __future__ import annotations

from collections.abc import Callable

import jaxtyping
import numpy as np
import pytest
import torch
from torch import Tensor

from catena.attention.masks import attention_mask, padding_mask
from catena.encoders.build import build_encoder, build_pooling
from catena.encoders.config import PoolingConfig, RecurrentConfig
from catena.encoders.pooling import AttentionPooling, EndsPooling, Pooling
from catena.encoders.text_convolution import TextConvolution
from catena.errors import ShapeError
from tests.oracle.attention import softmax
from tests.oracle.convolution import k_largest

LENGTHS = torch.tensor([4, 7, 1, 6])
WANTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "last": lambda h: h[-1],
    "first_last": lambda h: np.concatenate((h[0], h[-1])),
    "ends": lambda h: np.concatenate((h[-1, :3], h[0, 3:])),
    "max": lambda h: h.max(axis=0),
    "min": lambda h: h.min(axis=0),
    "mean": lambda h: np.array([sum(column) / len(column) for column in h.T]),
    "k_max": lambda h: np.array([k_largest(column, 3) for column in h.T]).T.ravel(),
}
KINDS = [*WANTED, "attention"]


def build(kind: str) -> Pooling:
    return build_pooling(PoolingConfig(kind=kind, k=3, d_attention=5), 6).double()


def batch(t: int = 7) -> Tensor:
    return torch.randn(4, t, 6, dtype=torch.float64)


@pytest.mark.parametrize("kind", list(WANTED))
def test_pooling_equals_plain_loops(kind: str) -> None:
    pooling, states = build(kind), batch()
    pooled = pooling(states, LENGTHS)
    assert pooled.shape == (4, pooling.d_out)
    for row, h, n in zip(pooled, states, LENGTHS.tolist(), strict=True):
        np.testing.assert_allclose(row.numpy(), WANTED[kind](h[:n].numpy()), atol=1e-14)


def test_attention_pooling_equals_plain_loops() -> None:
    pooling = AttentionPooling(6, 5).double()
    states = batch()
    pooled = pooling(states, LENGTHS).detach().numpy()
    w, b = pooling.keys.weight.detach().numpy(), pooling.keys.bias.detach().numpy()
    v = pooling.score.weight[0].detach().numpy()
    for row, h, n in zip(pooled, states.numpy(), LENGTHS.tolist(), strict=True):
        weights = softmax([float(v @ np.tanh(w @ x + b)) for x in h[:n]], [True] * n)
        wanted = sum(weight * x for weight, x in zip(weights, h[:n], strict=True))
        np.testing.assert_allclose(row, wanted, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [1e6, -1e6, float("nan")])
def test_pooling_ignores_padding_in_values_and_gradients(kind: str, value: float) -> None:
    pooling, states = build(kind), batch()
    padded = torch.arange(9) >= LENGTHS[:, None]
    other = torch.cat((states, batch(2)), dim=1).masked_fill(padded[..., None], value).requires_grad_()
    pooled = pooling(other, LENGTHS)
    torch.testing.assert_close(pooled, pooling(states, LENGTHS), atol=1e-12, rtol=0)
    pooled.square().sum().backward()
    assert other.grad is not None
    assert other.grad.isfinite().all()
    assert (other.grad[padded] == 0).all()
    for i, n in enumerate(LENGTHS.tolist()):
        alone = pooling(states[i : i + 1, :n], LENGTHS[i : i + 1])
        torch.testing.assert_close(pooled[i : i + 1], alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_pooling_of_empty_sequence_is_zero_with_finite_gradients(kind: str) -> None:
    pooling, states = build(kind), batch().requires_grad_()
    pooled = pooling(states, torch.tensor([4, 0, 1, 0], dtype=torch.int32))
    assert (pooled[[1, 3]] == 0).all()
    assert (pooled[0] != 0).any()
    pooled.square().sum().backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()
    assert (states.grad[[1, 3]] == 0).all()
    assert torch.equal(pooling(states[:, :0], LENGTHS * 0), torch.zeros(4, pooling.d_out).double())


def test_ends_pooling_takes_the_final_states_of_both_directions() -> None:
    encoder = build_encoder(RecurrentConfig(cell="gru", d=4, n_layers=2, connections="skip"), 3).double()
    x, lengths = torch.randn(2, 5, 3, dtype=torch.float64), torch.tensor([5, 3])
    ends = EndsPooling(encoder.d_out)(encoder(x, lengths), lengths)
    states = encoder(x, lengths)
    half = encoder.d_out // 2
    for i, n in enumerate((5, 3)):
        torch.testing.assert_close(ends[i], torch.cat((states[i, n - 1, :half], states[i, 0, half:])))
    changed = x.clone()
    changed[1, 2] += 1.0  # the backward direction has read the last word before it ends at the first
    moved = EndsPooling(encoder.d_out)(encoder(changed, lengths), lengths)[1] != ends[1]
    assert moved.all()


def test_ends_pooling_of_odd_size_raises() -> None:
    with pytest.raises(ShapeError, match=r"two directions, got 5. Use a bidirectional"):
        EndsPooling(5)


def test_k_max_pooling_keeps_the_order_of_the_text() -> None:
    pooling = build_pooling(PoolingConfig(kind="k_max", k=3), 1)
    column = torch.tensor([[5.0, -1.0, 2.0, 9.0, 3.0]])[..., None]
    assert pooling(column, torch.tensor([5])).tolist() == [[5.0, 9.0, 3.0]]
    assert pooling(column, torch.tensor([2])).tolist() == [[5.0, -1.0, 0.0]]
    assert pooling(column[:, :2], torch.tensor([2])).tolist() == [[5.0, -1.0, 0.0]]


def test_k_max_pooling_of_ties_keeps_the_earliest() -> None:
    pooling = build_pooling(PoolingConfig(kind="k_max", k=3), 1)
    for t in range(9, 60):
        column = torch.zeros(1, t, 1)
        column[0, [1, 7]] = torch.tensor([[2.0], [1.0]])
        assert pooling(column, torch.tensor([9])).tolist() == [[0.0, 2.0, 1.0]]


def test_pooling_states_of_wrong_size_raise() -> None:
    with pytest.raises(ShapeError, match=r"the input of the pooling must have size .* on axis 'd'.*, got 5"):
        build("max")(torch.zeros(2, 3, 5), torch.tensor([3, 3]))


POOLINGS = [*KINDS, "convolution"]


def pool(kind: str, t: int, lengths: Tensor) -> Tensor:
    layer = TextConvolution(6, [2], 3) if kind == "convolution" else build(kind).float()
    found: Tensor = layer(torch.zeros(2, t, 6), lengths)
    return found


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("lengths", [[9, 1], [-1, 1]])
def test_lengths_out_of_range_raise(name: str, lengths: list[int]) -> None:
    with pytest.raises(ShapeError, match=f"lengths must be from 0 to 3.* got {lengths[0]}"):
        pool(name, 3, torch.tensor(lengths))
    with pytest.raises(ShapeError, match="lengths must be from 0 to 0"):
        pool(name, 0, torch.tensor([1, 0]))


@pytest.mark.parametrize("name", POOLINGS)
def test_lengths_of_another_number_or_type_raise(name: str) -> None:
    jaxtyping.config.update("jaxtyping_disable", True)  # the checks of annotations would reject them first
    try:
        with pytest.raises(ShapeError, match="lengths must have size 2 on axis 'b' of 'b', got 1"):
            pool(name, 3, torch.tensor([1]))
        with pytest.raises(ShapeError, match="lengths must have an integer dtype"):
            pool(name, 3, torch.tensor([1.5, 1.0]))
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_masks_of_lengths_out_of_range_raise() -> None:
    for lengths in ([4, 1], [-1, 1]):
        with pytest.raises(ShapeError, match="lengths must be from 0 to 3"):
            padding_mask(torch.tensor(lengths), 3)
        with pytest.raises(ShapeError, match="lengths must be from 0 to 3"):
            attention_mask(torch.tensor(lengths), 3, causal=True)
