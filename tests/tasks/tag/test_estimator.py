"""Lists of words in, lists of tags out: fit, predict, score, save, load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catena
from catena.cli.main import main
from catena.errors import CatenaError, ConfigError, DataError
from catena.tasks.tag.estimator import Tagger
from catena.tasks.tag.predict import TagPrediction
from tests.tasks.tag.helpers import SENTENCES, drawn

X = [[pair.rsplit("/", 1)[0] for pair in one.split()] for one in SENTENCES * 6]
Y = [[pair.rsplit("/", 1)[1] for pair in one.split()] for one in SENTENCES * 6]
SMALL: dict[str, Any] = {
    "characters": "none",
    "embedding_d": 12,
    "d": 12,
    "learning_rate": 0.03,
    "optimizer": "adam",
    "patience": 0,
    "dropout": 0.0,
    "words_dropout": 0.0,
    "batch_size": 6,
    "device": "cpu",
}


def tags(found: list[TagPrediction]) -> list[list[str]]:
    """The tags of predictions."""
    return [list(one.tags) for one in found]


def column_file(folder: Path) -> Path:
    """The sentences in columns."""
    blocks = ("".join(f"{w}\t{t}\n" for w, t in zip(*pair, strict=True)) for pair in zip(X, Y, strict=True))
    path = folder / "train.conll"
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def test_fit_predict_save_and_load(tmp_path: Path) -> None:
    tagger = Tagger(structure="crf", max_epochs=15, **SMALL).fit(X, Y)
    assert tagger.scores_.keys() >= {"f1", "accuracy"}
    tagger = Tagger(structure="crf", max_epochs=15, dev=str(column_file(tmp_path)), **SMALL).fit(X, Y)
    assert tags(tagger.predict(X[:4])) == Y[:4]
    assert tagger.score(X, Y) == 1.0
    (sure,) = tagger.predict(X[:1], confidence=True)
    assert len(sure.confidence) == len(X[0])
    assert all(0.3 < p <= 1 for p in sure.confidence)
    tagger.save(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"exists\. Choose another folder"):
        tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model", device="cpu")
    assert tags(again.predict(X)) == tags(tagger.predict(X))
    assert tags(catena.load(tmp_path / "model").predict(X[:1])) == Y[:1]


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


def test_integer_tags_keep_their_type_in_classes(tmp_path: Path) -> None:
    pairs = [[pair.rsplit("/", 1) for pair in one.split()] for one in drawn(60, 1)]
    words, named = [[w for w, _ in one] for one in pairs], [[t for _, t in one] for one in pairs]
    number = {tag: i + 7 for i, tag in enumerate(sorted({tag for row in named for tag in row}))}
    gold = [[number[tag] for tag in row] for row in named]
    tagger = Tagger("features", device="cpu").fit(iter(words), (np.array(row) for row in gold))
    assert tagger.classes_.tolist() == sorted(number.values())
    assert tagger.classes_.dtype.kind == "i"
    found = tags(tagger.predict(words))
    right = [a == str(b) for one, two in zip(found, gold, strict=True) for a, b in zip(one, two, strict=True)]
    assert tagger.score(words, gold) == pytest.approx(np.mean(right))
    assert tagger.score(words, gold) > 0.7
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model", device="cpu")
    assert again.classes_.tolist() == tagger.classes_.tolist()
    assert tags(again.predict(words)) == found
    assert again.score(words, gold) == tagger.score(words, gold)
    again.save(tmp_path / "copy")
    assert tags(Tagger.load(tmp_path / "copy", "cpu").predict(words[:2])) == found[:2]


def test_fit_again_forgets_the_old_classes() -> None:
    tagger = Tagger("hmm", device="cpu").fit(X, Y)
    tagger.fit(X, [["N" if tag == "O" else "V" for tag in row] for row in Y])
    assert tagger.classes_.tolist() == ["N", "V"]


def test_parameters_are_printed_saved_and_cloned(tmp_path: Path) -> None:
    base = pytest.importorskip("sklearn.base")
    tagger = Tagger("features", max_epochs=3, seed=2, l2=0.5, device="cpu").fit(X, Y)
    assert repr(tagger) == "Tagger(model='features', max_epochs=3, seed=2, device='cpu', l2=0.5)"
    assert base.clone(tagger).get_params() == tagger.get_params()
    tagger.save(tmp_path / "model")
    assert Tagger.load(tmp_path / "model", device="cpu").get_params() == tagger.get_params()
    with pytest.raises(ConfigError, match=r"Tagger has no option 'learning_rat': .*'learning_rate'"):
        tagger.set_params(learning_rat=3)


def test_estimator_of_a_command_line_run_has_its_config(tmp_path: Path) -> None:
    command = f"train tag {column_file(tmp_path)} --model features --max-epochs 4 --l2 0.25 -q -o {tmp_path / 'run'}"
    assert main(command.split()) == 0
    tagger = Tagger.load(tmp_path / "run", device="cpu")
    assert (tagger.model, tagger.max_epochs, tagger.l2) == ("features", 4, 0.25)  # type: ignore[attr-defined]
    assert tagger.fit(X, Y).predict(X[:1])


def test_missing_tags_are_rejected() -> None:
    for tag in (None, float("nan"), "", " ", 1.5, True):
        with pytest.raises(DataError, match="words and tags of sentence 1 must be strings"):
            Tagger().fit([["a"], ["b"]], [["O"], [tag]])


def test_sentences_without_words_and_texts_are_errors() -> None:
    with pytest.raises(DataError, match="sentence 1 must have at least one word, got none"):
        Tagger("features").fit([["a"], []], [["D"], []])
    with pytest.raises(DataError, match="sentence 0 must be a list of words, got 'the cat'"):
        Tagger("features").fit(["the cat"], [["D", "N"]])
