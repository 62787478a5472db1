"""The common part of the estimators: keywords, parameters, copies and saved folders."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catena
from catena import LanguageModel, Pointer, Tagger, TextClassifier
from catena.config import keys
from catena.errors import CatenaError, ConfigError, DataError
from catena.tasks.auto.table import Candidate, default_values
from catena.tasks.estimator import keyword_paths, keyword_table
from catena.tasks.spec import TASKS
from catena.training.report import SilentReporter

TEXTS, LABELS = ["it pours", "play some jazz"] * 10, ["weather", "music"] * 10
NAMES = [name for name in TASKS if TASKS[name].estimator]


@pytest.fixture(scope="module")
def model() -> TextClassifier:
    return TextClassifier("loglinear", max_epochs=3, device="cpu").fit(TEXTS, LABELS)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_a_task_is_a_keyword_with_a_description(name: str) -> None:
    estimator = TASKS[name].estimator_class()
    paths = {key.path for key in keys(TASKS[name].config_class()) if key.path != ("task",)}
    assert {path for kinds in keyword_paths(TASKS[name].config_class()).values() for path in kinds.values()} == paths
    signature = inspect.signature(estimator)
    assert set(signature.parameters) == set(estimator.keyword_keys)
    for keyword in estimator.keyword_keys:
        assert f"        {keyword}: " in str(estimator.__doc__)


@pytest.mark.parametrize("name", NAMES)
def test_options_of_prediction_are_keywords_of_predict_stream(name: str) -> None:
    estimator, options = TASKS[name].estimator_class(), TASKS[name].options_class()
    assert set(inspect.signature(estimator.predict_stream).parameters) - {"self", "x"} == set(options.model_fields)


def test_keyword_table_gives_short_names_where_they_are_unambiguous() -> None:
    table = keyword_table(TASKS["tag"].config_class())
    assert table["max_epochs"].dotted == "training.max_epochs"
    assert table["d"].dotted == "model.encoder.d"
    assert table["embedding_d"].dotted == "model.words.embedding.d"
    assert "predict" not in table


def test_constructor_stores_its_arguments_unchanged_and_params_follow() -> None:
    given = TextClassifier("cnn", max_epochs=7, filters=50)
    assert (given.model, given.max_epochs, given.filters) == ("cnn", 7, 50)
    assert given.set_params(max_epochs=8).get_params()["max_epochs"] == 8
    assert repr(given) == "TextClassifier(model='cnn', max_epochs=8, filters=50)"


def test_unknown_keyword_raises_error_with_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"TextClassifier has no option 'max_epoch': did you mean 'max_epochs'"):
        TextClassifier(max_epoch=3)
    with pytest.raises(ConfigError, match=r"Tagger has no option 'n_layer'"):
        Tagger().set_params(n_layer=2)


@pytest.mark.parametrize("name", NAMES)
def test_fit_forgets_the_older_model(name: str, tmp_path: Path) -> None:
    kinds = [TASKS[name].estimator, *TASKS[name].estimators]
    estimators = {TASKS[name].estimator_class(kind) for kind in kinds}
    assert estimators
    for estimator in estimators:
        model = estimator()
        for attribute in ("task_", "scores_", "classes_", "_classes", "_columns", "_kind", "_names"):
            setattr(model, attribute, object())
        with pytest.raises(CatenaError):
            model.fit(tmp_path / "missing")
        assert set(vars(model)) <= {*estimator.keyword_keys}


def test_fit_again_equals_a_fresh_fit() -> None:
    options = {"max_epochs": 3, "device": "cpu"}
    others, labels = ["one shirt", "two trams", "red shoes"] * 6, ["shop", "travel", "shop"] * 6
    fresh = TextClassifier("loglinear", **options).fit(others, labels)
    model = TextClassifier("loglinear", **options).fit(TEXTS, LABELS).fit(others, labels)
    assert list(model.classes_) == ["shop", "travel"]
    assert np.array_equal(model.predict_proba(TEXTS), fresh.predict_proba(TEXTS))


def test_option_of_another_kind_is_reported_by_fit() -> None:
    with pytest.raises(ConfigError, match=r"model.convolution is an option of 'cnn', not of 'loglinear'"):
        TextClassifier("loglinear", filters=3).fit(TEXTS, LABELS)


def test_unknown_option_of_prediction_raises_error_with_suggestion() -> None:
    tagger = Tagger("features", max_epochs=1, device="cpu").fit([["a", "b"]] * 10, [["X", "Y"]] * 10)
    with pytest.raises(ConfigError, match=r"predict has no option 'nbest': did you mean 'n_best'"):
        tagger.predict([["a"]], nbest=3)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"])
def test_copies_predict_the_same(model: TextClassifier, copied: Any) -> None:
    np.testing.assert_array_equal(copied(model).predict_proba(TEXTS), model.predict_proba(TEXTS))


def test_saved_model_is_loaded_with_its_parameters_and_can_be_saved_again(
    model: TextClassifier, tmp_path: Path
) -> None:
    model.save(tmp_path / "one")
    loaded = catena.load(tmp_path / "one", device="cpu")
    assert isinstance(loaded, TextClassifier)
    assert loaded.max_epochs == 3
    loaded.save(tmp_path / "two")
    again = TextClassifier.load(tmp_path / "two", device="cpu")
    np.testing.assert_array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))
    with pytest.raises(ConfigError, match=r"one exists\. Choose another folder"):
        model.save(tmp_path / "one")


def test_save_writes_the_current_weights_of_the_network(tmp_path: Path) -> None:
    changed = copy.deepcopy(TextClassifier("mlp", max_epochs=1, device="cpu").fit(TEXTS, LABELS))
    for parameter in changed.network.parameters():
        parameter.data.zero_()
    changed.save(tmp_path / "zero")
    np.testing.assert_allclose(catena.load(tmp_path / "zero").predict_proba(["play"]), 0.5)


def test_fit_and_predict_take_paths_generators_and_arrays(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("".join(f"{label}\t{text}\n" for text, label in zip(TEXTS, LABELS, strict=True)))
    model = TextClassifier("loglinear", max_epochs=2, device="cpu").fit(file)
    assert list(model.predict(text for text in TEXTS[:2])) == list(model.predict(np.array(TEXTS[:2])))
    assert len(model.predict(file)) == 20
    assert model.evaluate(file).scores()["accuracy"] == 1.0


def test_one_text_instead_of_a_list_raises_error(model: TextClassifier) -> None:
    with pytest.raises(DataError, match="predict must get a list, got one text: 'play'"):
        list(model.predict_stream("play"))


class Frame:
    """A data frame: its iterator gives the names of its columns."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns, self.cells = list(columns), np.array(list(columns.values()), object).T
        self.shape = self.cells.shape

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def to_numpy(self) -> np.ndarray:
        return self.cells


