"""A language model of recordings as a task: reading, training, scores, ensembles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.audio import Audio, resample
from catena.data.examples import SourceLocation
from catena.data.mulaw import encode_mulaw
from catena.data.reading import ReadCounter
from catena.data.recordings import WindowBatch, WindowPlan, evaluation_windows
from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.metrics.measure import Metric
from catena.randomness import Randomness
from catena.tasks.base import BaseTask, Origin
from catena.tasks.lm.config import LmConfig, LmOptions
from catena.tasks.lm.sound.config import METRIC, NEXT_COMMANDS, WaveNetLMConfig
from catena.tasks.lm.sound.data import (
    RecordingExample,
    RecordingRows,
    decode_recordings,
    get_model,
    read_parts,
    read_recording_files,
)
from catena.tasks.lm.sound.model import (
    RecordingBatch,
    RecordingEncoding,
    RecordingEpoch,
    RecordingNetwork,
    fit_norm,
    open_series,
)
from catena.tasks.lm.sound.predict import BITS_PER_SAMPLE, RecordingEvaluation, ScoredRecording
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask
from catena.tasks.sources import Sources
from catena.training.task import BatchLoss, EpochPlan


class SoundLmTask(NeuralTask[LmConfig, RecordingExample, ScoredRecording, LmOptions]):
    """A WaveNet over recordings.

    Args:
        config: the config.
        encoding: its speakers.
        network: its network.
        others: further models of an ensemble; probabilities are averaged.
    """

    name = "lm"
    options_class = LmOptions
    formats = ("tsv", "text", "csv", "jsonl")
    next_commands: ClassVar[tuple[str, ...]] = NEXT_COMMANDS
    stream_block = 16
    reads_split_columns = False
    encoding: RecordingEncoding
    encoding_class = RecordingEncoding

    def __init__(
        self,
        config: LmConfig,
        encoding: RecordingEncoding,
        network: RecordingNetwork,
        others: Sequence[SoundLmTask] = (),
    ) -> None:
        super().__init__(config, encoding, network)
        self.others = tuple(others)

    @property
    def model_config(self) -> WaveNetLMConfig:
        """The section of the model."""
        return get_model(self.config)

    @property
    def recording_network(self) -> RecordingNetwork:
        """The network with its front end."""
        return self._network  # type: ignore[return-value]

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls, config: LmConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[RecordingExample]:
        return read_recording_files(config, path, counter)

    @classmethod
    def describe_file(cls, config: LmConfig, path: Path) -> str:
        if path.is_dir():
            what = "a folder of recordings"
        else:
            what = "a table with a column of recordings" if path.suffix in (".csv", ".tsv") else "read as recordings"
        return f"{path.name} is {what}, {get_model(config).sample_rate} samples in a second"

    def to_example(self, item: Any) -> RecordingExample:
        return self.to_examples([item])[0]

    def to_examples(self, items: Sequence[Any], speakers: Sequence[str | None] | None = None) -> list[RecordingExample]:
        """The decoded examples of paths, of :class:`~catena.data.audio.Audio`, or of arrays at the model's rate."""
        return to_examples(self.model_config, items, speakers)

    @classmethod
    def split_key(cls, example: RecordingExample) -> str:
        return str(example.path)

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: LmConfig, sources: Sources[RecordingExample], origin: Origin) -> NetworkTraining:
        """As in the base class, but files are listed first and then decoded together into one array."""
        lines, (parts, counts) = sources.describe(), read_parts(config, sources)
        train = parts["train"]
        encoding = cls.load_encoding(config, origin.folder) if origin.folder else _new_encoding(config, train)
        origin.randomness.seed_torch("weights")
        network = cls.build_network(config, encoding)
        levels = np.bincount(train.recordings.levels, minlength=get_model(config).n_levels)
        network.wavenet.output.start_at(levels + 1.0)
        series = network.open_series(train)
        if series is not None and network.norm is not None:
            fit_norm(network.norm, series, len(train))
        task = cls(config, encoding, network)
        parts = {part: task._with_predictions(rows) for part, rows in parts.items()}
        lines += [counts, *task._describe_parts(parts)]
        data = Dataset(parts["train"], parts["dev"], parts["test"], lines)
        return NetworkTraining(task, data, origin.randomness)

    def _describe_parts(self, parts: dict[str, RecordingRows]) -> list[str]:
        rate = self.model_config.sample_rate
        lines = [
            f"{part}: {len(rows):,} recording{'' if len(rows) == 1 else 's'}, {rows.recordings.n_samples:,} samples, "
            f"{rows.recordings.n_samples / rate:.1f} s"
            for part, rows in parts.items()
            if len(rows)
        ]
        if self.model_config.speakers:
            lines.append(f"{len(self.encoding.speakers)} speakers: {', '.join(self.encoding.speakers.names[:8])}")
        return lines

    @classmethod
    def build_network(
        cls, config: LmConfig, encoding: RecordingEncoding, report: list[str] | None = None
    ) -> RecordingNetwork:
        return RecordingNetwork(get_model(config), encoding)

    def encode(self, examples: Sequence[RecordingExample], *, gold: bool = True) -> RecordingRows:
        return self._with_predictions(decode_recordings(self.model_config, examples, ReadCounter()))

    def _with_predictions(self, rows: RecordingRows) -> RecordingRows:
        """The recordings with the predictions of the model's linear predictors, if it has any."""
        return replace(rows, predictions=self.recording_network.open_predictions(rows))

    # --- batches and loss ---------------------------------------------------------------------------------------------

    def epoch(self, rows: RecordingRows, number: int, randomness: Randomness) -> EpochPlan:
        network, batches = self.recording_network, self.config.batches
        plan = WindowPlan(
            rows.recordings,
            field=network.wavenet.field,
            n_targets=batches.length,
            batch_size=batches.batch_size,
            hop=network.hop,
            seed=self.config.seed,
            epoch=number,
        )
        changes = randomness.numpy("changes of windows", number)
        series, predictions = network.open_series(rows), network.open_predictions(rows)
        return RecordingEpoch(network, plan, self._speaker_ids(rows), series, changes, predictions)

    def _speaker_ids(self, rows: RecordingRows) -> Int[np.ndarray, " n"]:
        return self.encoding.speaker_ids(example.speaker for example in rows.examples)

    def describe_batch(self, batch: RecordingBatch) -> str:
        return f"{batch.inputs.shape[0]} windows of {batch.inputs.shape[1]} samples"

    def loss(self, batch: RecordingBatch) -> BatchLoss:
        n = batch.n_targets
        return BatchLoss(self.recording_network.loss(batch), n, n)

    # --- scores -------------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return {METRIC: BITS_PER_SAMPLE}

    def evaluate_rows(self, rows: RecordingRows) -> RecordingEvaluation:
        return RecordingEvaluation(self.model_config, self.score_rows(rows))

    def evaluate_examples(self, examples: Sequence[RecordingExample]) -> RecordingEvaluation:
        self._check_speaker(examples)
        return self.evaluate_rows(self.encode(examples))

    def predict_examples(self, examples: Sequence[RecordingExample], options: LmOptions) -> list[ScoredRecording]:
        self._check_speaker(examples)
        return self.score_rows(self.encode(examples, gold=False))

    def _check_speaker(self, examples: Sequence[RecordingExample]) -> None:
        """Raise DataError if the speaker that you name for recordings is unknown; one that a file names may be."""
        named = self.config.data.speaker
        if named is not None and any(example.speaker == named for example in examples):
            self.encoding.find_speaker(named)

    def score_rows(self, rows: RecordingRows) -> list[ScoredRecording]:
        """The log-probabilities of recordings, each from silence."""
        rate = rows.recordings.sample_rate
        sums = [np.zeros(-(-int(n) // rate)) for n in rows.lengths]
        for batch, log_probs in self.window_log_probs(rows):
            pairs = zip(batch.recordings.tolist(), batch.starts.tolist(), log_probs, batch.mask, strict=True)
            for i, start, own, real in pairs:
                np.add.at(sums[i], (start + np.flatnonzero(real)) // rate, own[real])
        names = [example.speaker if example.speaker in self.encoding.speakers else None for example in rows.examples]
        return [
            ScoredRecording(str(example.path), name, int(n), rate, tuple(own.tolist()))
            for example, name, n, own in zip(rows.examples, names, rows.lengths, sums, strict=True)
        ]

    def window_log_probs(self, rows: RecordingRows) -> Iterator[tuple[WindowBatch, Float[np.ndarray, "b t"]]]:
        """log p of each sample, averaged over the models of an ensemble, in batches of windows."""
        models = (self, *self.others)
        hop, batches = math.lcm(*(model.recording_network.hop for model in models)), self.config.batches
        length = -(-batches.length // hop) * hop
        opened = [(model._speaker_ids(rows), model.recording_network) for model in models]
        conditions = [(ids, network.open_series(rows), network.open_predictions(rows)) for ids, network in opened]
        field = max(model.recording_network.wavenet.field for model in models)
        for batch in evaluation_windows(rows.recordings, field, length, batches.batch_size):
            found = []
            for model, (speakers, series, predictions) in zip(models, conditions, strict=True):
                network = model.recording_network
                inputs = batch.inputs[:, field - network.wavenet.field :]
                own = WindowBatch(inputs, batch.targets, batch.mask, batch.recordings, batch.starts)
                made = network.load_batch(own, speakers[batch.recordings], series, predictions)
                found.append(network.log_probs(made).double().cpu())
            mixed: Tensor = torch.logsumexp(torch.stack(found), dim=0) - math.log(len(found))
            yield batch, mixed.numpy()

    def ensemble(self, others: Sequence[BaseTask[Any, Any, Any, Any]]) -> SoundLmTask:
        models: list[SoundLmTask] = []
        own = self.model_config
        for other in others:
            if not isinstance(other, SoundLmTask):
                raise DataError("All models of an ensemble must be models of recordings, got another. Remove it.")
            theirs = other.model_config
            if (theirs.sample_rate, theirs.n_levels) != (own.sample_rate, own.n_levels):
                raise DataError(
                    f"sample_rate and n_levels of all models must be {own.sample_rate} and {own.n_levels}, got "
                    f"{theirs.sample_rate} and {theirs.n_levels}. Train them with the same values."
                )
            models.append(other)
        return SoundLmTask(self.config, self.encoding, self.recording_network, models)

    @property
    def networks(self) -> Sequence[RecordingNetwork]:
        return tuple(model.recording_network for model in (self, *self.others))

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        model = self.model_config
        field = self.recording_network.wavenet.field
        lines = [
            f"a WaveNet over recordings: {self.n_parameters:,} parameters, {model.n_levels} levels",
            f"{model.sample_rate} samples in a second; a sample depends on the {field:,} before it, "
            f"{1000 * field / model.sample_rate:.0f} ms",
        ]
        if len(self.encoding.speakers):
            lines.append(f"{len(self.encoding.speakers)} speakers: {', '.join(self.encoding.speakers.names[:top])}")
        if orders := model.linear_prediction:
            lines.append(f"corrects adaptive linear predictors of the orders {', '.join(map(str, orders))}")
        if model.local != "nothing":
            lines.append(f"conditioned on {model.local}, {self.encoding.d_local} features for each {model.hop} samples")
        return lines


def _new_encoding(config: LmConfig, train: RecordingRows) -> RecordingEncoding:
    """The speakers of train, and the number of features of its series."""
    model, d_local = get_model(config), 0
    speakers = Labels([])
    if model.speakers:
        named = [(example.speaker,) for example in train.examples if example.speaker is not None]
        speakers = Labels.count(named)
        if len(speakers) < 1:
            raise DataError(
                "No recording of train has a speaker. Put each speaker's recordings into a subfolder, name the column "
                "with --speaker-column, or remove --speakers."
            )
    if model.local == "log_mel":
        d_local = model.n_mels
    elif model.local == "series":
        first = train.examples[0].series
        assert first is not None  # list_recordings() names one for each recording
        d_local = open_series(first).shape[1]
    return RecordingEncoding(speakers, d_local)


def to_examples(
    model: WaveNetLMConfig, items: Sequence[Any], speakers: Sequence[str | None] | None = None
) -> list[RecordingExample]:
    """Decoded examples. Raise DataError for a file that cannot be decoded.

    Args:
        model: the rate and the levels.
        items: paths, :class:`~catena.data.audio.Audio`, or arrays of samples at the rate of the model.
        speakers: the speaker of each; unknown if None.
    """
    names = [None] * len(items) if speakers is None else list(speakers)
    examples = [_to_example(model, item, i, name) for i, (item, name) in enumerate(zip(items, names, strict=True), 1)]
    counter = ReadCounter()
    rows = decode_recordings(model, examples, counter)
    counter.check_none_dropped()
    return [
        RecordingExample(e.path, e.location, e.speaker, e.series, levels=rows.recordings[i])
        for i, e in enumerate(rows.examples)
    ]


def _to_example(model: WaveNetLMConfig, item: Any, number: int, speaker: str | None) -> RecordingExample:
    if isinstance(item, RecordingExample):
        return item
    location = SourceLocation("input", number)
    if isinstance(item, str | Path):
        series = Path(item).with_suffix(".npy") if model.local == "series" else None
        return RecordingExample(Path(item), SourceLocation(str(item), 1), speaker, series)
    if isinstance(item, Audio):
        item = resample(item.samples, item.sample_rate, model.sample_rate)
    samples = np.asarray(item)
    if samples.ndim != 1:
        raise DataError(
            f"recording {number} must be a path, an Audio or an array of one channel, got {type(item).__name__} of "
            f"shape {samples.shape}. Average the channels first."
        )
    levels = encode_mulaw(samples, model.n_levels)
    return RecordingExample(Path(f"recording-{number}"), location, speaker, levels=levels)
