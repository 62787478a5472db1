"""The string transduction task: train, resume and load."""

from __future__ import annotations

from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config, to_toml
from catena.data.reading import ReadCounter
from catena.randomness import Randomness
from catena.tasks.application import Predictor, TrainResult
from catena.tasks.fitted import FitReporter, FitResult
from catena.tasks.looped import LoopedApplication, NeuralTask, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained
from catena.tasks.transduce.config import METRICS, WHAT_NEXT, TransduceConfig
from catena.tasks.transduce.dataset import TransduceDataset, prepare
from catena.tasks.transduce.predictor import load_predictor, network_model, save_cutting
from catena.tasks.transduce.scoring import compute_scores, first_answers
from catena.training.report import Reporter
from catena.training.run import RunFolder
from catena.transduction.alphabet import Alphabet
from catena.transduction.base import StringTransducer
from catena.transduction.config import BaselineConfig, EditConfig, JointConfig, SequenceTransducerConfig
from catena.transduction.network import load_alphabets


class TransduceApplication(LoopedApplication[TransduceConfig, TransduceDataset]):
    """The task ``transduce``, p(target string | source string)."""

    settings = TransduceConfig

    def prepare(
        self, config: TransduceConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> TransduceDataset:
        if old is not None:
            check_same_model_kind(old, configs.load(TransduceConfig, old / CONFIG), config)
        data = prepare(config)
        data.old = old
        return data

    def dropped(self, data: TransduceDataset) -> ReadCounter:
        return data.tally

    def task(
        self, config: TransduceConfig, data: TransduceDataset, device: torch.device, randomness: Randomness
    ) -> NeuralTask:
        from catena.tasks.transduce.task import TransduceTask

        settings = config.model
        assert isinstance(settings, EditConfig | SequenceTransducerConfig)
        pairs = data.pairs()
        source, target = (
            load_alphabets(data.old) if data.old else (Alphabet.of(pair[side] for pair in pairs) for side in (0, 1))
        )
        randomness.seed_torch("weights")
        return TransduceTask(config, data, network_model(settings, source, target), device, randomness)

    def fits(self, config: TransduceConfig) -> bool:
        return not isinstance(config.model, EditConfig | SequenceTransducerConfig)

    def fit(
        self,
        config: TransduceConfig,
        data: TransduceDataset,
        run: RunFolder,
        randomness: Randomness,
        reporter: Reporter,
    ) -> TrainResult:
        fitting = FitReporter(run, reporter, data.lines)
        model = _fitted(config, data, fitting)
        scores = compute_scores(data.dev, first_answers(model, data.dev))
        test = compute_scores(data.test, first_answers(model, data.test)) if data.test else {}

        def save(folder: Path) -> None:
            (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
            save_cutting(data.cutting, folder)
            model.save(folder)

        tokens = sum(len(x) for x, _ in data.pairs())
        kept = FitResult(scores, METRICS[0], save, tokens, test)
        return fitting.keep(kept) if isinstance(config.model, BaselineConfig) else fitting.keep(kept, WHAT_NEXT)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, TransduceConfig)
        values = {**config.model_dump(exclude={"model", "training"}), "model": JointConfig()}
        why = "a joint n-gram model, which needs about a minute for 100,000 pairs for any time limit"
        return TransduceConfig.model_validate(values), [f"chosen: {why}"]

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))


def _fitted(config: TransduceConfig, data: TransduceDataset, fitting: FitReporter) -> StringTransducer:
    """A model that is estimated without a training loop."""
    if isinstance(config.model, BaselineConfig):
        from catena.transduction.baseline import Baseline

        return Baseline.train(data.pairs(), config.model)
    from catena.transduction.joint import JointModel

    assert isinstance(config.model, JointConfig)
    return JointModel.train(data.pairs(), config.model, fitting.note)
