"""The config of texts from a goal and an agenda. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, VocabularyConfig, WordTokenizerConfig
from catena.registry import did_you_mean
from catena.search.config import BeamConfig, SearchConfig
from catena.seq2seq.checklist_config import ChecklistConfig
from catena.seq2seq.recurrent_config import RecurrentSeq2SeqConfig
from catena.tasks.config import DataConfig, MachineConfig, check_shares, with_suggestions
from catena.training.config import TrainingConfig

METRICS = ("perplexity", "coverage", "extra", "bleu")
"""The scores of a model: perplexity and extra are better when they are smaller."""

WHAT_NEXT = ("predict RUN FILE", "evaluate RUN FILE", "draw RUN --file FILE")
"""What one does with such a model."""


class ComposeDataConfig(DataConfig):
    """Goals, agendas and texts: JSON lines, tables whose first row names the columns, or lines of a goal, a tab, items
    with | between, a tab and the text."""

    format: Literal["auto", "jsonl", "tsv", "csv"] = "auto"
    """Format of the files; auto looks at the name and the first line."""
    goal_column: str | None = None
    """Key or column of the goal; goal, title, name or topic if not set."""
    items_column: str | None = None
    """Key or column of the items, a list or items with | between; items, ingredients, agenda, points or keywords if not
    set."""
    text_column: str | None = None
    """Key or column of the text, which may be a list of paragraphs; text, directions, instructions or steps if not
    set."""
    item_words: Literal["telling", "all"] = "telling"
    """Which words of an item the model is given: those that texts mention it by, as the training texts tell (of "2 cups
    flour, sifted" it is flour), or all."""
    dev_fraction: float = Field(0.05, gt=0, lt=1)
    """Share of the goals of train that is held out when there is no dev file. A hash of the goal decides, so that equal
    goals are on one side, and the split is the same everywhere, whatever the seed."""
    test_fraction: float = Field(0.0, ge=0, lt=1)
    """Share of the goals of train that is held out as test, by the same hash, when there is no test file."""
    max_length: int = Field(300, gt=0)
    """The longest text in tokens that is trained on (see too_long)."""

    @model_validator(mode="after")
    def _shares_fit(self) -> ComposeDataConfig:
        check_shares(self, self.test_fraction, "is not known for texts with an agenda")
        return self


class ComposeAttentionConfig(RecurrentSeq2SeqConfig):
    """A recurrent encoder-decoder that looks at the words of goal and items: a baseline without a list."""

    kind: Literal["attention"] = "attention"  # type: ignore[assignment]
    """The model."""
    cell: Literal["gru", "lstm"] = "gru"
    """The recurrence of both sides."""
    d: int = Field(512, gt=0)
    """Units of each layer; in the encoder's bidirectional layers half of them read from each end."""
    shared: bool = True
    """Source and target have one embedding."""

    @model_validator(mode="after")
    def _looks(self) -> ComposeAttentionConfig:
        if self.attention == "none":
            raise ValueError("model.kind = 'attention' looks at the source: for attention = 'none' choose plain")
        return self


class ComposePlainConfig(RecurrentSeq2SeqConfig):
    """A recurrent encoder-decoder that knows goal and items by one vector alone: the plainest baseline."""

    kind: Literal["plain"] = "plain"  # type: ignore[assignment]
    """The model."""
    cell: Literal["gru", "lstm"] = "gru"
    """The recurrence of both sides."""
    d: int = Field(512, gt=0)
    """Units of each layer; in the encoder's bidirectional layers half of them read from each end."""
    attention: Literal["none"] = "none"
    """A plain model looks at nothing but the last state of the encoder."""
    shared: bool = True
    """Source and target have one embedding."""


_ComposeModel = Annotated[ChecklistConfig | ComposeAttentionConfig | ComposePlainConfig, Field(discriminator="kind")]

_RECURRENT: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.001, "clip_norm": 1.0, "max_epochs": 30}
SUGGESTED: dict[str, dict[str, Any]] = dict.fromkeys(("checklist", "attention", "plain"), _RECURRENT)
"""How each model likes to be trained, where the config does not say."""


class ComposeEvaluationConfig(Config):
    """How the model is judged while it trains."""

    texts: int = Field(50, ge=0)
    """Texts of dev that are written at each evaluation, for coverage, extra and BLEU; 0 asks for perplexity alone."""


class ComposeConfig(Config):
    """Texts from a goal and an agenda, such as recipes from a title and ingredients."""

    task: Literal["compose"] = "compose"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    machine: MachineConfig = MachineConfig()
    data: ComposeDataConfig = ComposeDataConfig()
    tokenizer: WordTokenizerConfig = WordTokenizerConfig(lowercase=True)
    vocabulary: VocabularyConfig = VocabularyConfig(min_count=2)
    model: _ComposeModel = ChecklistConfig()
    batches: BatchConfig = BatchConfig(batch_size=64)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    search: SearchConfig = BeamConfig(width=5, normalize="average", max_length=150)
    """How texts are written."""
    evaluation: ComposeEvaluationConfig = ComposeEvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Train each model as it likes to be trained, unless the config says how."""
        return with_suggestions(data, SUGGESTED, "checklist")

    @model_validator(mode="after")
    def _fits_together(self) -> ComposeConfig:
        metric = self.training.metric
        if metric not in (None, *METRICS):
            raise ValueError(
                f"training.metric = {metric!r} is no score of such a model: {did_you_mean(str(metric), METRICS)}"
            )
        if metric not in (None, "perplexity") and not self.evaluation.texts:
            raise ValueError(f"training.metric = {metric!r} needs texts: set evaluation.texts above 0")
        if metric == "extra":
            raise ValueError("training.metric = 'extra' would be best for empty texts: choose perplexity or coverage")
        return self
