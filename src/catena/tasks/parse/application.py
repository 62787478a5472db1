"""The task parse: the kind of the model selects the dependency or the constituency application.

Each of the two is an :class:`~catena.tasks.application.TaskApplication` with the config
:class:`~catena.tasks.parse.config.ParseConfig`: usually a :class:`~catena.tasks.looped.LoopedApplication` with
``prepare``, ``task``, ``dropped``, ``load`` and, for counted models, ``fits`` and ``fit``. Its predictor is a
:class:`~catena.tasks.parse.predictor.ParsePredictor`. ``_HALVES`` maps each kind of model to its application.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.config import Config
from catena.tasks.application import NO_LIMITS, Predictor, TaskApplication, TrainResult
from catena.tasks.parse.config import ParseConfig
from catena.training.report import Reporter

_DEPENDENCY = "catena.tasks.parse.dependency.application:DependencyApplication"
_CONSTITUENCY = "catena.tasks.parse.constituency.application:ConstituencyApplication"

_HALVES = {"biaffine": _DEPENDENCY, **dict.fromkeys(("pcfg", "grammar", "span", "seq2seq"), _CONSTITUENCY)}
"""``module:Class`` of the application for each kind of model."""


def parser_family(config: ParseConfig) -> TaskApplication:
    """The application for the model of a config."""
    module, _, name = _HALVES[config.model.kind].partition(":")
    half: TaskApplication = getattr(importlib.import_module(module), name)()
    return half


class ParseApplication(TaskApplication):
    """Parsing of sentences."""

    def train(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        start_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> TrainResult:
        assert isinstance(config, ParseConfig)
        half = parser_family(config)
        return half.train(config, folder, reporter, start_from=start_from, overwrite=overwrite, command=command)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, ParseConfig)
        return parser_family(config).fit_to_time(config)

    def resume(self, folder: Path, reporter: Reporter, limits: Mapping[str, object] = NO_LIMITS) -> TrainResult:
        return parser_family(configs.load(ParseConfig, folder / CONFIG)).resume(folder, reporter, limits)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        checkpoint = open_checkpoint(folder)
        return parser_family(configs.load(ParseConfig, checkpoint.folder / CONFIG)).load(checkpoint.folder, device)
