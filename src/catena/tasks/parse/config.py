"""The config of a parser, whatever its trees. Imports no torch.

The kind of the model decides which trees: ``biaffine`` is for dependencies, the others are for phrase structure. Where
no kind is named, the training file decides. A new kind needs a settings class in ``_ParserConfig``, a line in
``SUGGESTED`` and ``METRICS``, and a line in :data:`catena.tasks.parse.application._HALVES`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, TokenizerConfig, WordTokenizerConfig
from catena.registry import did_you_mean
from catena.tasks.config import DataConfig, MachineConfig, with_suggestions
from catena.tasks.parse.constituency import config as constituency
from catena.tasks.parse.constituency.config import (
    GrammarParserConfig,
    PCFGParserConfig,
    SequenceParserConfig,
    SpanParserConfig,
)
from catena.tasks.parse.dependency import config as dependency
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.training.config import TrainingConfig

_ParserConfig = Annotated[
    BiaffineParserConfig | PCFGParserConfig | GrammarParserConfig | SpanParserConfig | SequenceParserConfig,
    Field(discriminator="kind"),
]

DEPENDENCIES, PHRASES = "biaffine", "span"
"""The kinds that are taken for CoNLL-U and for brackets where none is named."""

SUGGESTED: dict[str, dict[str, Any]] = {"biaffine": dependency.SUGGESTED, **constituency.SUGGESTED}
"""How each model likes to be trained, where the config does not say."""

METRICS: dict[str, tuple[str, ...]] = {"biaffine": dependency.METRICS, **constituency.METRICS}
"""The scores of each model; the first decides which checkpoint is best."""


class ParseDataConfig(DataConfig):
    """The files, how they are read, and which part of them is held out."""

    max_length: int = Field(200, gt=0)
    """Longest sentence in words that is trained on; longer ones are left out and listed in dropped.tsv. What is
    predicted may be longer."""
    too_long: Literal["drop"] = "drop"
    """What happens in training to a sentence that is longer than max_length: half a sentence has no tree."""


class ParseEvaluationConfig(Config):
    """How the model is judged."""

    words_at_once: int = Field(5000, gt=0)
    """Words, padding included, that are scored together."""


class ParseConfig(Config):
    """Sentences into trees."""

    task: Literal["parse"] = "parse"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    pretrained: str | None = None
    """A run of task lm to start from, on words between blanks: its vectors and its encoder, with their weights, are
    added to what is seen of a word."""
    unfreeze: int = Field(1, ge=0)
    """With pretrained: epochs after which one more layer, from the top, is trained; only what is new is in the first. 0
    trains everything from the start."""
    machine: MachineConfig = MachineConfig()
    data: ParseDataConfig = ParseDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig()
    """How raw text is cut into words; files of trees have theirs."""
    model: _ParserConfig = BiaffineParserConfig()
    batches: BatchConfig = BatchConfig(batch_size=2000, batch_by="tokens")
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: ParseEvaluationConfig = ParseEvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Take the model for the trees of the file, and train it as it likes to be trained, unless the config says."""
        return with_suggestions(_with_kind(data), SUGGESTED, DEPENDENCIES)

    @model_validator(mode="after")
    def _fits_together(self) -> ParseConfig:
        if self.tokenizer.kind not in ("whitespace", "words", "characters"):
            raise ValueError(
                f"tokenizer.kind = {self.tokenizer.kind!r} gives pieces of words, and trees are over words: choose "
                f"words, whitespace or characters"
            )
        metric, known = self.training.metric, METRICS[self.model.kind]
        if metric not in (None, *known):
            raise ValueError(
                f"training.metric = {metric!r} is no score of a parser of kind {self.model.kind!r}: "
                f"{did_you_mean(str(metric), known)}"
            )
        return self


def _with_kind(data: Any) -> Any:
    """The values of a config, with the kind of model that suits the first training file where none is named."""
    if not isinstance(data, dict):
        return data
    model, files = data.get("model", {}), data.get("data", {})
    if not isinstance(model, dict) or "kind" in model or not isinstance(files, dict):
        return data
    return {**data, "model": {**model, "kind": PHRASES if _format_of(files) == "brackets" else DEPENDENCIES}}


def _format_of(files: dict[str, Any]) -> str | None:
    from catena.data.detect import detect_format
    from catena.errors import CatenaError

    named, train = files.get("format", "auto"), files.get("train") or ()
    if named != "auto" or not train or isinstance(train, str):
        return str(named)
    try:
        return detect_format(Path(str(next(iter(train)))), files.get("encoding")).format
    except (CatenaError, OSError):
        return None  # the reader will say what is wrong with the file
