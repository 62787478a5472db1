"""Alignments from given attention weights."""

from __future__ import annotations

import numpy as np

from catena.tasks.translate.translated import Translation, TranslationResult

WEIGHTS = np.array([[0.1, 0.2, 0.6, 0.1], [0.8, 0.1, 0.1, 0.0], [0.0, 0.1, 0.1, 0.8], [0.2, 0.2, 0.2, 0.4]])
"""Three target tokens and the end, by three source tokens and the end."""


def test_alignment_links_tokens_with_largest_weight() -> None:
    one = Translation("x y z", ("x", "y", "z"), -1.0, -1.0, attention=(WEIGHTS[None],))
    assert one.alignment() == [(2, 0), (0, 1)], "what looks at the end of the source is linked with nothing"
    assert TranslationResult("a b c", ("a", "b", "c"), (one,)).links(one) == [("c", "x"), ("a", "y")]
    assert Translation("x", ("x",), 0.0, 0.0).alignment() == []


def test_weights_are_the_mean_of_heads_and_layers() -> None:
    other = np.full_like(WEIGHTS, 0.25)
    two_heads, one_head = np.stack((WEIGHTS, other)), other[None]
    found = Translation("", ("x", "y", "z"), 0.0, 0.0, attention=(two_heads, one_head)).weights
    assert found is not None
    assert np.allclose(found, (WEIGHTS + 3 * other) / 4)
    row = TranslationResult(
        "a", ("a",), (Translation("", ("x", "y", "z"), 0.0, 0.0, (-1.0,), (WEIGHTS[None],)),)
    ).as_json()
    assert row["translations"][0]["alignment"] == [[2, 0], [0, 1]]
    assert row["translations"][0]["attention"][0][0][1] == [0.8, 0.1, 0.1, 0.0]
    assert row["translations"][0]["log_probs"] == [-1.0]
