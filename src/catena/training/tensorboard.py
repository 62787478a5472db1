"""Curves for TensorBoard (optional dependency). Tested in tests/training/test_report.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.extras import require
from catena.training.report import EvaluationDone, Progress, Reporter, RunResult, RunStarted


class TensorBoardReporter(Reporter):
    """Writes loss, learning rate, speed and scores to a folder for TensorBoard.

    The folder is created when training starts, because it may be inside a run folder, which must be empty before.
    """

    def __init__(self, folder: Path) -> None:
        require("tensorboard", "tensorboard", "writing curves for TensorBoard")
        self.folder = folder
        self.writer: Any = None

    def started(self, event: RunStarted) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.folder), purge_step=event.from_step + 1 if event.from_step else None)
        self.writer.add_text("run", "  \n".join((f"device: {event.device}", *event.summary)), event.from_step)

    def progress(self, event: Progress) -> None:
        self.writer.add_scalar("train/loss", event.loss, event.step)
        self.writer.add_scalar("train/learning_rate", event.rate, event.step)
        self.writer.add_scalar("train/tokens_per_second", event.tokens_per_second, event.step)

    def evaluated(self, event: EvaluationDone) -> None:
        self.progress(event.progress)
        for name, score in event.scores.items():
            self.writer.add_scalar(f"dev/{name}", score, event.progress.step)

    def note(self, words: str) -> None:
        pass

    def finished(self, outcome: RunResult) -> None:
        pass

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
