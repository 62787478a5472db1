"""The estimator of word vectors: fitting, queries, evaluation, files and copies."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import catena
from catena import WordVectors
from catena.errors import CatenaError, DataError, UnknownNameError
from catena.vectors.table import VectorTable
from tests.vectors.test_train import TOPICS, two_topics

SMALL = {"d": 12, "window": 3, "words_min_count": 1, "threads": 1, "learning_rate": 0.1, "subsample": 0.0, "epochs": 8}
SENTENCES = two_topics()


@pytest.fixture(scope="module")
def model() -> WordVectors:
    return WordVectors("skipgram", **SMALL).fit(map(" ".join, SENTENCES))


def test_fit_takes_texts_lists_of_words_and_files(model: WordVectors, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(map(" ".join, SENTENCES)) + "\n", encoding="utf-8")
    for source in (SENTENCES, np.array([" ".join(words) for words in SENTENCES]), path):
        other = WordVectors(**SMALL).fit(source)
        np.testing.assert_array_equal(other.vectors_.matrix, model.vectors_.matrix)


def test_tokenizer_applies_to_texts_but_not_to_lists_of_words() -> None:
    options = {"words_min_count": 1, "d": 4, "threads": 1, "epochs": 1, "tokenizer": "words"}
    assert "king" in WordVectors(**options).fit(["the king, the king."] * 5)
    assert "king," in WordVectors(**options).fit([["the", "king,"]] * 5)
    with pytest.raises(DataError, match="all strings or all lists of words"):
        WordVectors(**options).fit(["a b", ["a", "b"]])


def test_predict_returns_nearest_words_and_marks_unknown_ones(model: WordVectors) -> None:
    unknown, ship = model.predict(["shipp", "ship"], n_best=4)
    assert {one.word for one in ship.neighbors} == set(TOPICS["sea"]) - {"ship"}
    assert [(one.word, one.score) for one in ship.neighbors] == model.most_similar("ship", 4)
    assert ship.known
    assert str(ship).startswith("ship\t")
    assert len(ship.to_rows()) == 4
    assert (unknown.neighbors, unknown.known) == ((), False)
    assert unknown.to_rows() == [{"text": "shipp", "neighbor": None, "score": None}]


def test_queries_equal_queries_of_the_table(model: WordVectors) -> None:
    table = model.vectors_
    assert isinstance(table, VectorTable)
    np.testing.assert_array_equal(model["ship"], table["ship"])
    assert "ship" in model
    assert "shipp" not in model
    assert model.get("shipp") is None
    assert model.similarity("ship", "wave") == table.similarity("ship", "wave")
    assert model.analogy("ship", "wave", "oven", 2) == table.analogy("ship", "wave", "oven", 2)
    assert model.odd_one_out(["ship", "wave", "oven", "sail"]) == "oven"
    with pytest.raises(UnknownNameError, match="did you mean 'ship'"):
        model["shipp"]


def test_evaluate_takes_analogies_and_rated_pairs(model: WordVectors) -> None:
    answer = model.analogy("ship", "wave", "oven", 1)[0][0]
    assert model.evaluate([["ship", "wave", "oven", answer]]).scores() == {"accuracy": 1.0}
    pairs, cosine = [("ship", "wave"), ("ship", "oven"), ("sail", "dough")], model.similarity
    assert model.evaluate(pairs, [cosine(a, b) for a, b in pairs]).scores() == {"spearman": pytest.approx(1.0)}
    assert model.evaluate(pairs, [-cosine(a, b) for a, b in pairs]).scores() == {"spearman": pytest.approx(-1.0)}


def test_model_is_saved_and_loaded_with_its_parameters(model: WordVectors, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = catena.load(tmp_path / "model")
    assert isinstance(loaded, WordVectors)
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.vectors_.matrix, model.vectors_.matrix)
    np.testing.assert_array_equal(loaded.task_.model.context_vectors(), model.task_.model.context_vectors())


def test_vectors_are_written_to_a_file_and_read_back(model: WordVectors, tmp_path: Path) -> None:
    model.save(tmp_path / "v.bin")
    loaded = WordVectors.load(tmp_path / "v.bin")
    assert loaded.most_similar("ship") == model.most_similar("ship")
    assert loaded.predict(["ship"]) == model.predict(["ship"])
    with pytest.raises(DataError, match=r"can only be saved as a file"):
        loaded.save(tmp_path / "folder")
    with pytest.raises(DataError, match="come from a file"):
        loaded.task_.document_vectors()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"])
def test_copies_have_the_same_vectors(model: WordVectors, tmp_path: Path, copied: object) -> None:
    model.save(tmp_path / "v.safetensors")
    for one in (model, WordVectors.load(tmp_path / "v.safetensors")):
        np.testing.assert_array_equal(copied(one).vectors_.matrix, model.vectors_.matrix)  # type: ignore[operator]


def test_estimator_that_is_not_fitted_says_so() -> None:
    with pytest.raises(CatenaError, match="This WordVectors is not fitted yet"):
        WordVectors().most_similar("ship")


def test_plot_draws_the_word_and_its_neighbors(model: WordVectors, tmp_path: Path) -> None:
    path = model.plot("ship", n_best=4).save(tmp_path / "map.svg")
    text = Path(path).read_text(encoding="utf-8")
    assert all(word in text for word in TOPICS["sea"])
    assert "oven" not in text
