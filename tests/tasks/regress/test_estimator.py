"""Regression by the rules of scikit-learn."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from catena import Regressor
from catena.errors import ConfigError, DataError
from tests.tasks.regress.helpers import make_table, make_texts, train


def test_fit_predict_and_score() -> None:
    texts, values = make_texts(150)
    model = Regressor("ridge").fit(texts[:100], values[:100])
    found = model.predict(texts[100:])
    assert found.shape == (50,)
    assert model.score(texts[100:], values[100:]) == pytest.approx(r2_score(values[100:], found))
    assert model.score(texts[100:], values[100:]) > 0.9


def test_dictionaries_are_errors_instead_of_their_keys() -> None:
    model = Regressor("ridge").fit([[float(i)] for i in range(8)], [2.0 * i for i in range(8)])
    for call in (lambda: model.predict({3.0: 1}), lambda: Regressor("ridge").fit({"a": 1.0, "b": 2.0}, [1.0, 2.0])):
        with pytest.raises(DataError, match="X must be a list, got a dict"):
            call()


def test_works_with_tools_of_scikit_learn() -> None:
    x, y = make_table(60)
    assert is_regressor(Regressor())
    assert cross_val_score(Regressor("linear"), x, y, cv=3).min() > 0.9
    search = GridSearchCV(Regressor("ridge"), {"alpha": [[0.1], [1000.0]]}, cv=3).fit(x, y)
    assert search.best_params_ == {"alpha": [0.1]}
    copy = clone(Regressor("ridge", alpha=[3.0]))
    assert copy.get_params()["alpha"] == [3.0]


@pytest.mark.parametrize("given", ["lists", "array", "frame"])
def test_tables_of_numbers(given: str) -> None:
    x, y = make_table(40)
    inputs = {"lists": x.tolist(), "array": x, "frame": Frame(x)}[given]
    model = Regressor("linear").fit(inputs, y)
    assert np.allclose(model.predict(inputs), Regressor("linear").fit(x, y).predict(x))
    names = ("a", "b", "c") if given == "frame" else ("1", "2", "3")
    assert model.task_.encoding.names == names  # type: ignore[attr-defined]


def test_fit_again_takes_other_columns() -> None:
    x, y = make_table(40)
    model = Regressor("linear").fit(x[:, :1], y).fit(x, y)
    assert np.array_equal(model.predict(x), Regressor("linear").fit(x, y).predict(x))


class Frame:
    """A table with named columns, as pandas has them."""

    columns = ("a", "b", "c")

    def __init__(self, x: np.ndarray) -> None:
        self.x, self.shape = x, x.shape

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.x.astype(dtype)  # type: ignore[call-overload]


def test_intervals_have_the_chosen_probability() -> None:
    model, (texts, _) = train("ridge"), make_texts(5, 1)
    (narrow, *_), (wide, *_) = (list(model.predict_stream(texts, level=level)) for level in (0.5, 0.95))
    assert (narrow.value, narrow.std) == (wide.value, wide.std)
    assert wide.high - wide.value == pytest.approx(1.959964 * wide.std, rel=1e-5)
    assert narrow.value - narrow.low == pytest.approx(0.67449 * narrow.std, rel=1e-5)


def test_file_is_fitted_and_predicted(tmp_path: Path) -> None:
    texts, values = make_texts(60)
    rows = [f"{text},{value}" for text, value in zip(texts, values, strict=True)]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["text,price", *rows]) + "\n", encoding="utf-8")
    model = Regressor("ridge").fit(path)
    assert np.allclose(model.predict(path), model.predict(texts))
    assert model.evaluate(path).scores() == model.evaluate(texts, values).scores()
    assert model.score(path) == model.score(texts, values)


def test_pickled_model_predicts_the_same() -> None:
    model, (texts, _) = train("ridge"), make_texts(5, 1)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(texts), model.predict(texts))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (["a", "b"], [1.0], "y must have one value per input (2), got 1"),
        (["a", "b"], None, "y must be a list of numbers, got None"),
        (["a", "b"], ["x", "y"], "y must be numbers, got ['x', 'y']"),
        (["a", "b"], [1.0, math.nan], "y must be finite, got nan at 1"),
        (["a", "b"], [1.0, -math.inf], "y must be finite, got -inf at 1"),
        ([[1.0], [math.inf]], [1.0, 2.0], "X must be finite, got inf in row 1, column 0"),
        ([[1.0], [2.0, 3.0]], [1.0, 2.0], "rows of numbers of equal length"),
        (["a b", "b c", "c d", "d e"] * 5, [7.5] * 20, "must differ, got 7.5 for all"),
    ],
)
def test_wrong_data_gives_one_sentence(x: object, y: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        Regressor("ridge").fit(x, y)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_inputs_than_in_training_are_an_error() -> None:
    table, texts = train("linear", table=True), train("ridge")
    with pytest.raises(DataError, match="X must have 3 columns of numbers, as in training, got 2"):
        table.predict([[1.0, 2.0]])
    with pytest.raises(DataError, match="X must have texts, as in training, got 2 columns"):
        texts.predict([[1.0, 2.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "ridge", "variance": "learned"}, "output is only for neural models, not for model.kind = 'ridge'"),
        ({"model": "ridge", "metric": "rsme"}, "Unknown training.metric 'rsme' of this model: did you mean 'rmse'"),
        ({"model": "ridge", "alpha": [0.0]}, "alpha"),
    ],
)
def test_wrong_options_give_one_sentence(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Regressor(**options).fit(["a", "b"], [1.0, 2.0])
    assert message in str(caught.value)


def test_columns_in_another_order_are_an_error() -> None:
    x = np.random.default_rng(0).normal(size=(60, 3))
    model, swapped = Regressor("ridge").fit(Frame(x), x[:, 0]), Frame(x[:, ::-1])
    assert np.array_equal(model.predict(Frame(x)), model.predict(x))
    swapped.columns = ("c", "b", "a")
    with pytest.raises(DataError, match="X must have the columns a, b, c in this order, as in training, got c, b, a"):
        model.predict(swapped)
    assert model.predict(x[:0]).shape == (0,)
