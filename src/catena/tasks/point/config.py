"""The config of a pointer network, which outputs positions of its input. Imports no torch.

Tested in tests/tasks/point/test_task.py and tests/tasks/point/test_data.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig
from catena.seq2seq.config import PointerNetworkConfig, RuleName
from catena.tasks.config import FilesConfig, MachineConfig, SplitConfig, TaskConfig
from catena.tasks.options import PredictOptions
from catena.training.config import TrainingConfig

_ProblemName = Literal["own", "sort", "hull", "delaunay", "tsp"]

NEXT_COMMANDS = ("predict RUN FILE --n-best 3 --scores", "evaluate RUN FILE", "draw RUN -o picture.svg")
"""Commands suggested after training a pointer network."""


class PointDataConfig(FilesConfig, SplitConfig):
    """Sets of points or tokens with target positions, counted from 0, or a generated problem.

    Files are JSON lines with "points" (or "tokens") and "target", or two columns separated by a tab.
    """

    problem: _ProblemName = "own"
    """own: files have the targets. sort, hull (convex hull), delaunay (triangulation) and tsp (shortest round trip):
    exact targets are computed, and without files the data is generated from the seed."""
    size: int = Field(10, gt=0)
    """Number of points of a generated set."""
    least: int | None = Field(None, gt=0)
    """Smallest number of points of a generated set; sizes are sampled between least and size. If not set, all sets have
    size points."""
    values: int = Field(100, ge=0)
    """With sort: the numbers are distinct integers below this value. 0: real numbers."""
    n_train: int = Field(100_000, gt=0)
    """Number of generated training sets per epoch."""
    fresh: bool = True
    """Generate new sets in every epoch. If false, every epoch has the same sets."""
    n_dev: int = Field(1000, gt=0)
    """Number of generated dev sets."""
    n_test: int = Field(1000, ge=0)
    """Number of generated test sets."""
    max_length: int = Field(1000, gt=0)
    """Largest number of points or tokens of a set in a file. Larger sets are dropped from training and listed in
    dropped.tsv."""
    rule: RuleName | Literal["auto"] = "auto"
    """Allowed positions. any: any position; some: each at most once; order: each exactly once; ring: until the first
    position repeats; triples: three at a time. auto: the rule of the problem, any for own data."""

    @model_validator(mode="after")
    def _fits(self) -> PointDataConfig:
        if self.least is not None and self.least > self.size:
            raise ValueError(f"data.least must be at most data.size = {self.size}, got {self.least}. Lower it.")
        if self.problem == "sort" and 0 < self.values < self.size:
            raise ValueError(
                f"data.values must be at least data.size = {self.size} to sort distinct integers, got {self.values}. "
                f"Raise it, or set it to 0 for real numbers."
            )
        if self.problem == "tsp" and not self.train and self.size > 12:
            raise ValueError(
                f"data.size must be at most 12 to compute shortest round trips, got {self.size}. Lower it, or use "
                f"files with targets."
            )
        return self


class PointSearchConfig(Config):
    """The search for positions."""

    beam_size: int = Field(1, gt=0)
    """Beam size. 1 is greedy search."""


class PointOptions(PredictOptions):
    """Options of prediction with a pointer network."""

    n_best: int = Field(1, ge=1)
    """Return the N best outputs, best first."""
    beam_size: int | None = Field(None, ge=1)
    """Beam size of the search. 1 is greedy search. Default: as trained."""
    scores: bool = False
    """Add the log-probability of the output."""


class PointTrainingConfig(Config):
    """The training objective."""

    objective: Literal["likelihood", "reinforce"] = "likelihood"
    """likelihood: maximize the likelihood of the targets. reinforce: minimize the expected length of round trips by
    policy gradient; it needs no targets, is slower, and works best from a run trained by likelihood (--init-from)."""


class PointConfig(TaskConfig):
    """Config of a pointer network."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "pointer": {"optimizer": "adam", "learning_rate": 1e-3, "clip_norm": 1.0, "max_epochs": 20}
    }

    task: Literal["point"] = "point"
    machine: MachineConfig = MachineConfig()
    data: PointDataConfig = PointDataConfig()
    model: PointerNetworkConfig = PointerNetworkConfig()
    search: PointSearchConfig = PointSearchConfig()
    learning: PointTrainingConfig = PointTrainingConfig()
    batches: BatchConfig = BatchConfig(batch_size=128)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    def problems(self) -> Iterator[str]:
        if self.learning.objective == "reinforce" and self.data.problem != "tsp":
            yield (
                f"data.problem must be 'tsp' if learning.objective = 'reinforce', got {self.data.problem!r}. Remove "
                f"learning.objective, or set data.problem to 'tsp'."
            )
