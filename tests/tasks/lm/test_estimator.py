"""LanguageModel: fit on texts, score and generate."""

from __future__ import annotations

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
