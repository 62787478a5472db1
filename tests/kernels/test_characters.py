"""Maxima of filters over the characters of words equal the oracle and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.embeddings.characters import ConvolutionOverCharacters
from catena.kernels.characters.ops import largest_windows, suits
from tests.oracle.convolution import convolve


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.integers(1, 7), max_size=9), min_size=1, max_size=6),
    st.integers(1, 8),
    st.integers(1, 20),
    st.integers(0, 2**31),
)
def test_maxima_equal_the_oracle(words: list[list[int]], window: int, n_filters: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    table, filters = draw.normal(size=(8, 5)), draw.normal(size=(n_filters, 5, window))
    table[0] = 0
    bias = draw.normal(size=n_filters)
    characters = torch.zeros(len(words), 9, dtype=torch.long)
    for row, word in zip(characters, words, strict=True):
        row[: len(word)] = torch.tensor(word, dtype=torch.long)
    found = largest_windows(characters, *(torch.from_numpy(x) for x in (table, filters, bias)))
    for row, word in zip(found.numpy(), words, strict=True):
        wanted = np.zeros(n_filters)
        if word:
            kernel = np.ascontiguousarray(filters.transpose(2, 0, 1))
            wanted = convolve(table[word], kernel, bias, (window - 1) // 2, len(word)).max(0)
        np.testing.assert_allclose(row, wanted, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_prediction_equals_the_network_in_training(dtype: torch.dtype) -> None:
    embedding = ConvolutionOverCharacters(8, 5, (2, 3), 6).to(dtype).eval()
    characters = torch.tensor([[2, 3, 4, 5], [6, 0, 0, 0], [0, 0, 0, 0], [3, 2, 0, 0]])
    for _ in range(2):
        with torch.inference_mode():
            assert suits(characters, embedding.table.weight)
            found = embedding(characters)
        torch.testing.assert_close(found, embedding(characters))
        with torch.no_grad():
            embedding.table.weight.mul_(2)


def test_supported_inputs() -> None:
    characters, table = torch.tensor([[1, 2, 3], [1, 0, 0]]), torch.randn(4, 2)
    assert not suits(characters, table), "gradients are wanted"
    with torch.no_grad():
        assert suits(characters, table)
        assert not suits(characters, table[:3]), "character 3 has no row"
        assert not suits(characters[1:], table), "fewer characters than rows to multiply"
        assert not suits(characters, table.half())
