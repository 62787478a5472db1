from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import catena
from catena.data.samples.corpus import load_sample
from catena.errors import CatenaError, ConfigError, DataError
from catena.tasks.classify.estimator import TextClassifier

EXAMPLES = load_sample("dev")
X, Y = [e.text for e in EXAMPLES], [e.labels[0] for e in EXAMPLES]


def small(**options: object) -> TextClassifier:
    return TextClassifier("loglinear", max_epochs=3, learning_rate=0.05, **options)  # type: ignore[arg-type]


def test_fit_predict_score() -> None:
    model = small().fit(X, Y)
    assert sorted(model.classes_) == sorted(set(Y))
    found = model.predict(X)
    assert model.score(X, Y) == np.mean(found == np.array(Y)) > 0.5
    table = model.predict_proba(X)
    assert (model.classes_[table.argmax(1)] == found).all()
    assert "accuracy" in model.scores_


def test_predictions_have_the_type_of_the_labels() -> None:
    numbers = [len(label) for label in Y]
    found = small().fit(X, numbers).predict(X[:3])
    assert set(found.tolist()) <= set(numbers)
    flags = [label.startswith("s") for label in Y]
    assert small().fit(X, flags).predict(X[:3]).dtype == bool


def test_multilabel() -> None:
    labels = [[label, "any"] for label in Y]
    model = small(multilabel=True).fit(X, labels)
    assert all("any" in found for found in model.predict(X))
    assert 0 <= model.score(X, labels) <= 1


def test_same_seed_gives_the_same_model() -> None:
    first, again = (small(seed=5).fit(X, Y).predict_proba(X[:20]) for _ in range(2))
    assert np.array_equal(first, again)


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = small().fit(X, Y)
    model.save(tmp_path / "model")
    table = model.predict_proba(X[:9])
    assert np.array_equal(TextClassifier.load(tmp_path / "model").predict_proba(X[:9]), table)
    assert np.array_equal(catena.load(tmp_path / "model").predict_proba(X[:9]), table)
    with pytest.raises(ConfigError, match="exists"):
        model.save(tmp_path / "model")


def test_keywords_set_any_config_option() -> None:
    model = small(ngrams=1, tokenizer="characters").fit(X[:60], Y[:60])
    assert model.task_.config.model.features.ngrams == 1  # type: ignore[attr-defined]
    assert model.task_.config.tokenizer.kind == "characters"  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="did you mean 'ngrams'"):
        small(ngram=1)


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(CatenaError, match="not fitted yet"):
        small().predict(X)
    with pytest.raises(DataError, match="one label per text"):
        small().fit(X, Y[:-1])
    with pytest.raises(DataError, match="Put it in a list"):
        small().fit("a text", ["x"])
    with pytest.raises(ConfigError, match="did you mean 'cnn'"):
        TextClassifier("cnnn").fit(X, Y)


def test_estimator_works_in_scikit_learn() -> None:
    base = pytest.importorskip("sklearn.base")
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    model = small(ngrams=1)
    twin = base.clone(model)
    assert twin is not model
    assert twin.get_params() == model.get_params()
    assert base.is_classifier(model)
    pipeline = Pipeline([("lower", FunctionTransformer(_lower)), ("model", small())])
    assert pipeline.fit(X, Y).score(X, Y) > 0.5
    search = GridSearchCV(small(ngrams=1), {"features_min_count": [12, 1]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"features_min_count": 1}
    assert search.predict(X[:2]).shape == (2,)
    assert len(cross_val_score(small(), X, Y, cv=2)) == 2
    with pytest.raises(ConfigError, match="TextClassifier has no option 'learning_rat'"):
        model.set_params(learning_rat=3)


def _lower(texts: list[str]) -> list[str]:
    return [text.lower() for text in texts]


def test_estimator_works_without_scikit_learn() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from catena import TextClassifier\n"
        "m = TextClassifier('loglinear', max_epochs=1).fit(['a b', 'c d'] * 9, ['x', 'y'] * 9)\n"
        "assert len(m.predict(['a'])) == 1"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_label_and_list_of_labels_are_not_confused() -> None:
    """A string must not be read as a list of letters, nor a list as the name of one class."""
    with pytest.raises(
        DataError, match=r"label 0 must be a list of labels with multilabel=True, got 'weather'. Pass \['weather'\]"
    ):
        small(multilabel=True).fit(["it rains", "play"], ["weather", "music"])
    with pytest.raises(DataError, match=r"label 1 must be one label, got a list: \['music'\]\. Set multilabel=True"):
        small().fit(["it rains", "play"], ["weather", ["music"]])
