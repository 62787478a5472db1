"""The training loop, optimizers, schedules, reports and run folders, independent of any task."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.training.config import TrainingConfig as TrainingConfig
    from catena.training.loop import resume as resume
    from catena.training.loop import train as train
    from catena.training.report import Reporter as Reporter
    from catena.training.task import BatchLoss as BatchLoss
    from catena.training.task import EpochPlan as EpochPlan
    from catena.training.task import Evaluation as Evaluation
    from catena.training.task import Task as Task

__all__ = [
    "BatchLoss",
    "EpochPlan",
    "Evaluation",
    "Reporter",
    "Task",
    "TrainingConfig",
    "resume",
    "train",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BatchLoss": ".task",
        "EpochPlan": ".task",
        "Evaluation": ".task",
        "Reporter": ".report",
        "Task": ".task",
        "TrainingConfig": ".config",
        "resume": ".loop",
        "train": ".loop",
    },
)
