"""What the neural tasks have in common around the training loop."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

from torch import nn

from catena.tasks.neural import NetworkTraining
from catena.training.report import RunResult
from catena.training.run import create_run


class InfiniteScores(NetworkTraining):
    """A training whose test scores are not all finite."""

    def __init__(self) -> None:
        scores = SimpleNamespace(scores=lambda: {"perplexity": math.inf, "accuracy": 0.5})
        self.task = SimpleNamespace(evaluate_test=lambda rows: scores)
        self.data, self._network = SimpleNamespace(test=[1]), nn.Linear(1, 1)


def test_test_scores_are_written_once_when_a_finished_run_is_resumed(tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", "", seed=1)
    outcome = RunResult("max_epochs", 3, 1.0, "perplexity", 3, {}, None, None, run.path)
    for _ in range(2):
        assert InfiniteScores()._tested(outcome, run).test_scores["perplexity"] == math.inf
    assert run.metrics() == [{"step": 3, "part": "test", "perplexity": None, "accuracy": 0.5}]
