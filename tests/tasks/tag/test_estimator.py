"""Lists of words in, lists of tags out: fit, predict, score, save, load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import catena
from catena.cli.main import main
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


def test_fit_predict_save_and_load(tmp_path: Path) -> None:
    tagger = Tagger(structure="crf", max_epochs=15, dev_fraction=0.4, device="cpu", settings=SMALL).fit(X, Y)
    assert tagger.predict(X[:4]) == Y[:4]
    assert tagger.score(X, Y) == 1.0
    assert "f1" in tagger.scores_
    chances = tagger.predict_marginals(X[:1])[0]
    assert len(chances) == len(X[0])
    assert all(0.3 < p <= 1 for p in chances)
    tagger.save(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"exists\. Choose another folder"):
        tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model", device="cpu")
    assert again.predict(X) == tagger.predict(X)
    assert catena.load(tmp_path / "model").predict(X[:1])[0].tags == tuple(Y[0])


def test_other_kinds_of_models_fit() -> None:
    pairs = [[pair.rsplit("/", 1) for pair in one.split()] for one in drawn(60, 1)]
    words, tags = [[w for w, _ in one] for one in pairs], [[t for _, t in one] for one in pairs]
    for model in ("features", "hmm"):
        assert Tagger(model, device="cpu").fit(words, tags).score(words, tags) > 0.7


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(CatenaError, match="This Tagger is not fitted yet"):
        Tagger().predict(X)
    with pytest.raises(DataError, match=r"y must have one list of tags per sentence \(2\), got 1"):
        Tagger().fit(X[:2], Y[:1])
    with pytest.raises(DataError, match=r"sentence 0 must have one tag per word \(1\), got 2"):
        Tagger().fit([["a"]], [["O", "O"]])
    with pytest.raises(
        DataError, match=r"words and tags of sentence 0 must be strings without tabs and line ends .*, got 'a\\tb'"
    ):
        Tagger().fit([["a\tb"]], [["O"]])


def test_integer_tags_are_predicted_as_integers(tmp_path: Path) -> None:
    pairs = [[pair.rsplit("/", 1) for pair in one.split()] for one in drawn(60, 1)]
    words, named = [[w for w, _ in one] for one in pairs], [[t for _, t in one] for one in pairs]
    number = {tag: i + 7 for i, tag in enumerate(sorted({tag for row in named for tag in row}))}
    tags = [[number[tag] for tag in row] for row in named]
    tagger = Tagger("features", device="cpu").fit(iter(words), (np.array(row) for row in tags))
    assert tagger.classes_.tolist() == sorted(number.values())
    assert tagger.classes_.dtype.kind == "i"
    found = tagger.predict(words)
    assert {type(tag) for row in found for tag in row} == {int}
    right = [a == b for one, two in zip(found, tags, strict=True) for a, b in zip(one, two, strict=True)]
    assert tagger.score(words, tags) == pytest.approx(np.mean(right))
    assert tagger.score(words, tags) > 0.7
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model", device="cpu")
    assert again.predict(words) == found
    assert again.score(words, tags) == tagger.score(words, tags)
    again.save(tmp_path / "copy")
    assert Tagger.load(tmp_path / "copy").predict(words[:2]) == found[:2]


def test_parameters_are_printed_saved_and_cloned(tmp_path: Path) -> None:
    base = pytest.importorskip("sklearn.base")
    tagger = Tagger("features", max_epochs=3, seed=2, settings={"model.l2": 0.5}, device="cpu").fit(X, Y)
    assert repr(tagger) == "Tagger(model='features', max_epochs=3, seed=2, device='cpu', settings={'model.l2': 0.5})"
    assert base.clone(tagger).get_params() == tagger.get_params()
    tagger.save(tmp_path / "model")
    assert Tagger.load(tmp_path / "model", device="cpu").get_params() == tagger.get_params()
    with pytest.raises(ConfigError, match=r"Tagger has no argument 'rate'\. Use one of model, structure"):
        tagger.set_params(rate=3)


def test_estimator_of_a_command_line_run_has_its_config(tmp_path: Path) -> None:
    file = tmp_path / "train.conll"
    file.write_text(
        "".join("".join(f"{w}\t{t}\n" for w, t in zip(*pair, strict=True)) + "\n" for pair in zip(X, Y, strict=True)),
        encoding="utf-8",
    )
    words = [
        "train",
        "tag",
        file,
        "--model",
        "features",
        "--max-epochs",
        "4",
        "--l2",
        "0.25",
        "-q",
        "-o",
        tmp_path / "run",
    ]
    assert main([str(word) for word in words]) == 0
    tagger = Tagger.load(tmp_path / "run", device="cpu")
    assert (tagger.model, tagger.max_epochs) == ("features", 4)
    assert tagger.settings is not None
    assert tagger.settings["model.l2"] == 0.25
    assert tagger.fit(X, Y).predict(X[:1])


def test_missing_tags_are_rejected() -> None:
    for tag in (None, float("nan"), "", " ", 1.5, True):
        with pytest.raises(DataError, match="words and tags of sentence 1 must be strings"):
            Tagger().fit([["a"], ["b"]], [["O"], [tag]])
