"""``sample_weight`` of classifiers and regressors: an integer weight equals that number of equal examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.validation import has_fit_parameter

from catena.data.examples import SourceLocation
from catena.errors import DataError
from catena.tasks.caption.estimator import Captioner
from catena.tasks.classify.data import from_lists
from catena.tasks.classify.estimator import TextClassifier
from catena.tasks.classify.media.data import MediaExample
from catena.tasks.parse.estimator import Parser
from catena.tasks.regress.estimator import Regressor
from catena.tasks.tag.estimator import Tagger
from catena.tasks.targets import weigh_examples
from tests.tasks.regress.helpers import make_table, make_texts

TIMES = 1 + np.arange(30) % 3
REPEATED = np.repeat(np.arange(30), TIMES)
SCIKIT_LEARN_CHECKS = (
    estimator_checks.check_sample_weights_pandas_series,
    estimator_checks.check_sample_weights_not_an_array,
    estimator_checks.check_sample_weights_list,
    estimator_checks.check_sample_weights_shape,
    estimator_checks.check_sample_weights_not_overwritten,
    estimator_checks.check_sample_weight_equivalence_on_dense_data,
)


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A dev file, so that all examples are training examples."""
    path = tmp_path_factory.mktemp("dev") / "dev.tsv"
    texts, values = make_texts(8, seed=5)
    rows = (f"{'ab'[value > 10]}\t{value}\t{text}\n" for text, value in zip(texts, values.tolist(), strict=True))
    path.write_text("label\tvalue\ttext\n" + "".join(rows), encoding="utf-8")
    return {"dev": str(path), "threads": 1}


def make_labels(k: int) -> tuple[list[str], list[str]]:
    texts, values = make_texts(30)
    ranks = np.argsort(np.argsort(values)) * k // 30
    return texts, ["abc"[rank] for rank in ranks.tolist()]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("class_weights", ["none", "balanced"])
def test_weights_of_logistic_regression_equal_repeated_texts(k: int, class_weights: str, dev: dict[str, Any]) -> None:
    texts, labels = make_labels(k)
    options = {**dev, "penalty": 0.3, "class_weights": class_weights, "label_column": "label"}
    weighted = TextClassifier("tfidf", **options).fit(texts, labels, sample_weight=TIMES)
    repeated = TextClassifier("tfidf", **options).fit([texts[i] for i in REPEATED], [labels[i] for i in REPEATED])
    plain = TextClassifier("tfidf", **options).fit(texts, labels)
    expected = repeated.predict_proba(texts)
    assert np.allclose(weighted.predict_proba(texts), expected, atol=2e-3)
    assert not np.allclose(plain.predict_proba(texts), expected, atol=2e-2)