@pytest.mark.parametrize("name", ["lm", "converse", "transduce", "classify"])
def test_table_of_one_column_gives_its_cells_and_not_its_name(name: str) -> None:
    first = {"lm": "ngram", "converse": "bm25", "transduce": "baseline", "classify": "loglinear"}[name]
    model = TASKS[name].estimator_class()(first)
    model.fit(TEXTS, None) if name == "lm" else model.fit(TEXTS, LABELS)
    texts = ["it pours", "play some jazz", "so"]
    wanted = list(map(str, model.predict(texts)))
    for given in (Frame(text=texts), np.array(texts).reshape(3, 1), np.array(texts, object).reshape(3, 1)):
        assert list(map(str, model.predict(given))) == wanted
    with pytest.raises(DataError, match=r"X must be a list or one column, got shape \(3, 2\)"):
        model.predict(Frame(text=texts, other=texts))
    with pytest.raises(DataError, match=r"X must be a list, got a dict\. Pass list"):
        model.predict({"it pours": 1})


def test_pointer_takes_arrays_as_it_takes_lists() -> None:
    numbers = np.random.default_rng(0).random((20, 3))
    options = {"problem": "sort", "max_epochs": 1, "threads": 1}
    one, two = (Pointer(**options).fit(given) for given in (numbers, numbers.tolist()))
    assert [p.positions for p in one.predict(numbers)] == [p.positions for p in two.predict(numbers.tolist())]


def test_one_prompt_instead_of_a_list_raises_error() -> None:
    model = LanguageModel("ngram").fit(TEXTS)
    with pytest.raises(DataError, match=r"prompts must be a list, got one text: 'play'\. Put it in a list"):
        model.generate("play")


def test_estimator_that_is_not_fitted_says_so() -> None:
    with pytest.raises(CatenaError, match="This Tagger is not fitted yet"):
        Tagger().predict([["a"]])


def test_train_returns_the_estimator_of_the_detected_task(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("".join(f"{label}\t{text}\n" for text, label in zip(TEXTS, LABELS, strict=True)))
    model = catena.train(
        file, options={"model": "loglinear", "max_epochs": 2, "device": "cpu"}, output=tmp_path / "run"
    )
    assert isinstance(model, TextClassifier)
    assert (tmp_path / "run" / "config.toml").is_file()


# --- the default model ------------------------------------------------------------------------------------------------


def small_table(kinds: Mapping[str, tuple[float, float]]) -> tuple[Candidate, ...]:
    """A table with a default model for each range of the number of examples."""
    return tuple(Candidate(kind, f"a {kind}", {"model": {"kind": kind}}, default=kinds[kind]) for kind in kinds)


def test_fit_without_model_uses_the_table_for_the_number_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    table = small_table({"tfidf": (0.0, 20.0), "loglinear": (20.0, 1e9)})
    monkeypatch.setattr("catena.tasks.auto.table.read_candidates", lambda task: table)
    monkeypatch.setattr("catena.tasks.auto.table.read_candidates", lambda task: table)
    few = TextClassifier(device="cpu").fit(TEXTS[:19], LABELS[:19])
    many = TextClassifier(device="cpu").fit(TEXTS, LABELS)
    assert [model.task_.config.model.kind for model in (few, many)] == ["tfidf", "loglinear"]
    assert few.model is None, "the argument is kept, as clone needs it"


def test_fit_without_model_equals_the_choice_of_the_command_for_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{y}\t{x}\n" for x, y in zip(TEXTS, LABELS, strict=True)), encoding="utf-8")
    expected, line = default_values(TASKS["classify"], {"data": {"train": [str(path)]}})
    reporter = NotedReporter()
    by_path = TextClassifier().fit(path, reporter=reporter)
    by_list = TextClassifier().fit(TEXTS, LABELS)
    assert by_path.task_.config.model.kind == by_list.task_.config.model.kind == expected["model"]["kind"]
    assert line in reporter.notes


def test_fit_with_options_of_a_model_keeps_that_model() -> None:
    tagger = Tagger(structure="crf", d=4, embedding_d=4, max_epochs=1, threads=1, device="cpu")
    assert tagger.fit([["a", "b"]] * 20, [["X", "Y"]] * 20).task_.config.model.kind == "neural"


class NotedReporter(SilentReporter):
    """Keeps notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, words: str) -> None:
        self.notes.append(words)
