"""Tables and drawings of attention weights."""

from __future__ import annotations

import numpy as np
import pytest

from catena.errors import DataError
from catena.tasks.attention_maps import AttentionMaps, attention_table, sketch, token_indices
from catena.tasks.options import AttentionOptions

ROWS = ("▁Zwei", "▁Haus", "t", "ür", "en", ".", "</s>")
LOOKS = AttentionMaps(tuple(np.random.default_rng(i).random((2, 7, 3)) for i in range(3)), ROWS, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("word", "places"),
    {"Zwei": [0], "▁Zwei": [0], "Haustüren": [1, 2, 3, 4], "Haus": [1], "türen": [2, 3, 4], "</s>": [6]}.items(),
)
def test_token_indices_of_a_token_or_of_its_pieces(word: str, places: list[int]) -> None:
    assert token_indices(word, ROWS) == places


def test_token_indices_of_unknown_word_suggests_the_nearest() -> None:
    with pytest.raises(DataError, match="'Zwe' is not one of the words that attend: did you mean 'Zwei'"):
        token_indices("Zwe", ROWS)


def test_attention_table_is_the_mean_of_selected_layers_and_heads() -> None:
    table, rows = attention_table(LOOKS, AttentionOptions())
    assert rows == list(ROWS)
    np.testing.assert_allclose(table, sum(layer[h] for layer in LOOKS.layers for h in (0, 1)) / 6)
    table, _ = attention_table(LOOKS, AttentionOptions(layer=2, head=1))
    np.testing.assert_allclose(table, LOOKS.layers[1][0])
    table, rows = attention_table(LOOKS, AttentionOptions(word="türen", layer=3))
    assert rows == ["layer 3, head 1", "layer 3, head 2"]
    np.testing.assert_allclose(table, LOOKS.layers[2][:, 2:5].mean(axis=1))
    assert sketch(LOOKS, AttentionOptions(word="Zwei", head=2)).splitlines()[2].startswith("layer 2, head 2  ")
