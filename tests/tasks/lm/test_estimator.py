"""LanguageModel: fit on texts, score and generate."""

from __future__ import annotations

import pytest

from catena import LanguageModel
from catena.search.config import SampleConfig
from catena.search.text_constraints import TextConstraints


def test_generate_with_constraints_satisfies_them() -> None:
    model = LanguageModel("ngram", model_order=2).fit(["set an alarm now", "set a timer now", "play a song"] * 5)
    search = SampleConfig(n=20, max_length=12)
    (free,) = model.generate(["set"], search, seed=3)
    (bound,) = model.generate(["set"], search, constraints=TextConstraints(include=("timer",), exclude=("a",)), seed=3)
    assert any("timer" not in one.text.split() for one in free)
    assert all("timer" in one.text.split() and "a" not in one.text.split() for one in bound)


def test_score_is_higher_for_better_models_although_less_perplexity_is_better() -> None:
    texts = ["anna", "hannah", "nan"] * 10
    model = LanguageModel("ngram", model_order=3, tokenizer="characters").fit(texts)
    assert model.score(texts) == -model.evaluate(texts).scores()["perplexity"]
    assert model.score(texts) > model.score(["xylophone"])


def test_language_models_are_selected_by_grid_search() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    texts = ["abcd" * 4, "bcda" * 4] * 10
    model = LanguageModel("ngram", tokenizer="characters")
    search = selection.GridSearchCV(model, {"model_order": [1, 3]}, cv=2).fit(texts)
    assert search.best_params_ == {"model_order": 3}, "the next letter follows from the last one"
