"""Law of all tasks: a blank item gives one empty prediction without a score, in any format."""

from __future__ import annotations

import json
from typing import Any

from catena.tasks.base import BaseTask
from catena.tasks.writing import PredictionWriter


def blank_gives_an_empty_prediction(task: BaseTask[Any, Any, Any, Any], *, known: tuple[str, ...] = ()) -> None:
    """The law, for a task with the options ``n_best`` and ``scores``; ``known`` are fields that describe the input."""
    for n_best in (1, 2):
        options = task.options_class.model_validate({"n_best": n_best, "scores": True})
        (prediction,) = task.predict(["  "], options)
        assert str(prediction) == ""
        assert not task.warnings(prediction, options)
        for format in ("text", "tsv"):
            (line,) = PredictionWriter(format).lines(prediction)
            assert not line.strip(), "only blanks and tabs, on one line"
        (line,) = PredictionWriter("jsonl").lines(prediction)
        row = json.loads(line)
        assert row["log_prob"] is None
        assert not any(value for name, value in row.items() if name not in known)
