"""Text classification as a whole: train, resume, load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint, read_meta
from catena.config import Config, to_toml
from catena.data.readers.vectors import vectors_for
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError
from catena.randomness import Randomness
from catena.tasks.application import Application, Predictor, Trained
from catena.tasks.classify.auto import fit_to_time
from catena.tasks.classify.dataset import Dataset, files_of, prepare
from catena.tasks.classify.encoding import TokenEncoding, load_encoding
from catena.tasks.classify.model import Classifier, build_model, log_probabilities
from catena.tasks.classify.predictor import blank_vectors, load_predictor
from catena.tasks.classify.pretrained import adopt, encoding_of, start_with
from catena.tasks.classify.scoring import scores_of
from catena.tasks.classify.settings import ClassifyConfig, NeuralModel
from catena.tasks.classify.task import LABELS, ClassifyTask
from catena.tasks.machine import choose_device, set_threads
from catena.tasks.pretrained import Pretrained, open_pretrained
from catena.training.loop import resume, train
from catena.training.report import Outcome, Reporter
from catena.training.run import RunFolder, create_run, open_run

DROPPED = "dropped.tsv"


class ClassifyApplication(Application):
    """Texts into classes."""

    def train(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        start_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> Trained:
        assert isinstance(config, ClassifyConfig)
        set_threads(config.machine.threads)
        device = choose_device(config.machine.device)
        randomness = Randomness(config.seed)
        old = open_checkpoint(start_from, reporter.note) if start_from else None
        start = open_pretrained(config.pretrained) if config.pretrained and old is None else None
        config = adopt(config, start) if start else config
        data = self._dataset(config, randomness, old.folder if old else None, start)
        model = new_model(config, data, randomness)
        if old is not None:
            old.load_into(model)
        elif start is not None:
            start_with(model, start)
        run = create_run(
            folder,
            to_toml(config),
            seed=config.seed,
            command=command,
            data=files_of(config.data),
            overwrite=overwrite,
        )
        if data.tally.dropped:
            data.tally.write(folder / DROPPED)
        task = ClassifyTask(config, data, model, device, randomness)
        saved = old is not None or start is not None
        outcome = train(task, config.training, run, randomness, reporter, save_start=saved)
        return self._trained(task, outcome, run)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, ClassifyConfig)
        return fit_to_time(config)

    def resume(self, folder: Path, reporter: Reporter) -> Trained:
        config = configs.load(ClassifyConfig, folder / CONFIG)
        set_threads(config.machine.threads or int(read_meta(folder)["threads"]))
        run = open_run(folder)
        run.check_data(files_of(config.data))
        randomness = Randomness(config.seed)
        last = run.last(lambda words: None)  # the loop tells what is wrong with it
        start = open_pretrained(config.pretrained) if config.pretrained and last is None else None
        data = self._dataset(config, randomness, last.folder if last else None, start)
        device = choose_device(config.machine.device)
        model = new_model(config, data, randomness)
        if start is not None:
            start_with(model, start)
        task = ClassifyTask(config, data, model, device, randomness)
        return self._trained(task, resume(task, config.training, run, randomness, reporter), run)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))

    def _dataset(
        self, config: ClassifyConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> Dataset:
        """The data of a run; with an old model, in its encoding and with its labels."""
        if old is None:
            return prepare(config, randomness, encoding=encoding_of(config, start) if start else None)
        theirs = configs.load(ClassifyConfig, old / CONFIG)
        if theirs.model != config.model or theirs.bagging != config.bagging:
            raise CheckpointError(
                f"--from {old} holds a model of another make ({theirs.model.kind!r}) than the one asked for "
                f"({config.model.kind!r}): leave the model's flags out to go on with it"
            )
        return prepare(config, randomness, encoding=load_encoding(theirs, old), names=Labels.load(old / LABELS))

    def _trained(self, task: ClassifyTask, outcome: Outcome, run: RunFolder) -> Trained:
        test: dict[str, float] = {}
        if len(task.data.test) and not outcome.interrupted:
            task.model.eval()
            several = task.config.data.several_labels
            temperature = task.model.get_buffer("temperature").double().cpu()
            log_probs = log_probabilities(task.logits(task.data.test).double(), several, temperature)
            test = scores_of(log_probs.numpy(), task.data.labels[task.data.test], several)
            row = {"step": outcome.best_step or outcome.steps, "part": "test", **test}
            if row not in run.metrics():  # it is there if a run that came to its end is resumed
                run.append_metrics(row)
        return Trained(run.path, outcome.metric, outcome.scores, test, outcome.interrupted)


def new_model(config: ClassifyConfig, data: Dataset, randomness: Randomness) -> Classifier:
    """A model with fresh weights, drawn by the seed, and word vectors where the config names a file of them."""
    randomness.seed_torch("weights")
    vectors = blank_vectors(config, data.encoding.size)
    if vectors is not None and isinstance(config.model, NeuralModel) and isinstance(data.encoding, TokenEncoding):
        vectors = _word_vectors(config.model, data.encoding, data)
    return build_model(config, data.encoding.size, len(data.names), vectors)


def _word_vectors(model: NeuralModel, encoding: TokenEncoding, data: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    rows, found = vectors_for(Path(str(model.embedding.vectors)), encoding.vocabulary.symbols, model.embedding.d)
    matrix, known = torch.from_numpy(rows), torch.from_numpy(found)
    share = float(known.float().mean())
    data.lines.append(
        f"{model.embedding.vectors}: vectors for {int(known.sum()):,} words, {100 * share:.1f} % of the vocabulary"
    )
    return matrix, known
