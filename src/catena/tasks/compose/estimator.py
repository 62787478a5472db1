"""The model of texts with a goal and an agenda as an estimator. Tested in tests/tasks/compose/test_task.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from catena.data.examples import SourceLocation
from catena.errors import DataError
from catena.tasks.compose.config import ComposeDataConfig
from catena.tasks.compose.data import Composition, to_composition
from catena.tasks.estimator import Estimator
from catena.tasks.targets import check_same_length


class Composer(Estimator, task="compose"):
    """Model of texts with a goal and an agenda: goals with lists of items in, texts out.

    recipes = [("Tea", ["1 cup water", "tea"]), ("Rice", ["rice", "salt"])] * 20
    composer = Composer(max_epochs=5).fit(recipes, ["Boil water. Add tea.", "Boil rice. Add salt."] * 20)
    [p.text for p in composer.predict([("Tea", ["water", "mint"])])]

    An input is a pair of goal and items, a mapping with both, or a line ``goal<TAB>item | item``; ``y`` has the texts.
    """

    def _examples(self, x: Iterable[Any], y: Iterable[str]) -> list[Composition]:
        data = ComposeDataConfig()
        inputs = [replace(to_composition(one, data), location=SourceLocation("fit", i)) for i, one in enumerate(x, 1)]
        texts = [] if y is None else list(y)
        check_same_length(inputs, texts, "input", "text")
        for i, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise DataError(f"text {i} must be a string that is not blank, got {text!r:.60}. Replace it.")
        return [replace(one, text=" ".join(text.split())) for one, text in zip(inputs, texts, strict=True)]
