"""The config of a model of texts with a goal and an agenda. Imports no torch.

Tested in tests/tasks/compose/test_task.py and tests/tasks/compose/test_data.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, VocabularyConfig, WordTokenizerConfig
from catena.search.config import BeamConfig, SearchConfig
from catena.seq2seq.checklist_config import ChecklistConfig
from catena.seq2seq.config import RecurrentSeq2SeqConfig
from catena.tasks.config import FilesConfig, FractionsConfig, LengthConfig, MachineConfig, TaskConfig
from catena.tasks.options import GenerationOptions
from catena.training.config import TrainingConfig

METRICS = ("perplexity", "coverage", "extra", "bleu")
"""The metrics of a model; the first selects checkpoints."""

NEXT_COMMANDS = ("predict RUN FILE", "evaluate RUN FILE", "draw RUN --file FILE")
"""Commands suggested after training."""


class ComposeDataConfig(FilesConfig, FractionsConfig, LengthConfig):
    """Goals, agendas and texts, from JSON lines, tables with a header row, or tab-separated lines.

    A tab-separated line has the goal, the items separated by | and the text.
    """

    input_format: Literal["auto", "jsonl", "tsv", "csv"] = "auto"
    """Format of the files. auto detects it from the file name and the first line."""
    goal_column: str | None = None
    """Key or column of the goal. goal, title, name or topic if not set."""
    items_column: str | None = None
    """Key or column of the items, a list or items separated by |. items, ingredients, agenda, points or keywords if not
    set."""
    text_column: str | None = None
    """Key or column of the text, which may be a list of paragraphs. text, directions, instructions or steps if not
    set."""
    item_words: Literal["naming", "all"] = "naming"
    """Words of an item that the model reads: all of them, or only the words by which the training texts mention it
    (flour for "2 cups flour, sifted")."""
    dev_fraction: float = Field(0.05, gt=0, lt=1)
    """Fraction of the training texts used as dev set if no dev file is given. Chosen by a hash of the goal: equal goals
    are in the same split, and the split does not depend on the seed."""
    max_length: int = Field(300, gt=0)
    """Longest text in tokens in training (see too_long)."""


class ComposeOptions(GenerationOptions):
    """Options of prediction with a model of texts with an agenda."""


class ComposeAttentionConfig(RecurrentSeq2SeqConfig):
    """A recurrent encoder-decoder with attention to the words of goal and items, a baseline without a checklist."""

    kind: Literal["attention"] = "attention"  # type: ignore[assignment]
    """The model."""
    cell: Literal["gru", "lstm"] = "gru"
    """The recurrent cell of encoder and decoder."""
    d: int = Field(512, gt=0)
    """Units of each layer. Bidirectional encoder layers have half of them in each direction."""
    shared: bool = True
    """Use the same embedding for source and target."""

    @model_validator(mode="after")
    def _has_attention(self) -> ComposeAttentionConfig:
        if self.attention == "none":
            raise ValueError(
                "model.attention must not be 'none' if model.kind = 'attention', got 'none'. Set model.kind to 'plain'."
            )
        return self


class ComposePlainConfig(RecurrentSeq2SeqConfig):
    """A recurrent encoder-decoder without attention, the simplest baseline."""

    kind: Literal["plain"] = "plain"  # type: ignore[assignment]
    """The model."""
    cell: Literal["gru", "lstm"] = "gru"
    """The recurrent cell of encoder and decoder."""
    d: int = Field(512, gt=0)
    """Units of each layer. Bidirectional encoder layers have half of them in each direction."""
    attention: Literal["none"] = "none"
    """A plain model has no attention: it uses only the last state of the encoder."""
    shared: bool = True
    """Use the same embedding for source and target."""


_ComposeModel = Annotated[ChecklistConfig | ComposeAttentionConfig | ComposePlainConfig, Field(discriminator="kind")]

_RECURRENT: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0, "max_epochs": 30}


class ComposeEvaluationConfig(Config):
    """How the model is evaluated during training."""

    texts: int = Field(50, ge=0)
    """Number of dev texts generated at each evaluation for coverage, extra and BLEU. With 0 only perplexity is
    computed."""


class ComposeConfig(TaskConfig):
    """Config of a model of texts with a goal and an agenda, such as recipes from a title and ingredients."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = dict.fromkeys(
        ("checklist", "attention", "plain"), _RECURRENT
    )

    task: Literal["compose"] = "compose"
    machine: MachineConfig = MachineConfig()
    data: ComposeDataConfig = ComposeDataConfig()
    tokenizer: WordTokenizerConfig = WordTokenizerConfig(lowercase=True)
    vocabulary: VocabularyConfig = VocabularyConfig(min_count=2)
    model: _ComposeModel = ChecklistConfig()
    batches: BatchConfig = BatchConfig(batch_size=64)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    search: SearchConfig = BeamConfig(beam_size=5, normalize="average", max_length=150)
    """The search for texts."""
    evaluation: ComposeEvaluationConfig = ComposeEvaluationConfig()

    def known_metrics(self) -> tuple[str, ...]:
        return METRICS

    def problems(self) -> Iterator[str]:
        metric = self.training.metric
        if metric not in (None, "perplexity") and not self.evaluation.texts:
            yield (
                f"evaluation.texts must be positive if training.metric = {metric!r}, got 0. Set it to a value such as "
                f"50."
            )
        if metric == "extra":
            yield (
                "training.metric must not be 'extra', which is best for empty texts, got 'extra'. Choose perplexity or "
                "coverage."
            )
