"""Labels and texts as users have them: any type, missing ones, indicator matrices, tables, generators."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena import config as configs
from catena.cli.main import main
from catena.data.samples.corpus import load_sample, sample_path
from catena.errors import DataError
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.estimator import TextClassifier
from catena.tasks.targets import Classes, Targets, as_targets, as_texts

EXAMPLES = load_sample("dev")[:90]
X, Y = [e.text for e in EXAMPLES], [e.labels[0] for e in EXAMPLES]
TEXTS = ["sun shines", "rain falls", "sun and rain", "nothing here"] * 15


class Table:
    """The part of a data frame that these tests use."""

    def __init__(self, rows: Any) -> None:
        self._rows = np.array(rows, object)
        self.shape = self._rows.shape

    def to_numpy(self) -> np.ndarray:
        return self._rows

    def __iter__(self) -> Any:
        return iter(["column"])


def small(**options: object) -> TextClassifier:
    return TextClassifier("loglinear", max_epochs=6, learning_rate=0.1, **options)  # type: ignore[arg-type]


# --- indicator matrices -----------------------------------------------------------------------------------------------


def test_indicator_matrix_is_a_multilabel_target(tmp_path: Path) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    y = np.array([["sun" in text, "rain" in text, False, "nothing" in text] for text in TEXTS], int)
    model = small().fit(TEXTS, y)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    found = model.predict(TEXTS)
    assert isinstance(found, np.ndarray)
    assert (found.shape, found.dtype.kind) == (y.shape, "i")
    assert np.array_equal(found, y)
    assert model.score(TEXTS, y) == metrics.accuracy_score(y, found)
    table = model.predict_proba(TEXTS)
    assert np.array_equal(table > 0.5, found)
    assert (table[:, 2] == 0).all(), "a label that no text has"
    model.save(tmp_path / "model")
    again = TextClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict(TEXTS), found)
    assert again.score(TEXTS, y) == model.score(TEXTS, y)


@pytest.mark.parametrize("several", [True, False])
def test_indicator_matrices_of_other_kinds(several: bool) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    y = np.array([["sun" in text, "rain" in text] for text in TEXTS])
    expected = small(multilabel=several).fit(TEXTS, y.astype(float)).predict(TEXTS)
    for other in (y, sparse.csr_matrix(y.astype(int))):
        assert np.array_equal(small(multilabel=several).fit(TEXTS, other).predict(TEXTS), expected)


def test_scikit_learn_reads_indicator_matrix_as_multilabel() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    y = np.array([["sun" in text, "rain" in text] for text in TEXTS], int)
    scores = selection.cross_val_score(small(), TEXTS, y, cv=2, scoring="f1_micro")
    assert scores.min() > 0.8


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.array([[1, 2], [0, 1]]), r"y with shape \(2, 2\) must be an indicator matrix of 0 and 1, got 2\. Pass one"),
        (np.array([["a", "b"], ["c", "d"]]), r"y must be a list or one column, got shape \(2, 2\)\. Pass one column"),
        (np.zeros((2, 2, 2)), r"y must be a list or one column, got shape \(2, 2, 2\)"),
    ],
)
def test_tables_that_are_not_targets_are_rejected(y: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        small().fit(["a", "b"], y)


def test_table_of_names_has_multilabel_for_each_text() -> None:
    assert as_targets(np.array([["a", "b"], ["c", "a"]]), several=True).rows == [["a", "b"], ["c", "a"]]


# --- missing labels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), "", "  "])
@pytest.mark.parametrize("several", [True, False])
def test_missing_labels_are_rejected_with_their_index(missing: object, several: bool) -> None:
    y: list[Any] = [[label] for label in Y[:9]] if several else list(Y[:9])
    y[4] = [missing, "x"] if several else missing
    y[7] = [missing] if several else missing
    with pytest.raises(DataError, match=r"^y must have a label for each text, got .* at index 4 and 1 more\. Leave"):
        small(multilabel=several).fit(X[:9], y)


def test_none_instead_of_a_list_of_labels_is_rejected() -> None:
    with pytest.raises(DataError, match=r"got None at index 1\. Leave these texts out"):
        small(multilabel=True).fit(["a", "b"], [["x"], None])


# --- types of labels --------------------------------------------------------------------------------------------------


def test_number_and_its_string_are_two_classes(tmp_path: Path) -> None:
    y = [1, "1", 2, "2"] * 15
    model = small().fit(TEXTS, y)
    assert len(model.classes_) == 4
    assert {type(label) for label in model.classes_} == {int, str}
    found = model.predict(TEXTS)
    assert model.score(TEXTS, y) == np.mean([a == b for a, b in zip(found, y, strict=True)]) > 0.9
    model.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").score(TEXTS, y) == model.score(TEXTS, y)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([3, 20, 100], "i"),
        ([-1.5, 0.25, 10.0], "f"),
        ([False, True], "b"),
        (["b", "a"], "U"),
        ([("a", 1), ("a", 2), ("b", 0)], "O"),
        (list(np.array([5, 6], np.uint8)), "i"),
    ],
)
def test_labels_keep_their_type_through_a_file(labels: list[Any], kind: str, tmp_path: Path) -> None:
    y = [labels[i % len(labels)] for i in range(len(TEXTS))]
    model = small().fit(TEXTS, y)
    assert model.classes_.shape == (len(labels),)
    assert model.classes_.dtype.kind == kind
    assert model.classes_.tolist() == sorted(labels)
    table = model.predict_proba(TEXTS)
    assert [model.classes_[j] for j in table.argmax(1)] == list(model.predict(TEXTS))
    model.save(tmp_path / "model")
    again = TextClassifier.load(tmp_path / "model")
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.classes_.dtype == model.classes_.dtype
    assert list(again.predict(TEXTS)) == list(model.predict(TEXTS))
    assert again.score(TEXTS, y) == model.score(TEXTS, y) > 0.2


def test_labels_without_json_type_are_names_after_loading() -> None:
    days = [date(2024, 1, 1), date(2024, 2, 1)]
    classes = Classes.of(Targets([[day] for day in days], "single"))
    assert classes.array().tolist() == days
    assert Classes.from_json(classes.to_json()).values == ("2024-01-01", "2024-02-01")


# --- texts ------------------------------------------------------------------------------------------------------------


def test_texts_may_come_from_generators_and_tables_of_one_column() -> None:
    expected = small().fit(X, Y).predict(X[:9]).tolist()  # type: ignore[union-attr]
    column = np.array(X, object)[:, None]
    for texts in (iter(X), np.array(X), column, Table(column)):
        model = small().fit(texts, np.array(Y)[:, None])
        assert model.predict(text for text in X[:9]).tolist() == expected  # type: ignore[union-attr]
    assert small().fit(X, iter(Y)).predict(Table(column[:9])).tolist() == expected  # type: ignore[union-attr]


@pytest.mark.parametrize("texts", [np.array([["a", "b"]]), Table([["a", "b"]])])
def test_tables_of_several_columns_are_rejected_as_texts(texts: Any) -> None:
    with pytest.raises(
        DataError, match=r"X must be a list or one column, got shape \(1, 2\)\. Pass one column of it\."
    ):
        as_texts(texts)


# --- a loaded classifier ----------------------------------------------------------------------------------------------


def test_loaded_classifier_keeps_its_parameters(tmp_path: Path) -> None:
    base = pytest.importorskip("sklearn.base")
    model = small(seed=3, dev_fraction=0.2, ngrams=1).fit(X, Y)
    model.save(tmp_path / "one")
    again = TextClassifier.load(tmp_path / "one")
    assert again.get_params() == model.get_params()
    assert repr(again) == repr(model)
    again.save(tmp_path / "two")
    assert np.array_equal(TextClassifier.load(tmp_path / "two").predict_proba(X), model.predict_proba(X))
    twin = base.clone(again)
    assert np.array_equal(twin.fit(X, Y).predict_proba(X), model.predict_proba(X))


def test_estimator_of_a_command_line_run_has_its_config(tmp_path: Path) -> None:
    words = ["train", sample_path("assistant/dev.tsv"), "--model", "loglinear", "--max-epochs", "2", "--ngrams", "1"]
    words += ["--loss", "hinge", "--seed", "4", "-q", "-o", tmp_path / "run"]
    assert main([str(word) for word in words]) == 0
    model = TextClassifier.load(tmp_path / "run")
    assert (model.model, model.max_epochs, model.seed, model.ngrams) == ("loglinear", 2, 4, 1)  # type: ignore[attr-defined]
    run: Any = model.task_.config
    own = configs.parse(ClassifyConfig, model.config_values())
    assert own.model_copy(update={"data": run.data, "machine": run.machine}) == run
    model.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").get_params() == model.get_params()


def test_score_rejects_labels_of_another_type(tmp_path: Path) -> None:
    model = small().fit(TEXTS, ["1", "2"] * 30)
    with pytest.raises(DataError, match=r"such as '1' \(str\), got [12] \(int\)\. Convert y to the type of classes_"):
        model.score(TEXTS, [1, 2] * 30)
    with pytest.raises(DataError, match=r"y must have one label per text \(60\), got 1"):
        model.score(TEXTS, ["1"])


@pytest.mark.parametrize("labels", [[b"a", b"\xff"], [(b"a", 1), ("a", 1)], [b"a", "a"]])
def test_bytes_come_back_from_json(labels: list) -> None:
    classes = Classes.of(as_targets(labels, several=False))
    assert Classes.from_json(json.loads(json.dumps(classes.to_json()))).values == classes.values
