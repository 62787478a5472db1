"""The config of a translator. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import (
    BatchConfig,
    BpeTokenizerConfig,
    ByteTokenizerConfig,
    CharacterTokenizerConfig,
    TokenizerConfig,
    UnigramTokenizerConfig,
    VocabularyConfig,
    WhitespaceTokenizerConfig,
    WordTokenizerConfig,
)
from catena.registry import did_you_mean
from catena.search.config import BeamConfig, SearchConfig
from catena.seq2seq.config import EncoderDecoderConfig, TransformerSeq2SeqConfig
from catena.tasks.config import MachineConfig, PairFilesConfig, SplitConfig, TaskConfig
from catena.tasks.options import AttentionOptions, BeamOptions
from catena.training.config import TrainingConfig

LIKELIHOODS = ("perplexity", "nats_per_token")
"""Metrics that need no translations; lower is better."""
TRANSLATIONS = ("bleu", "bleu_lowercase", "chrf", "ter", "rouge_1", "rouge_2", "rouge_l")
"""Metrics of translations and summaries. Higher is better, except for ter."""
USUAL = ("bleu", "chrf")
"""Default metrics of translations; without sacrebleu, only chrf."""

NEXT_COMMANDS = ("predict RUN FILE", "evaluate RUN FILE", "draw RUN TEXT")
"""Commands suggested after training a translator."""


class TranslateDataConfig(PairFilesConfig, SplitConfig):
    """Pairs of texts, from two parallel files (source, target) or one file of pairs (train).

    A file of pairs has two columns separated by a tab, or is a table, JSON lines or TMX.
    """

    PATHS: ClassVar[tuple[str, ...]] = (
        "train", "dev", "test", "source", "target", "dev_source", "dev_target", "test_source", "test_target",
    )  # fmt: skip
    train: tuple[str, ...] = ()
    """Training files of source<TAB>target pairs. Not together with source and target."""
    dev: str | None = None
    """Dev file of source<TAB>target pairs, for early stopping and the choice of the best checkpoint. If neither dev nor
    dev_source is set, a part of train is used."""
    test: str | None = None
    """Test file of source<TAB>target pairs, scored once at the end with the best checkpoint."""
    source: tuple[str, ...] = ()
    """Training files of sources, one per line."""
    target: tuple[str, ...] = ()
    """Training files of targets: line i translates line i of the source file. In evaluation: the file of references, if
    they are not in the input file."""
    dev_source: str | None = None
    """Dev file of sources, one per line."""
    dev_target: str | None = None
    """Dev file of targets, parallel to dev_source."""
    test_source: str | None = None
    """Test file of sources, one per line."""
    test_target: str | None = None
    """Test file of targets, parallel to test_source."""
    dev_fraction: float = Field(0.05, gt=0, lt=1)
    """Fraction of the training pairs used as dev set if no dev file is given. Chosen by a hash of the source: equal
    sources are in the same split, and the split does not depend on the seed."""
    max_length: int = Field(200, gt=0)
    """Longest source or target in tokens in training. Longer pairs are dropped and listed in dropped.tsv. Texts to
    translate may be longer."""

    def problems(self) -> Iterator[str]:
        """What is wrong with the training files."""
        if len(self.source) != len(self.target):
            yield (
                f"data.target must have as many files as data.source ({len(self.source)}), got {len(self.target)}. "
                f"Separate several files by commas, as in --target a.de,b.de."
            )
        if len(self.columns) == 1:
            yield "Only one of data.source_column and data.target_column is set. Set both or neither."
        if self.source and self.train:
            yield "data.train and data.source are both set. Remove one of them."
        for part in ("dev", "test"):
            sides = [getattr(self, f"{part}_{side}") is not None for side in ("source", "target")]
            if sides[0] != sides[1]:
                yield f"Only one of data.{part}_source and data.{part}_target is set. Set both or neither."
            if any(sides) and getattr(self, part) is not None:
                yield f"data.{part} and data.{part}_source are both set. Remove one of them."

    def parallel(self) -> dict[str, str]:
        """The file of targets of each file of sources."""
        named = (self.dev_source, self.dev_target), (self.test_source, self.test_target)
        pairs = (*zip(self.source, self.target, strict=False), *named)
        return {source: target for source, target in pairs if source is not None and target is not None}

    def target_of(self, path: Path) -> Path | None:
        """The file with the targets of a file of sources; None if the file has pairs."""
        if self.target and not self.source:  # set for evaluation
            return Path(self.target[0])
        pairs = ((Path(source).resolve(), target) for source, target in self.parallel().items())
        return next((Path(target) for source, target in pairs if source == path.resolve()), None)

    def files(self) -> dict[str, Path]:
        named: dict[str, Path] = super().files()
        for part in ("train", "dev", "test"):
            prefix = "" if part == "train" else f"{part}_"
            for side in ("source", "target"):
                value = getattr(self, f"{prefix}{side}")
                paths = value if isinstance(value, tuple) else () if value is None else (value,)
                for i, path in enumerate(paths, start=1):
                    named[f"{part}-{side}" + (f"-{i}" if i > 1 else "")] = Path(path)
        order = ("train", "dev", "test")
        return dict(sorted(named.items(), key=lambda item: order.index(item[0].partition("-")[0])))

    def example_files(self) -> dict[str, Path]:
        return {name: path for name, path in self.files().items() if "target" not in name}

    def for_reading(self, values: Mapping[str, object]) -> Self:
        if "target" in values:  # the file of references, in the direction of the model
            cleared = {name: None if name.startswith(("dev", "test")) else () for name in self.PATHS}
            values = {**cleared, "swap": False, **values}
        return super().for_reading(values)


class SharedTokenizerConfig(Config):
    """The same tokenizer options as for sources."""

    kind: Literal["same"] = "same"
    """The same tokenizer options as for sources."""


_TargetTokenizerConfig = Annotated[
    SharedTokenizerConfig
    | WhitespaceTokenizerConfig
    | WordTokenizerConfig
    | CharacterTokenizerConfig
    | ByteTokenizerConfig
    | BpeTokenizerConfig
    | UnigramTokenizerConfig,
    Field(discriminator="kind"),
]


class PairVocabularyConfig(VocabularyConfig):
    """The vocabularies of sources and targets."""

    joint: bool | None = None
    """Learn one tokenizer and vocabulary from both sides, so that a model can tie its embeddings. If not set: true
    for bpe, unigram and bytes, false for words and characters."""
    min_count: int = Field(2, ge=1)
    """Smallest count of a word in the vocabulary. Subwords are always kept."""


class OutputTextConfig(Config):
    """Length limits and vocabulary of the generated translations."""

    ratio: float = Field(2.0, gt=0)
    """Length limit: a translation has at most ratio * (source tokens) + extra tokens, and at most search.max_length."""
    extra: int = Field(20, ge=1)
    """Target tokens allowed in addition to ratio * (source tokens)."""
    unknown: Literal["avoid", "copy", "keep"] = "avoid"
    """Words outside the vocabulary. avoid: never generate <unk>. copy: replace <unk> by the source word with the
    largest attention weight. keep: generate <unk>."""
    candidates: int = Field(0, ge=0)
    """Restrict the output to the N most frequent target tokens and the candidates of the source tokens (Jean et al.
    2015, section 3), which is faster for a large vocabulary. 0 uses the full vocabulary."""
    candidates_each: int = Field(10, ge=1)
    """With candidates: number of target tokens per source token, the most probable in a word alignment of train."""


class TranslateEvaluationConfig(Config):
    """How the model is evaluated during training."""

    sentences: int = Field(500, ge=0)
    """Number of dev sentences translated at each evaluation, evenly spaced. With 0 only perplexity is computed."""
    dev_beam_size: int = Field(1, ge=1)
    """Beam size for these translations. 1 is greedy search."""
    metrics: tuple[str, ...] = USUAL
    """Metrics of translations: bleu, bleu_lowercase, chrf, ter; rouge_1, rouge_2, rouge_l for summaries. The first one
    chooses the best checkpoint, unless training.metric is set. If empty, perplexity chooses it."""
    cut: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    """Tokenization for BLEU: 13a for most languages, zh for Chinese, char for scripts without spaces, none for
    tokenized texts."""

    @model_validator(mode="after")
    def _known(self) -> TranslateEvaluationConfig:
        for name in self.metrics:
            if name not in TRANSLATIONS:
                raise ValueError(f"Unknown metric {name!r} in evaluation.metrics: {did_you_mean(name, TRANSLATIONS)}")
        return self


class TranslateOptions(BeamOptions, AttentionOptions):
    """Options of prediction with a translator."""

    alignment: bool = False
    """Add the attention weights, and the source token that each target token attends to most."""
    constraint: Path | None = None
    """File of phrases that a translation must contain, or must not (-phrase), and of its beginning (^phrase), separated
    by tabs; one line for all texts, or a line for each."""


_RECURRENT: dict[str, Any] = {
    "optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0, "schedule": "plateau", "plateau_patience": 2,
    "patience": 6, "max_epochs": 40,
}  # fmt: skip
_ATTENDING: dict[str, Any] = {
    "optimizer": "adam", "learning_rate": 0.001, "betas": (0.9, 0.98), "clip_norm": 1.0, "schedule": "inverse_sqrt",
    "warmup_steps": 300, "patience": 10, "max_epochs": 60,
}  # fmt: skip


class TranslateConfig(TaskConfig):
    """Config of a sequence-to-sequence model for translation or summarization."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **dict.fromkeys(("recurrent", "copy"), _RECURRENT),
        **dict.fromkeys(("transformer", "convolutional"), _ATTENDING),
    }

    task: Literal["translate"] = "translate"
    machine: MachineConfig = MachineConfig()
    data: TranslateDataConfig = TranslateDataConfig()
    tokenizer: TokenizerConfig = BpeTokenizerConfig()
    """Tokenizer of sources, and of targets unless target_tokenizer is set."""
    target_tokenizer: _TargetTokenizerConfig = SharedTokenizerConfig()
    """Tokenizer of targets; same uses the options of sources."""
    vocabulary: PairVocabularyConfig = PairVocabularyConfig()
    model: EncoderDecoderConfig = TransformerSeq2SeqConfig()
    batches: BatchConfig = BatchConfig(batch_size=4000, batch_by="tokens")
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    search: SearchConfig = BeamConfig(beam_size=5, normalize="gnmt", max_length=2000)
    """The search for translations."""
    writing: OutputTextConfig = OutputTextConfig()
    evaluation: TranslateEvaluationConfig = TranslateEvaluationConfig()

    def known_metrics(self) -> tuple[str, ...]:
        return (*LIKELIHOODS, *TRANSLATIONS)

    def problems(self) -> Iterator[str]:
        yield from self.data.problems()
        metric, evaluation = self.training.metric, self.evaluation
        if metric in TRANSLATIONS and not (evaluation.sentences and metric in evaluation.metrics):
            yield (
                f"training.metric = {metric!r} is not computed at evaluations. Add it to evaluation.metrics, and "
                f"set evaluation.sentences = {evaluation.sentences} to more than 0."
            )
        if self.vocabulary.joint and self.target_tokenizer.kind != "same":
            yield (
                f"target_tokenizer.kind must be 'same' if vocabulary.joint = true, got {self.target_tokenizer.kind!r}. "
                f"Remove one of the two options."
            )
        if self.model.kind == "copy" and self.writing.candidates:
            yield f"writing.candidates must be 0 if model.kind = 'copy', got {self.writing.candidates}. Remove it."
        longest, needed = self.longest, self.data.max_length + 1
        if longest is not None and longest < needed:
            yield (
                f"model.max_length must be at least {needed}, data.max_length plus the end symbol, got {longest}. "
                f"Raise it, or lower data.max_length."
            )

    @property
    def longest(self) -> int | None:
        """The longest source and target of the model with end symbols; None if there is no limit."""
        bounded = self.model.kind == "convolutional" or getattr(self.model, "positions", "") == "learned"
        return int(getattr(self.model, "max_length", 0)) if bounded else None

    @property
    def joint(self) -> bool:
        """Whether both sides have the same tokenizer and vocabulary."""
        if self.vocabulary.joint is not None:
            return self.vocabulary.joint
        return self.target_tokenizer.kind == "same" and self.tokenizer.kind in ("bpe", "unigram", "bytes")

    @property
    def lowercases_targets(self) -> bool:
        """Whether the tokens of targets are in lower case, so that no translation has upper case."""
        same = self.target_tokenizer.kind == "same"
        return bool(getattr(self.tokenizer if same else self.target_tokenizer, "lowercase", False))

    @property
    def metric(self) -> str:
        """The metric that chooses the best checkpoint if training.metric is not set."""
        scored = self.evaluation.metrics if self.evaluation.sentences else ()
        return (*scored, *LIKELIHOODS)[0]
