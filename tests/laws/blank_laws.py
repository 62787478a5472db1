"""Law of all tasks: a blank item gives one empty prediction without a score, in any format."""

from __future__ import annotations

import json

from catena.tasks.application import PredictOptions, Predictor


def blank_is_answered_by_nothing(
    model: Predictor, answers: str, score: str = "log_prob", several: bool = False
) -> None:
    """The law, for a model whose JSON lists its answers under one name, or only where there are ``several``, and scores
    each of them under another."""
    (item,) = model.items_of_lines(iter(["  "]))
    for options in (PredictOptions(scores=True), PredictOptions(n_best=2, scores=True))[several:]:
        prediction = model.predict([item], options)[0]
        assert str(prediction) == ""
        assert not model.remarks(prediction)
        for format in ("text", "tsv"):
            assert not model.write(prediction, item, format).strip(), "only blanks and tabs, on one line"
        row = json.loads(model.write(prediction, item, "jsonl"))
        (answer,) = row[answers]
        assert answer[score] is None
        assert not any(value for name, value in answer.items() if name != "finished")
