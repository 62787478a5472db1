"""The config of a task whose answers are positions of the input. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig
from catena.seq2seq.pointer_config import PointerNetworkConfig, RuleName
from catena.tasks.config import DataConfig, MachineConfig, with_suggestions
from catena.training.config import TrainingConfig

_ProblemName = Literal["own", "sort", "hull", "delaunay", "tsp"]

WHAT_NEXT = ("predict RUN FILE --n-best 3 --scores", "evaluate RUN FILE", "draw RUN -o picture.svg")
"""What one does with a trained model."""

SUGGESTED: dict[str, Any] = {"optimizer": "adam", "learning_rate": 1e-3, "clip_norm": 1.0, "max_epochs": 20}
"""How a pointer network likes to be trained."""


class PointDataConfig(DataConfig):
    """Points or tokens and the positions to point at, counted from 0: JSON lines with "points" (or "tokens") and
    "target", or two columns with a tab between them. Or a problem that data is made for without end."""

    problem: _ProblemName = "own"
    """own: files with targets say what is right. sort, hull (convex hull), delaunay (triangles) and tsp (shortest round
    trip) are made by the seed if there are no files, and answered exactly; files then need no targets."""
    size: int = Field(10, gt=0)
    """Points of a set that is made."""
    least: int | None = Field(None, gt=0)
    """If set, sets have between so many points and size."""
    values: int = Field(100, ge=0)
    """Numbers to sort are different whole numbers below this one; 0: any real numbers."""
    n_train: int = Field(100_000, gt=0)
    """Sets of an epoch that is made."""
    fresh: bool = True
    """Make new sets in every epoch; if not, each epoch has those of the first."""
    n_dev: int = Field(1000, gt=0)
    """Sets that are made to choose checkpoints by."""
    n_test: int = Field(1000, ge=0)
    """Sets that are made for the score at the end."""
    max_length: int = Field(1000, gt=0)
    """The most points or tokens of a set of a file; larger ones are left out of training and listed in dropped.tsv."""
    too_long: Literal["drop", "cut"] = "drop"
    """Sets that are too large cannot be cut."""
    rule: RuleName | Literal["auto"] = "auto"
    """What may be pointed at: any position; some, each at most once; order, each exactly once; ring, until the first
    comes again; triples, three at a time. auto: what the problem needs, and any for own data."""

    @model_validator(mode="after")
    def _fits(self) -> PointDataConfig:
        if self.least is not None and self.least > self.size:
            raise ValueError(f"data.least = {self.least} must not be above data.size = {self.size}: make it smaller")
        if self.problem == "sort" and 0 < self.values < self.size:
            raise ValueError(
                f"data.size = {self.size} different whole numbers need data.values of at least as many, and it is "
                f"{self.values}: make it larger, or 0 for real numbers"
            )
        if self.problem == "tsp" and not self.train and self.size > 12:
            raise ValueError(
                f"data.size = {self.size} is too large: the shortest round trip is found for up to 12 points. Make it "
                f"smaller, or give files with targets"
            )
        if self.folds is not None:
            raise ValueError("data.folds is not known for this task: leave it out")
        if self.too_long == "cut":
            raise ValueError("data.too_long = 'cut' would part a target from its points: leave it out")
        return self


class PointSearchConfig(Config):
    """How an answer is looked for."""

    width: int = Field(1, gt=0)
    """Beginnings that are kept at every step; 1 takes the likeliest position each time."""


class PointTrainingConfig(Config):
    """What is made small."""

    objective: Literal["likelihood", "reinforce"] = "likelihood"
    """likelihood: the right answer is to be likely. reinforce: round trips are to be short; it needs no right answers,
    is slower, and goes on well from a run that was trained by likelihood (--from)."""


class PointConfig(Config):
    """Positions of the input."""

    task: Literal["point"] = "point"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    machine: MachineConfig = MachineConfig()
    data: PointDataConfig = PointDataConfig()
    model: PointerNetworkConfig = PointerNetworkConfig()
    search: PointSearchConfig = PointSearchConfig()
    learning: PointTrainingConfig = PointTrainingConfig()
    batches: BatchConfig = BatchConfig(batch_size=128)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Train as a pointer network likes to be trained, unless the config says how."""
        return with_suggestions(data, {"pointer": SUGGESTED}, "pointer")

    @model_validator(mode="after")
    def _fits_together(self) -> PointConfig:
        if self.learning.objective == "reinforce" and self.data.problem != "tsp":
            raise ValueError(
                f"learning.objective = 'reinforce' is for round trips, and data.problem is {self.data.problem!r}: "
                f"leave it out, or choose data.problem = 'tsp'"
            )
        return self