@pytest.mark.parametrize(
    ("kind", "table"),
    [("linear", True), ("ridge", True), ("ridge", False), ("kernel_ridge", True), ("kernel_ridge", False)],
)
def test_weights_of_fitted_regression_equal_repeated_examples(kind: str, table: bool, tmp_path: Path) -> None:
    x, y = make_table(30) if table else make_texts(30)
    columns = np.asarray(x) if table else np.array(x)[:, None]
    y = y + np.random.default_rng(2).normal(size=30)
    names = ("1", "2", "3") if table else ("text",)
    rows = ("\t".join(map(str, (*row, value))) for row, value in zip(columns[:5].tolist(), y[:5].tolist(), strict=True))
    (tmp_path / "dev.tsv").write_text("\t".join((*names, "value")) + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    options: dict[str, Any] = {"dev": str(tmp_path / "dev.tsv"), "threads": 1}
    options |= {} if kind == "linear" else {"alpha": [3.0]} if kind == "ridge" else {"alpha": [0.5], "gamma": [1.0]}
    weighted = Regressor(kind, **options).fit(x, y, sample_weight=TIMES)
    repeated = Regressor(kind, **options).fit([x[i] for i in REPEATED], y[REPEATED])
    plain = Regressor(kind, **options).fit(x, y)
    assert np.allclose(weighted.predict(x), repeated.predict(x), atol=1e-5)
    assert not np.allclose(plain.predict(x), repeated.predict(x), atol=1e-3)


@pytest.mark.parametrize("kind", ["loglinear", "mlp", "cnn"])
def test_heavy_texts_decide_contradictory_labels(kind: str, dev: dict[str, Any]) -> None:
    """Each text occurs with both labels; the heavier one wins."""
    texts = [*["red old", "blue new"] * 20, *["red old", "blue new"] * 20]
    labels = [*["a", "b"] * 20, *["b", "a"] * 20]
    options = {**dev, "label_column": "label", "max_epochs": 20, "learning_rate": 0.01, "seed": 1}
    if kind == "loglinear":
        options["learning_rate"] = 0.3
    for heavy in (0, 1):
        weights = np.where(np.arange(80) // 40 == heavy, 9.0, 1.0)
        model = TextClassifier(kind, **options).fit(texts, labels, sample_weight=weights)
        assert model.predict(["red old", "blue new"]).tolist() == [["a", "b"], ["b", "a"]][heavy]


def test_heavy_examples_decide_the_values_of_a_network() -> None:
    x, y = np.tile([[0.0], [1.0]], (60, 1)), np.repeat([0.0, 10.0], 60)
    options = {"max_epochs": 20, "learning_rate": 0.01, "seed": 0, "threads": 1}
    low = Regressor("mlp", **options).fit(x, y, sample_weight=np.where(y == 0, 9.0, 1.0))
    high = Regressor("mlp", **options).fit(x, y, sample_weight=np.where(y == 0, 1.0, 9.0))
    assert (low.predict(x[:2]) < 4).all()
    assert (high.predict(x[:2]) > 6).all()


def test_scale_of_weights_does_not_change_a_network() -> None:
    texts, labels = make_labels(2)
    options = {"max_steps": 3, "seed": 0, "threads": 1}
    one, thousand = (
        TextClassifier("mlp", **options).fit(texts, labels, sample_weight=scale * TIMES) for scale in (1, 1000)
    )
    assert np.allclose(one.predict_proba(texts), thousand.predict_proba(texts), atol=1e-6)


@pytest.mark.parametrize("kind", ["tfidf", "loglinear", "cnn"])
def test_weight_zero_equals_leaving_a_text_out(kind: str) -> None:
    texts, labels = make_labels(2)
    kept = np.arange(30) % 4 > 0
    options = {"seed": 0, "threads": 1, **({} if kind == "tfidf" else {"max_epochs": 2})}
    weighted = TextClassifier(kind, **options).fit(texts, labels, sample_weight=kept)
    shorter = TextClassifier(kind, **options).fit([t for t, k in zip(texts, kept, strict=True) if k],
                                                  [one for one, k in zip(labels, kept, strict=True) if k])  # fmt: skip
    assert np.array_equal(weighted.predict_proba(texts), shorter.predict_proba(texts))


def test_equal_weights_change_nothing() -> None:
    x, y = make_table(40)
    plain, weighted = Regressor("ridge").fit(x, y), Regressor("ridge").fit(x, y, sample_weight=np.ones(40))
    assert np.array_equal(plain.predict(x), weighted.predict(x))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0] * 29, r"shape \(30,\), got \(29,\)"),
        (np.ones((30, 1)), r"shape \(30,\), got \(30, 1\)"),
        ([1.0] * 29 + [-1.0], r"at least 0, got -1.0 at 29"),
        ([1.0] * 29 + [float("nan")], "finite"),
        ([0.0] * 30, "only 0"),
        (["heavy"] * 30, "must be numbers"),
    ],
)
def test_invalid_weights_raise(weights: Any, words: str) -> None:
    texts, labels = make_labels(2)
    with pytest.raises(DataError, match=words):
        TextClassifier("tfidf").fit(texts, labels, sample_weight=weights)


def test_weights_of_a_file_raise(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tred\nb\tblue\n" * 9, encoding="utf-8")
    with pytest.raises(DataError, match="must be None for a file"):
        TextClassifier("tfidf").fit(tmp_path / "train.tsv", sample_weight=[1.0] * 18)


@pytest.mark.parametrize("cls", [Tagger, Parser, Captioner])
def test_other_estimators_have_no_weights(cls: Any) -> None:
    """Their ``fit`` lacks the parameter, which is how scikit-learn finds out."""
    assert not has_fit_parameter(cls(), "sample_weight")
    with pytest.raises(TypeError, match="sample_weight"):
        cls().fit([["a"]], [["O"]], sample_weight=[1.0])


def test_weights_of_pictures_raise() -> None:
    example = MediaExample(Path("a.png"), ("x",), SourceLocation("fit", 1), np.zeros((2, 2, 3)))
    with pytest.raises(DataError, match="must be None for pictures and sounds"):
        weigh_examples([example], [1.0])


def test_examples_keep_their_order_and_weights() -> None:
    examples = list(from_lists(["x", "y", "z"], [["a"], ["b"], ["a"]], "fit"))
    assert [(e.text, e.weight) for e in weigh_examples(examples, [2, 0, 0.5])] == [("x", 2.0), ("z", 0.5)]
    assert weigh_examples(examples, None) == examples


@pytest.mark.parametrize("check", SCIKIT_LEARN_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("options", [{"model": "ridge", "alpha": [1.0]}, {"model": "linear"}], ids=lambda o: o["model"])
def test_scikit_learn_checks_of_weights_pass(check: Callable[..., None], options: dict[str, Any]) -> None:
    """With all examples in train, since scikit-learn's check compares fits of different numbers of examples."""
    check("Regressor", Regressor(**options, train_on_dev=True))
