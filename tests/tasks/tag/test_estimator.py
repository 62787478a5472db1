"""Lists of words in, lists of tags out: fit, predict, score, save, load."""

from __future__ import annotations

from pathlib import Path

import pytest

import catena
from catena.errors import CatenaError, ConfigError, DataError
from catena.tasks.tag.estimator import Tagger
from tests.tasks.tag.helpers import SENTENCES, drawn

X = [[pair.rsplit("/", 1)[0] for pair in one.split()] for one in SENTENCES * 6]
Y = [[pair.rsplit("/", 1)[1] for pair in one.split()] for one in SENTENCES * 6]
SMALL = {
    "model.words.characters.kind": "none",
    "model.words.embedding.d": 12,
    "model.encoder.d": 12,
    "training.learning_rate": 0.03,
    "training.optimizer": "adam",
    "training.patience": 0,
    "model.dropout": 0.0,
    "model.words.dropout": 0.0,
    "batches.batch_size": 6,
}


def test_a_tagger_is_fitted_asked_kept_and_read_again(tmp_path: Path) -> None:
    tagger = Tagger(structure="crf", max_epochs=15, dev_share=0.4, device="cpu", settings=SMALL).fit(X, Y)
    assert tagger.predict(X[:4]) == Y[:4]
    assert tagger.score(X, Y) == 1.0
    assert "f1" in tagger.scores_
    chances = tagger.predict_marginals(X[:1])[0]
    assert len(chances) == len(X[0])
    assert all(0.3 < p <= 1 for p in chances)
    tagger.save(tmp_path / "model")
    with pytest.raises(ConfigError, match="exists: choose another folder"):
        tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model", device="cpu")
    assert again.predict(X) == tagger.predict(X)
    assert catena.load(tmp_path / "model").predict(X[:1])[0].tags == tuple(Y[0])


def test_other_kinds_of_models_are_fitted_alike() -> None:
    pairs = [[pair.rsplit("/", 1) for pair in one.split()] for one in drawn(60, 1)]
    words, tags = [[w for w, _ in one] for one in pairs], [[t for _, t in one] for one in pairs]
    for model in ("features", "hmm"):
        assert Tagger(model, device="cpu").fit(words, tags).score(words, tags) > 0.7


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(CatenaError, match="this Tagger is not fitted yet"):
        Tagger().predict(X)
    with pytest.raises(DataError, match="2 sentences and 1 of tags"):
        Tagger().fit(X[:2], Y[:1])
    with pytest.raises(DataError, match="sentence 0 has 1 words and 2 tags"):
        Tagger().fit([["a"]], [["O", "O"]])
    with pytest.raises(DataError, match=r"sentence 0 has 'a\\tb': words and tags are strings without tabs"):
        Tagger().fit([["a\tb"]], [["O"]])
