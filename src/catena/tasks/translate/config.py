"""The config of a translator. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

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
from catena.data.readers.names import PairColumns
from catena.registry import did_you_mean
from catena.search.config import BeamConfig, SearchConfig
from catena.seq2seq.config import EncoderDecoderConfig
from catena.seq2seq.transformer_config import TransformerSeq2SeqConfig
from catena.tasks.config import DataConfig, MachineConfig, with_suggestions
from catena.training.config import TrainingConfig

LIKELIHOODS = ("perplexity", "nats_per_token")
"""Scores that need no translations, and are better when they are smaller."""
TRANSLATIONS = ("bleu", "bleu_lowercase", "chrf", "ter", "rouge_1", "rouge_2", "rouge_l")
"""Scores of translations, and of summaries. Of ter less is better."""
LESS_IS_BETTER = (*LIKELIHOODS, "ter")
USUAL = ("bleu", "chrf")
"""What translations are scored by if nothing else is said, and sacrebleu is installed."""

NEXT_COMMANDS = ("predict RUN FILE", "evaluate RUN FILE", "draw RUN TEXT")
"""What one does with a translator that is trained."""


class TranslateDataConfig(DataConfig):
    """Pairs of texts: two files that match line by line (source and target), or one of two columns with a tab between,
    a table or JSON lines (train)."""

    PATHS: ClassVar[tuple[str, ...]] = (
        "train", "dev", "test", "source", "target", "dev_source", "dev_target", "test_source", "test_target",
    )  # fmt: skip
    train: tuple[str, ...] = ()
    """Files of source<TAB>target to train on; not with source and target."""
    dev: str | None = None
    """File of source<TAB>target that decides when to stop and which checkpoint is best; a part of train is held out if
    neither it nor dev_source is set."""
    test: str | None = None
    """File of source<TAB>target that is scored once, with the best checkpoint, at the end."""
    source: tuple[str, ...] = ()
    """Files of sources to train on, one a line."""
    target: tuple[str, ...] = ()
    """Files of their targets: line i is the counterpart of line i there."""
    dev_source: str | None = None
    """Sources of dev, where they are a file of their own."""
    dev_target: str | None = None
    """Targets of dev."""
    test_source: str | None = None
    """Sources of test."""
    test_target: str | None = None
    """Targets of test."""
    source_column: str | None = None
    """Column or key that holds the source in CSV, tables with tabs and JSON lines, by its name or, where columns have
    none, its number from 1; found by its name if not set."""
    target_column: str | None = None
    """Column or key that holds the target; found likewise."""
    swap: bool = False
    """Sources and targets change places: translate the other way."""
    dev_fraction: float = Field(0.05, gt=0, lt=1)
    """Share of the pairs of train that is held out when there is no dev file. A hash of the source decides, so that
    equal sources are on one side, and the split is the same everywhere, whatever the seed."""
    max_length: int = Field(200, gt=0)
    """The longest source or target in tokens that is trained on; pairs with a longer one are left out and listed in
    dropped.tsv. What is translated may be longer."""
    too_long: Literal["drop", "cut"] = "drop"
    """Pairs that are too long cannot be cut."""

    @model_validator(mode="after")
    def _files_fit(self) -> TranslateDataConfig:
        problems = [*self._file_problems()]
        if self.folds is not None:
            problems.append("data.folds is not known for pairs of texts: leave it out")
        if self.too_long == "cut":
            problems.append("data.too_long = 'cut' would part a target from its source: leave it out")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _file_problems(self) -> Iterator[str]:
        if len(self.source) != len(self.target):
            yield (
                f"data.source names {len(self.source)} and data.target {len(self.target)} files: give each file of "
                f"sources its file of targets, several of them with commas, as in --target a.de,b.de"
            )
        for given, own in (("text_column", "source_column"), ("label_column", "target_column")):
            if (value := getattr(self, given)) is not None:
                yield f"data.{given} = {value!r} is not known for pairs of texts: name data.{own}"
        if (self.source_column is None) != (self.target_column is None):
            yield "data.source_column and data.target_column belong together: give both, or neither"
        if self.source and self.train:
            yield "data.train and data.source both name what to train on: leave one of them out"
        for part in ("dev", "test"):
            sides = [getattr(self, f"{part}_{side}") is not None for side in ("source", "target")]
            if sides[0] != sides[1]:
                yield f"data.{part}_source and data.{part}_target belong together: give both, or neither"
            if any(sides) and getattr(self, part) is not None:
                yield f"data.{part} and data.{part}_source both name the same part: leave one of them out"

    @property
    def columns(self) -> PairColumns:
        """The columns that are asked for."""
        return PairColumns(self.source_column, self.target_column)

    def part(self, name: Literal["train", "dev", "test"]) -> list[tuple[str, str | None]]:
        """The files of a part: (file of pairs, None) or (sources, targets), as they are named, not swapped."""
        if name == "train":
            return [*((path, None) for path in self.train), *zip(self.source, self.target, strict=True)]
        whole: str | None = getattr(self, name)
        source, target = getattr(self, f"{name}_source"), getattr(self, f"{name}_target")
        return [(whole, None)] if whole is not None else [(source, target)] if source is not None else []

    def files(self) -> dict[str, Path]:
        """The data files by what they are for; several training files are numbered."""
        named: dict[str, Path] = {}
        for part in ("train", "dev", "test"):
            for i, (first, second) in enumerate(self.part(part), start=1):
                number = f"-{i}" if i > 1 else ""
                named[f"{part}{number}" if second is None else f"{part}-source{number}"] = Path(first)
                if second is not None:
                    named[f"{part}-target{number}"] = Path(second)
        return named


class SharedTokenizerConfig(Config):
    """As on the other side."""

    kind: Literal["same"] = "same"
    """As on the other side."""


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
    """The vocabularies of both sides."""

    joint: bool | None = None
    """One tokenizer and one vocabulary for both sides, learned from both together, so that a model may share its
    vectors; if not set, so for pieces of words and bytes (bpe, unigram, bytes), and not for words and characters."""
    min_count: int = Field(2, ge=1)
    """Keep words that occur at least so often; pieces are kept in any case."""


class OutputTextConfig(Config):
    """What translations may be made of, and how long they may be."""

    ratio: float = Field(2.0, gt=0)
    """The most target tokens for each token of the source; extra are added, and search.max_length holds in any case."""
    extra: int = Field(20, ge=1)
    """Target tokens that are allowed whatever the length of the source."""
    unknown: Literal["avoid", "copy", "keep"] = "avoid"
    """Words that are not in the vocabulary: avoid never writes <unk>; copy writes the source word that the model looks
    at most in its place; keep writes <unk>."""
    candidates: int = Field(0, ge=0)
    """Choose among so many of the most frequent target tokens, and those that belong to a token of the source (Jean et
    al. 2015, section 3), which is faster where the vocabulary is large; 0 chooses among all."""
    candidates_each: int = Field(10, ge=1)
    """With candidates: target tokens for each token of the source, the likeliest in a word alignment of train."""


class TranslateEvaluationConfig(Config):
    """How the model is judged while it is trained, and by what."""

    sentences: int = Field(500, ge=0)
    """Sentences of dev that are translated at each evaluation, spread evenly; with 0 perplexity alone is scored."""
    width: int = Field(1, ge=1)
    """Beginnings that are kept while those are translated; 1 takes the likeliest token at every step."""
    metrics: tuple[str, ...] = USUAL
    """What translations are scored by: bleu, bleu_lowercase, chrf, ter; rouge_1, rouge_2, rouge_l for summaries. The
    first one decides which checkpoint is best, if training.metric does not; with none translations are shown, and
    perplexity decides."""
    cut: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    """How BLEU cuts texts into words: 13a for most languages, zh for Chinese, char for scripts without blanks, none for
    texts that are cut already."""

    @model_validator(mode="after")
    def _known(self) -> TranslateEvaluationConfig:
        for name in self.metrics:
            if name not in TRANSLATIONS:
                raise ValueError(
                    f"evaluation.metrics has {name!r}, which is no score of translations: "
                    f"{did_you_mean(name, TRANSLATIONS)}"
                )
        return self


_RECURRENT: dict[str, Any] = {
    "optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0, "schedule": "plateau", "plateau_patience": 2,
    "patience": 6, "max_epochs": 40,
}  # fmt: skip
_ATTENDING: dict[str, Any] = {
    "optimizer": "adam", "learning_rate": 0.001, "betas": (0.9, 0.98), "clip_norm": 1.0, "schedule": "inverse_sqrt",
    "warmup_steps": 300, "patience": 10, "max_epochs": 60,
}  # fmt: skip
SUGGESTED: dict[str, dict[str, Any]] = {"transformer": _ATTENDING, "convolutional": _ATTENDING}
"""How each model likes to be trained, where the config does not say; the others as recurrent ones."""


class TranslateConfig(Config):
    """Sentences to sentences: translation, and summaries."""

    task: Literal["translate"] = "translate"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    machine: MachineConfig = MachineConfig()
    data: TranslateDataConfig = TranslateDataConfig()
    tokenizer: TokenizerConfig = BpeTokenizerConfig()
    """How sources, and targets if target_tokenizer does not say else, are cut into tokens."""
    target_tokenizer: _TargetTokenizerConfig = SharedTokenizerConfig()
    """How targets are cut into tokens; same: as sources."""
    vocabulary: PairVocabularyConfig = PairVocabularyConfig()
    model: EncoderDecoderConfig = TransformerSeq2SeqConfig()
    batches: BatchConfig = BatchConfig(batch_size=4000, batch_by="tokens")
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    search: SearchConfig = BeamConfig(width=5, normalize="gnmt", max_length=2000)
    """How translations are chosen."""
    writing: OutputTextConfig = OutputTextConfig()
    evaluation: TranslateEvaluationConfig = TranslateEvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Train each model as it likes to be trained, unless the config says how."""
        model = data.get("model", {}) if isinstance(data, dict) else {}
        kind = str(model.get("kind", "transformer") if isinstance(model, dict) else getattr(model, "kind", ""))
        return with_suggestions(data, {kind: SUGGESTED.get(kind, _RECURRENT)}, "transformer")

    @model_validator(mode="after")
    def _fits_together(self) -> TranslateConfig:
        problems = [*self._metric_problems()]
        if self.vocabulary.joint and self.target_tokenizer.kind != "same":
            problems.append(
                f"vocabulary.joint = true learns one tokenizer from both sides, and target_tokenizer.kind = "
                f"{self.target_tokenizer.kind!r} asks for another: leave one of them out"
            )
        if self.model.kind == "copy" and self.writing.candidates:
            problems.append(
                f"writing.candidates = {self.writing.candidates} is for models that choose among their vocabulary "
                f"alone, and model.kind = 'copy' copies too: leave it out"
            )
        longest, needed = self.longest, self.data.max_length + 1
        if longest is not None and longest < needed:
            problems.append(
                f"model.max_length = {longest} positions are fewer than the {needed} that a pair may have, its end "
                f"counted: raise it, or lower data.max_length"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def longest(self) -> int | None:
        """The longest source and target that the model can take, their ends counted; None where any is."""
        bounded = self.model.kind == "convolutional" or getattr(self.model, "positions", "") == "learned"
        return int(getattr(self.model, "max_length", 0)) if bounded else None

    def _metric_problems(self) -> Iterator[str]:
        metric = self.training.metric
        known = (*LIKELIHOODS, *(self.evaluation.metrics if self.evaluation.sentences else ()))
        if metric is not None and metric not in known:
            if metric in TRANSLATIONS:
                yield (
                    f"training.metric = {metric!r} is not scored at evaluations: name it in evaluation.metrics, and "
                    f"let evaluation.sentences = {self.evaluation.sentences} be more than 0"
                )
            else:
                yield f"training.metric = {metric!r} is no score of a translator: {did_you_mean(metric, known)}"

    @property
    def joint(self) -> bool:
        """Whether both sides have one tokenizer and one vocabulary."""
        if self.vocabulary.joint is not None:
            return self.vocabulary.joint
        return self.target_tokenizer.kind == "same" and self.tokenizer.kind in ("bpe", "unigram", "bytes")

    @property
    def metric(self) -> str:
        """The score that decides which checkpoint is best, if training.metric does not."""
        scored = self.evaluation.metrics if self.evaluation.sentences else ()
        return (*scored, *LIKELIHOODS)[0]
