"""Language models without a network of their own: n-gram models, and mixtures of trained models."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from catena import config as configs
from catena.checkpoint import CONFIG, Checkpoint, open_checkpoint
from catena.data.config import VocabularyConfig, WhitespaceTokenizerConfig
from catena.data.corpus import Corpus
from catena.data.examples import Text
from catena.data.special_tokens import BEGIN_SYMBOL
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.errors import ConfigError, DataError
from catena.lm.ngram.binary import load_binary
from catena.lm.ngram.packed import PackedNgrams
from catena.lm.ngram.trie import NgramInfo
from catena.tasks.base import Origin
from catena.tasks.config import model_section
from catena.tasks.fitted import FitReporter, FittedTask
from catena.tasks.lm.config import LmConfig, LmMixtureConfig, LmOptions, NgramConfig
from catena.tasks.lm.data import LmEncoding, TextPart, load_encoding, prepare_text
from catena.tasks.lm.predict import ScoredText
from catena.tasks.lm.task import LmTask
from catena.tasks.runs import load_task
from catena.tasks.sources import Sources

if TYPE_CHECKING:
    import torch

    from catena.lm.base import AutoregressiveLM
    from catena.lm.ngram.model import NgramModel

_MODEL, _PARTS = "ngrams.bin", "parts"
_MIB = 2**20
_SENTENCES = 1000
"""Number of sentences between two progress reports."""


class FittedLmTask(FittedTask[LmConfig, Text, ScoredText, LmOptions], LmTask):
    """A language model that is estimated without gradient steps."""

    quantizable = False
    config: LmConfig
    encoding: LmEncoding

    @property
    def stepper_device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    @classmethod
    def _given_encoding(cls, config: LmConfig) -> LmEncoding | None:
        """The encoding that the config determines, if the text does not."""
        return None

    @classmethod
    def gather(cls, config: LmConfig, sources: Sources[Text], origin: Origin) -> tuple[Any, list[str]]:
        data = prepare_text(config, sources, cls._given_encoding(config))
        return data, data.lines

    def n_tokens(self, parts: Any) -> int:
        return parts.train.tokens

    def save(self, folder: Path) -> None:
        self.encoding.save(folder)


class StoredNgrams(NamedTuple):
    """The content of the file of an n-gram model."""

    packed: PackedNgrams
    vocabulary: Vocabulary
    about: NgramInfo


class NgramLmTask(FittedLmTask):
    """An n-gram model. Neither torch nor Numba is imported to score a few texts in a command."""

    def __init__(self, config: LmConfig, encoding: LmEncoding, stored: NgramModel | StoredNgrams) -> None:
        self.config, self.encoding, self._stored = config, encoding, stored

    @cached_property
    def model(self) -> NgramModel:
        """The model as a stepper."""
        from catena.lm.ngram.model import NgramModel

        return NgramModel(*self._stored) if isinstance(self._stored, StoredNgrams) else self._stored

    @property
    def stepper(self) -> AutoregressiveLM[Any]:
        return self.model

    def separate_log_probs(self, corpus: Corpus) -> np.ndarray:
        packed = self._stored.packed
        begun = packed.begin_state(self._stored.vocabulary.special(BEGIN_SYMBOL))
        first, last = int(corpus.offsets[0]), int(corpus.offsets[-1])
        return packed.walk(np.asarray(corpus.flat[first:last], np.int32), corpus.offsets[1:] - first, begun)

    def part_log_probs(self, part: TextPart) -> np.ndarray:
        ends = np.array([0, part.tokens], np.int64)
        return self.separate_log_probs(Corpus(part.flat, ends) if self.config.data.unit == "file" else part.corpus)

    @classmethod
    def fit(cls, config: LmConfig, parts: Any, origin: Origin, progress: FitReporter) -> Self:
        from catena.lm.ngram.model import NgramModel  # loads compiled kernels, which networks do not need

        settings, train, encoding = model_section(config, NgramConfig), parts.train, parts.encoding
        model = NgramModel.train_ids(
            _with_progress(count_sequences(train, encoding), train.tokens, progress),
            encoding.vocabulary,
            settings.order,
            _estimator(settings),
            settings.prune,
            None if settings.memory is None else settings.memory * _MIB,
            progress.working,
        )
        if settings.prune_entropy:
            before = sum(model.packed.trie().shape.sizes)
            model = model.pruned(settings.prune_entropy)
            left = sum(model.packed.trie().shape.sizes)
            progress.note(f"n-grams: {left:,} of {before:,} remain after entropy pruning")
        for note in model.notes:
            progress.note(note)
        return cls(config, encoding, model)

    @classmethod
    def load(cls, config: LmConfig, checkpoint: Checkpoint, device: str) -> Self:
        folder = checkpoint.folder  # its manifest has compared the checksum of every file
        stored = StoredNgrams(*load_binary(folder / _MODEL, verify=False))
        return cls(config, load_encoding(folder, config.data.unit), stored)

    @classmethod
    def open_file(cls, path: Path) -> Self:
        """The model of an ARPA file or a file written by ``NgramModel.save``. It splits text at whitespace."""
        from catena.lm.ngram.model import NgramModel

        model, tokens = NgramModel.load(path), WhitespaceTokenizerConfig(lowercase=False)
        settings = NgramConfig(order=model.order)
        config = LmConfig(tokenizer=tokens, vocabulary=VocabularyConfig(min_count=1), model=settings)
        return cls(config, LmEncoding(build_tokenizer(tokens), model.vocabulary, config.data.unit), model)

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.model.save(folder / _MODEL)

    def export(self, to: str | None, folder: Path, quantization: str | None = None) -> None:
        """Export the model to a new ARPA file."""
        if to not in (None, "arpa"):
            raise ConfigError(f"--to must be arpa for a language model, got {to!r}. Pass --to arpa.")
        if quantization is not None:
            raise ConfigError(f"--quantization applies only to networks, got {quantization!r}. Remove it.")
        if folder.exists():
            raise DataError(f"{folder} exists already. Choose another file name.")
        if not folder.parent.is_dir():
            raise DataError(f"Folder not found: {folder.parent}. Create it before exporting to {folder}.")
        self.model.save_arpa(folder)


def _estimator(settings: NgramConfig) -> Any:
    """The estimator of a config, with its options bound."""
    from catena.lm.ngram.estimators import ESTIMATORS

    options = settings.options()
    if "backoff" in options:
        options["weight"] = options.pop("backoff")
    return partial(ESTIMATORS[settings.estimator], **options) if options else settings.estimator


def _with_progress(sentences: Iterator[np.ndarray], tokens: int, progress: FitReporter) -> Iterator[np.ndarray]:
    """The same sentences, with progress reported by the number of tokens read."""
    read = 0
    for n, ids in enumerate(sentences):
        if n % _SENTENCES == 0:
            progress.working("reading", min(1.0, read / max(tokens, 1)))
        read += len(ids) + 1
        yield ids


def count_sequences(part: TextPart, encoding: LmEncoding) -> Iterator[np.ndarray]:
    """The sequences that an n-gram model counts, without end symbols: the lines, or the whole text as one."""
    corpus = part.corpus
    whole = [part.flat] if encoding.unit == "file" else (corpus[i] for i in range(len(corpus)))
    for ids in whole:
        yield ids[:-1] if len(ids) and ids[-1] == encoding.end else ids


class MixtureLmTask(FittedLmTask):
    """A mixture of trained language models; the run folder holds copies of them.

    Each model scores every line separately, as the start of a text.
    """

    filled_keys = ("model.weights", "tokenizer.", "vocabulary.")

    def __init__(
        self, config: LmConfig, encoding: LmEncoding, model: AutoregressiveLM[Any], folders: list[Path] | None = None
    ) -> None:
        self.config, self.encoding, self.model, self._folders = config, encoding, model, folders or []

    @property
    def stepper(self) -> AutoregressiveLM[Any]:
        return self.model

    @classmethod
    def _given_encoding(cls, config: LmConfig) -> LmEncoding:
        return _common_encoding(config)

    @classmethod
    def fit(cls, config: LmConfig, parts: Any, origin: Origin, progress: FitReporter) -> Self:
        """Fit the mixture weights on train."""
        import torch

        from catena.lm.mixture import LinearMixture, fit_weights
        from catena.tasks.lm.batches import text_log_probs

        settings = model_section(config, LmMixtureConfig)
        encoding: LmEncoding = parts.encoding
        folders = [open_checkpoint(Path(one)).folder for one in settings.runs]
        models = _models(folders, encoding, settings)
        config = _with_encoding_options(config, folders[0])
        weights = settings.weights
        if not weights:
            train: Any = parts.train
            each = [torch.from_numpy(text_log_probs(model, train, config, torch.device("cpu"))) for model in models]
            weights = fit_weights(torch.stack(each)).weights
        names = [*settings.runs, *(["cache"] if settings.cache else [])]
        pairs = zip(names, weights, strict=True)
        progress.note("weights: " + ", ".join(f"{name} {weight:.4f}" for name, weight in pairs))
        fitted = config.model_copy(update={"model": settings.model_copy(update={"weights": tuple(weights)})})
        return cls(fitted, encoding, LinearMixture(models, weights), folders)

    @classmethod
    def load(cls, config: LmConfig, checkpoint: Checkpoint, device: str) -> Self:
        from catena.lm.mixture import LinearMixture

        settings, encoding = model_section(config, LmMixtureConfig), load_encoding(checkpoint.folder, config.data.unit)
        folders = [checkpoint.folder / _PARTS / str(i) for i in range(len(settings.runs))]
        models = _models(folders, encoding, settings)
        return cls(config, encoding, LinearMixture(models, settings.weights), folders)

    def save(self, folder: Path) -> None:
        super().save(folder)
        for i, part in enumerate(self._folders):
            shutil.copytree(part, folder / _PARTS / str(i))


def _common_encoding(config: LmConfig) -> LmEncoding:
    """The encoding of the models of a mixture.

    Raises:
        ConfigError: if the tokenizers, vocabularies or ``data.unit`` differ.
    """
    runs = model_section(config, LmMixtureConfig).runs
    folders = [open_checkpoint(Path(run)).folder for run in runs]
    unit = configs.load(LmConfig, folders[0] / CONFIG).data.unit
    if unit != config.data.unit:
        raise ConfigError(
            f"data.unit must be {unit!r}, as in {runs[0]}, got {config.data.unit!r}. Set data.unit to {unit!r}."
        )
    first, *others = (load_encoding(folder, unit) for folder in folders)
    for run, other in zip(runs[1:], others, strict=True):
        same_tokens = other.tokenizer.settings == first.tokenizer.settings
        if not same_tokens or other.vocabulary.symbols != first.vocabulary.symbols:
            raise ConfigError(
                f"The models of a mixture need the same tokenizer and vocabulary; {run} with "
                f"{len(other.vocabulary):,} symbols differs from {runs[0]}. Train both on the same text with the same "
                f"tokenizer and vocabulary options."
            )
    return first


def _models(folders: list[Path], encoding: LmEncoding, settings: LmMixtureConfig) -> list[AutoregressiveLM[Any]]:
    tasks: list[Any] = [load_task(folder, "cpu") for folder in folders]
    models: list[AutoregressiveLM[Any]] = [task.stepper for task in tasks]
    if settings.cache:
        from catena.lm.mixture import CacheModel

        models.append(CacheModel(encoding.vocabulary, settings.cache, settings.cache_decay))
    return models


def _with_encoding_options(config: LmConfig, first: Path) -> LmConfig:
    """The config with the tokenizer and vocabulary options of the mixed models."""
    theirs = configs.load(LmConfig, first / CONFIG)
    return config.model_copy(update={"tokenizer": theirs.tokenizer, "vocabulary": theirs.vocabulary})
