"""The translator as an estimator."""

from __future__ import annotations

from pathlib import Path

import pytest

import catena
from catena import Translator
from catena.errors import DataError

ENGLISH = ["the dog", "the cat", "a dog", "a cat"] * 10
GERMAN = ["der Hund", "die Katze", "ein Hund", "eine Katze"] * 10


def small() -> Translator:
    return Translator(
        "recurrent", tokenizer="words", vocabulary_min_count=1, d=16, d_embedding=16, max_epochs=2, sentences=2,
        learning_rate=0.05, batch_size=40, device="cpu",
    )  # fmt: skip


def test_translator_fits_predicts_scores_and_saves(tmp_path: Path) -> None:
    translator = small().fit(ENGLISH, GERMAN)
    predictions = translator.predict(["the cat", ""], n_best=2)
    assert [len(one.n_best) for one in predictions] == [2, 0]
    report = translator.evaluate(ENGLISH[:4], GERMAN[:4])
    assert translator.score(ENGLISH[:4], GERMAN[:4]) == report.scores()["bleu"]
    translator.save(tmp_path / "model")
    again = catena.load(tmp_path / "model", "cpu")
    assert isinstance(again, Translator)
    assert again.predict(["the cat"])[0].log_prob == pytest.approx(translator.predict(["the cat"])[0].log_prob)
    assert "<svg" in again.plot("the cat").svg


def test_translator_with_unpaired_texts_raises() -> None:
    with pytest.raises(DataError, match=r"y must have one text per source \(40\), got 3"):
        small().fit(ENGLISH, GERMAN[:3])
    with pytest.raises(DataError, match="y must have the target text of each source, got None"):
        small().fit(ENGLISH)
