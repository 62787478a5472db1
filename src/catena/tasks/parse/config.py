"""The config of a parser. Imports no torch.

The kind of the model decides the kind of trees: ``biaffine`` is for dependencies, the others are for phrase structure.
If no kind is named, the training file decides. A new kind needs a config class in ``_ParserConfig``, an entry in
``ParseConfig.SUGGESTED`` and ``METRICS``, and a family in :mod:`catena.tasks.spec`.

Tested in tests/tasks/parse/constituency/test_task.py and tests/tasks/parse/constituency/test_sequence.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, TokenizerConfig, WordTokenizerConfig
from catena.tasks.config import FilesConfig, FoldsConfig, MachineConfig, TaskConfig
from catena.tasks.options import RankedOptions
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
"""The default kinds for CoNLL-U and for brackets."""

METRICS: dict[str, tuple[str, ...]] = {"biaffine": dependency.METRICS, **constituency.METRICS}
"""The scores of each model; the first selects checkpoints."""


class ParseDataConfig(FilesConfig, FoldsConfig):
    """The data files, how they are read, and how they are split."""

    max_length: int = Field(200, gt=0)
    """Maximum length of a training sentence in words; longer ones are dropped and listed in dropped.tsv, since half a
    sentence has no tree. Prediction has no limit."""


class ParseEvaluationConfig(Config):
    """How the model is evaluated."""

    words_at_once: int = Field(5000, gt=0)
    """Number of words, including padding, that are scored together."""


class ConstrainedParseOptions(RankedOptions):
    """Options of prediction with a parser that sums over all trees, and so over those that fit a constraint."""

    constraint: Path | None = None
    """File with required and forbidden parts of each tree: CoNLL-U with some heads and relations, or a line of spans
    for each sentence, such as 1-3:NP !2-4."""


class SequenceParseOptions(RankedOptions):
    """Options of prediction with a parser that generates trees."""

    beam_size: int | None = Field(None, gt=0)
    """Beam size of the search, for models of kind seq2seq; default: the one of the config."""


class AllParseOptions(ConstrainedParseOptions, SequenceParseOptions):
    """The options of all parsers, for the command line."""


class ParseConfig(TaskConfig):
    """The config of parsing."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {"biaffine": dependency.SUGGESTED, **constituency.SUGGESTED}

    task: Literal["parse"] = "parse"
    pretrained: str | None = None
    """A run of task lm on words (tokenizer whitespace) to start from: the parser reads its word vectors and its
    encoder's states in addition to its other inputs."""
    unfreeze: int = Field(1, ge=0)
    """With pretrained: unfreeze one more layer, from the top, every N epochs; the first N train only the new layers. 0
    trains all layers from the start."""
    machine: MachineConfig = MachineConfig()
    data: ParseDataConfig = ParseDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig()
    """How raw text is split into words; files of trees are split already."""
    model: _ParserConfig = BiaffineParserConfig()
    batches: BatchConfig = BatchConfig(batch_size=2000, batch_by="tokens")
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: ParseEvaluationConfig = ParseEvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _choose_kind(cls, data: Any) -> Any:
        """Fill in the kind of model for the trees of the file."""
        return _with_kind(data)

    def known_metrics(self) -> tuple[str, ...]:
        return METRICS[self.model.kind]

    def problems(self) -> Iterator[str]:
        if self.tokenizer.kind not in ("whitespace", "words", "characters"):
            yield (
                f"tokenizer.kind must keep words whole for parsing, got {self.tokenizer.kind!r}. Use words, whitespace "
                f"or characters."
            )


def _with_kind(data: Any) -> Any:
    """The values of a config, with the kind of model for the first training file filled in if none is named."""
    if not isinstance(data, dict):
        return data
    model, files = data.get("model", {}), data.get("data", {})
    if not isinstance(model, dict) or "kind" in model or not isinstance(files, dict):
        return data
    return {**data, "model": {**model, "kind": PHRASES if _format_of(files) == "brackets" else DEPENDENCIES}}


def _format_of(files: dict[str, Any]) -> str | None:
    from catena.data.detect import detect_format
    from catena.errors import CatenaError

    named, train = files.get("input_format", "auto"), files.get("train") or ()
    if named != "auto" or not train or isinstance(train, str):
        return str(named)
    try:
        return detect_format(Path(str(next(iter(train)))), files.get("encoding")).format
    except (CatenaError, OSError):
        return None  # the reader reports what is wrong with the file
