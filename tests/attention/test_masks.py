"""Masks of attention: True where a query may attend to a key."""

from __future__ import annotations

import torch

from catena.attention.masks import attention_mask, causal_mask, padding_mask


def test_padding_mask_is_true_at_real_keys() -> None:
    assert padding_mask(torch.tensor([2, 0]), 3).int().tolist() == [[[1, 1, 0]], [[0, 0, 0]]]


def test_causal_mask_is_lower_triangular() -> None:
    assert causal_mask(3, 3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_causal_mask_with_more_keys_treats_queries_as_the_last() -> None:
    assert causal_mask(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_attention_mask_combines_padding_and_causal() -> None:
    lengths = torch.tensor([2, 3])
    assert torch.equal(attention_mask(lengths, 3), padding_mask(lengths, 3))
    causal = attention_mask(lengths, 3, causal=True).int().tolist()
    assert causal == [[[1, 0, 0], [1, 1, 0], [1, 1, 0]], [[1, 0, 0], [1, 1, 0], [1, 1, 1]]]
