"""The common part of applications with a training loop."""

from __future__ import annotations

import math
from pathlib import Path

from catena.tasks import looped
from catena.training.report import RunResult
from catena.training.run import create_run
from tests.training.tiny import TinyTask


class Infinite(TinyTask, looped.NeuralTask):
    """A task whose test scores are not all finite."""

    def test_scores(self) -> dict[str, float]:
        return {"perplexity": math.inf, "accuracy": 0.5}


def test_test_scores_are_stored_once_after_resumes(tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", "", seed=1)
    outcome = RunResult("max_epochs", 3, 1.0, "perplexity", 3, {}, None, None, run.path)
    for _ in range(2):
        assert looped._tested(Infinite(seed=1), outcome, run).test_scores["perplexity"] == math.inf
    assert run.metrics() == [{"step": 3, "part": "test", "perplexity": None, "accuracy": 0.5}]
