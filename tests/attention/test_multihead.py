"""Multi-head attention compared to plain loops and to torch's module with copied weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from catena.attention.multihead import MultiHeadAttention
from catena.embeddings.positions import RotaryPositions
from catena.errors import ShapeError
from tests.oracle import attention as oracle


def with_random_biases(attention: MultiHeadAttention) -> MultiHeadAttention:
    with torch.no_grad():
        for layer in (attention.query, attention.keys, attention.values, attention.output):
            layer.bias.normal_()
    return attention


def mask_with_a_blind_row() -> Tensor:
    mask = torch.rand(2, 3, 5) < 0.6
    mask[..., 0] = True
    mask[0, 1] = False
    return mask


def test_multi_head_attention_equals_plain_loops() -> None:
    attention = with_random_biases(MultiHeadAttention(6, 3, d_keys=4)).double()
    query, keys = torch.randn(2, 3, 6, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    mask = mask_with_a_blind_row()
    y = attention(query, keys, mask).detach().numpy()
    layers = dict(zip("qkvo", (attention.query, attention.keys, attention.values, attention.output), strict=True))
    weights = {name: layer.weight.detach().numpy() for name, layer in layers.items()}
    biases = {name: layer.bias.detach().numpy() for name, layer in layers.items()}
    for b in range(2):
        wanted = oracle.multihead(query[b].numpy(), keys[b].numpy(), mask[b].numpy(), 3, weights, biases)
        np.testing.assert_allclose(y[b], wanted, atol=1e-12)


def test_multi_head_attention_equals_torch_in_values_weights_and_gradients() -> None:
    ours = with_random_biases(MultiHeadAttention(8, 2))
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat((ours.query.weight, ours.keys.weight, ours.values.weight)))
        theirs.in_proj_bias.copy_(torch.cat((ours.query.bias, ours.keys.bias, ours.values.bias)))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    query, keys = torch.randn(3, 4, 8), torch.randn(3, 6, 8)
    real = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    expected, weights = theirs(query, keys, keys, key_padding_mask=~real, average_attn_weights=False)
    mask = real[:, None]
    y = ours(query, keys, mask)
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-4)
    found = ours.with_weights(query, keys, mask)
    torch.testing.assert_close(found.context, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.weights, weights, atol=1e-6, rtol=1e-4)
    y.square().sum().backward()
    expected.square().sum().backward()
    gradients = torch.cat((ours.query.weight.grad, ours.keys.weight.grad, ours.values.weight.grad))
    torch.testing.assert_close(gradients, theirs.in_proj_weight.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.output.weight.grad, theirs.out_proj.weight.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rotary", [False, True])
def test_with_weights_equals_forward(rotary: bool) -> None:
    rotate = RotaryPositions(4) if rotary else None
    attention = with_random_biases(MultiHeadAttention(8, 2, rotate=rotate)).double()
    query, keys = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 5, 8, dtype=torch.float64)
    for mask in (None, mask_with_a_blind_row()):
        context, weights = attention.with_weights(query, keys, mask)
        torch.testing.assert_close(attention(query, keys, mask), context, atol=1e-12, rtol=0)
        assert weights.shape == (2, 2, 3, 5)


def test_rotary_attention_rotates_queries_and_keys() -> None:
    attention = MultiHeadAttention(8, 2, rotate=RotaryPositions(4)).double()
    plain = MultiHeadAttention(8, 2).double()
    plain.load_state_dict(attention.state_dict())
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    order = torch.tensor([4, 2, 0, 1, 3])
    assert torch.allclose(plain(x[:, order], x[:, order]), plain(x, x)[:, order])
    assert not torch.allclose(attention(x[:, order], x[:, order]), attention(x, x)[:, order])


def test_query_with_empty_mask_gets_the_bias_and_finite_gradients() -> None:
    attention = with_random_biases(MultiHeadAttention(8, 2))
    x = torch.randn(2, 4, 8, requires_grad=True)
    mask = torch.tensor([[[True] * 4], [[False] * 4]])
    y = attention(x, x, mask)
    torch.testing.assert_close(y[1], attention.output.bias.expand(4, 8))
    y.square().sum().backward()
    assert x.grad is not None
    assert (x.grad[1] == 0).all()
    assert x.grad.isfinite().all()


def test_attention_dropout_applies_only_in_training() -> None:
    attention = MultiHeadAttention(8, 2, dropout=0.5)
    x = torch.randn(1, 4, 8)
    assert not torch.equal(attention(x, x), attention(x, x))
    attention.eval()
    assert torch.equal(attention(x, x), attention(x, x))


def test_multi_head_attention_indivisible_d_raises() -> None:
    with pytest.raises(ShapeError, match="d must be divisible by n_heads = 3, got 10"):
        MultiHeadAttention(10, 3)


def test_rotary_attention_depends_only_on_position_differences() -> None:
    attention = MultiHeadAttention(8, 2, rotate=RotaryPositions(4)).double()
    words = torch.randn(1, 3, 8, dtype=torch.float64)
    twice = torch.cat((words, words), dim=1)
    half = torch.arange(6) < 3
    own_half = half[:, None] == half
    y = attention(twice, twice, own_half[None])
    torch.testing.assert_close(y[:, 3:], y[:, :3], atol=1e-12, rtol=0)


def test_grouped_heads_equal_heads_with_repeated_weights() -> None:
    grouped = MultiHeadAttention(8, 4, n_kv_heads=2).double().eval()
    full = MultiHeadAttention(8, 4).double().eval()
    with torch.no_grad():
        for name in ("query", "output"):
            getattr(full, name).load_state_dict(getattr(grouped, name).state_dict())
        for name in ("keys", "values"):
            for part in ("weight", "bias"):
                heads = getattr(getattr(grouped, name), part).unflatten(0, (2, 2))  # head, feature
                getattr(getattr(full, name), part).copy_(heads[[0, 0, 1, 1]].flatten(0, 1))
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    torch.testing.assert_close(grouped(x, x), full(x, x))
    torch.testing.assert_close(grouped.causal(x), full.causal(x))
    torch.testing.assert_close(grouped.with_weights(x, x), full.with_weights(x, x))


def test_multi_head_attention_invalid_n_kv_heads_raises() -> None:
    with pytest.raises(ShapeError, match="n_heads must be divisible by n_kv_heads = 3, got 4"):
        MultiHeadAttention(8, 4, n_kv_heads=3)


def test_key_bias_is_trained_only_with_rotary_positions() -> None:
    """Without rotation it has no effect, and its gradient would be rounding noise."""
    plain = MultiHeadAttention(8, 2)
    x = torch.randn(2, 5, 8)
    before = plain(x, x)
    plain.keys.bias.data += torch.randn(8)
    torch.testing.assert_close(plain(x, x), before, rtol=0.0, atol=1e-5)
    assert not plain.keys.bias.requires_grad
    assert MultiHeadAttention(8, 2, rotate=RotaryPositions(4)).keys.bias.requires_grad
