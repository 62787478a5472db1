"""The string transducer as an estimator."""

from __future__ import annotations

from pathlib import Path

import catena
from catena import Transducer

SOURCES = ["shat", "tash", "mat", "tam", "sham", "sham"]
TARGETS = ["S A T", "T A S", "M A T", "T A M", "S A M", "S A N"]


def test_transducer_fits_predicts_scores_and_saves(tmp_path: Path) -> None:
    transducer = Transducer("joint", order=2, target_tokens="symbols").fit(SOURCES, TARGETS)
    (prediction,) = transducer.predict(["sham"], n_best=2, scores=True)
    assert len(prediction.n_best) == 2
    assert transducer.score(SOURCES, TARGETS) == 1 - transducer.evaluate(SOURCES, TARGETS).scores()["word_error"]
    transducer.save(tmp_path / "model")
    again = catena.load(tmp_path / "model")
    assert isinstance(again, Transducer)
    assert again.predict(["sham"], n_best=2, scores=True) == [prediction]
