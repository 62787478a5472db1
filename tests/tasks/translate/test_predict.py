"""Alignments from given attention weights, and the rows of predictions."""

from __future__ import annotations

import numpy as np

from catena.tasks.translate.predict import TranslationPrediction, copy_unknown_words

WEIGHTS = np.array([[0.1, 0.2, 0.6, 0.1], [0.8, 0.1, 0.1, 0.0], [0.0, 0.1, 0.1, 0.8], [0.2, 0.2, 0.2, 0.4]])
"""Three target tokens and the end, by three source tokens and the end."""


def prediction(*attention: np.ndarray, **fields: object) -> TranslationPrediction:
    return TranslationPrediction(
        "a b c", ("a", "b", "c"), "x y z", ("x", "y", "z"), -1.0, -1.0, attention=attention or None, **fields
    )  # type: ignore[arg-type]


def test_alignment_links_tokens_with_largest_weight() -> None:
    found = prediction(WEIGHTS[None])
    assert found.alignment() == [(2, 0), (0, 1)], "what attends to the end of the source is linked with nothing"
    assert prediction().alignment() == []


def test_weights_are_the_mean_of_heads_and_layers() -> None:
    other = np.full_like(WEIGHTS, 0.25)
    found = prediction(np.stack((WEIGHTS, other)), other[None]).weights
    assert found is not None
    assert np.allclose(found, (WEIGHTS + 3 * other) / 4)


def test_to_dict_has_alignment_and_attention_only_if_requested() -> None:
    row = prediction(WEIGHTS[None], log_probs=(-1.0,)).to_dict()
    assert row["alignment"] == [[2, 0], [0, 1]]
    assert row["attention"][0][0][1] == [0.8, 0.1, 0.1, 0.0]
    assert row["log_probs"] == [-1.0]
    assert not {"alignment", "attention", "log_probs", "n_best"} & prediction().to_dict().keys()


def test_rows_have_scores_and_links_only_if_requested() -> None:
    assert prediction().to_rows() == [{"source": "a b c", "translation": "x y z"}]
    two = prediction(n_best=(prediction(log_probs=(), links=(("c", "x"), ("a", "y"))),) * 2)
    assert two.to_rows()[1] == {"source": "a b c", "translation": "x y z", "log_prob": -1.0, "alignment": "c|x a|y"}
    assert two.to_text("text") == "x y z\nx y z"


def test_copy_unknown_words_takes_the_most_attended_word() -> None:
    assert copy_unknown_words(["<unk>", "y", "<unk>"], ["a", "b", "c", "</s>"], [WEIGHTS[None]]) == ["c", "y", "b"]
    assert copy_unknown_words(["<unk>"], ["a", "</s>"], []) == ["<unk>"]
