"""The config of a conversation. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, TokenizerConfig, VocabularyConfig, WordTokenizerConfig
from catena.data.readers.names import PairColumns
from catena.lm.neural_config import ConvolutionLMConfig, GRULMConfig, LSTMLMConfig, RNNLMConfig, TransformerLMConfig
from catena.registry import did_you_mean
from catena.retrieval.config import BM25Config, DualEncoderConfig, TfidfConfig
from catena.search.config import SampleConfig, SearchConfig
from catena.seq2seq.config import EncoderDecoderConfig
from catena.seq2seq.recurrent_config import RecurrentSeq2SeqConfig
from catena.tasks.config import DataConfig, MachineConfig, with_suggestions
from catena.training.config import TrainingConfig


class ConverseDataConfig(DataConfig):
    """Conversations: pairs of context and response, tables with labels or distractors, JSON lines, or dialogues."""

    context_column: str | None = None
    """Column or key that holds the context, where pairs are a table or JSON lines: its name or, where columns have
    none, its number from 1; found by its name if not set."""
    response_column: str | None = None
    """Column or key that holds the response; found likewise."""
    window: int = Field(6, gt=0)
    """Turns of a context that are read, the last ones."""
    inner_turns: bool = False
    """Train also on the turns of contexts, each as the response to those before it."""
    split: Literal["random", "end"] = "random"
    """What is held out when there is no dev file: contexts drawn by a hash of their first turn, which keeps a dialogue
    together and is the same everywhere; or the last of the file."""
    dev_fraction: float = Field(0.1, gt=0, lt=1)
    """Share of the contexts of train that is held out when there is no dev file."""
    max_length: int = Field(200, gt=0)
    """Tokens of a text that are read: the last ones of a context, the first ones of a response."""
    too_long: Literal["drop", "cut"] = "cut"
    """Texts that are too long are cut."""

    @model_validator(mode="after")
    def _known(self) -> ConverseDataConfig:
        if self.folds is not None:
            raise ValueError("data.folds is not known for conversations: leave it out")
        if self.too_long == "drop":
            raise ValueError("data.too_long = 'drop' is not known for conversations, which are cut: leave it out")
        for given, own in (("text_column", "context_column"), ("label_column", "response_column")):
            if (value := getattr(self, given)) is not None:
                raise ValueError(f"data.{given} = {value!r} is not known for conversations: name data.{own}")
        if (self.context_column is None) != (self.response_column is None):
            raise ValueError("data.context_column and data.response_column belong together: give both, or neither")
        return self

    @property
    def columns(self) -> PairColumns:
        """The columns that are asked for."""
        return PairColumns(self.context_column, self.response_column)


class RankerMixtureConfig(Config):
    """Several trained models, their scores weighed so that the right responses of dev are likely."""

    kind: Literal["mixture"] = "mixture"
    """The model."""
    runs: tuple[str, ...] = ()
    """Run folders of this task, trained on the same file. The mixture keeps copies of them."""
    weights: tuple[float, ...] = ()
    """The weights. If not set, those under which the right responses of dev are most probable."""
    penalty: float = Field(1e-3, ge=0)
    """Pull of the weights towards zero."""

    @model_validator(mode="after")
    def _enough(self) -> RankerMixtureConfig:
        if len(self.runs) < 2:
            raise ValueError(
                f"a mixture is of two models or more, and model.runs = {list(self.runs)}: name more run folders"
            )
        if self.weights and len(self.weights) != len(self.runs):
            raise ValueError(f"model.weights = {list(self.weights)} must be {len(self.runs)} numbers, or left out")
        return self


_ResponseNetworkConfig = Annotated[
    RNNLMConfig | LSTMLMConfig | GRULMConfig | ConvolutionLMConfig | TransformerLMConfig, Field(discriminator="kind")
]


class GenerativeConfig(Config):
    """A language model over whole dialogues, which writes the next turn word by word."""

    kind: Literal["generative"] = "generative"
    """The model."""
    network: _ResponseNetworkConfig = LSTMLMConfig()
    """The language model."""
    learn: Literal["dialogue", "response"] = "dialogue"
    """What is predicted in training: every turn of a window, or the response alone."""
    ngram_order: int = Field(3, ge=1)
    """The longest n-grams of the counted model that perplexity is compared with."""


class Seq2SeqResponseConfig(Config):
    """An encoder-decoder from the turns of a context to the next one."""

    kind: Literal["seq2seq"] = "seq2seq"
    """The model."""
    network: EncoderDecoderConfig = RecurrentSeq2SeqConfig()
    """The encoder-decoder."""
    ngram_order: int = Field(3, ge=1)
    """The longest n-grams of the counted model that perplexity is compared with."""


_ResponderConfig = Annotated[
    DualEncoderConfig | TfidfConfig | BM25Config | RankerMixtureConfig | GenerativeConfig | Seq2SeqResponseConfig,
    Field(discriminator="kind"),
]
WRITES = ("generative", "seq2seq")
"""Kinds that write their responses."""
FITTED = ("tfidf", "bm25", "mixture")
"""Kinds that need no training loop."""


class IndexConfig(Config):
    """The responses that a model chooses from."""

    file: str | None = None
    """A file of responses, one a line; those of train if not set."""
    clusters: int | None = Field(None, gt=0)
    """Keep so many responses alone, the ones nearest to the centers of as many clusters of their vectors (k-means);
    needs the vectors of a dual encoder."""


class ConverseEvaluationConfig(Config):
    """How the model is judged."""

    recall: tuple[Annotated[int, Field(gt=0)], ...] = Field((1, 2, 5), min_length=1)
    """The k of every recall@k: how often a right response is among the k best. The first chooses checkpoints."""
    candidates: int = Field(10, ge=2)
    """Responses that a right one is ranked among, itself counted, where wrong ones are drawn."""
    distractors: Literal["auto", "random", "given", "hard"] = "auto"
    """random: drawn from the right responses to other contexts of the file; given: the wrong ones that the file names;
    hard: its adversarial ones. auto is given for tables of distractors and for files that name as many for each
    context as would be drawn, and random for all else."""
    seed: int = Field(0, ge=0)
    """The seed of what is drawn: not that of the run, so that all models are asked the same."""
    texts_at_once: int = Field(256, gt=0)
    """Texts that are scored together."""
    search: SearchConfig = SampleConfig(max_length=40, top_p=0.9)
    """How a generative model writes."""
    written: int = Field(100, ge=0)
    """Responses that a generative model writes at an evaluation, for distinct-1 and distinct-2; 0 for none."""

    @property
    def ranking(self) -> tuple[str, ...]:
        """The names of the scores of a ranking."""
        return (*(f"recall@{k}" for k in self.recall), "mrr")


WRITING = ("perplexity", "nats_per_token")
WHAT_NEXT = ("chat RUN", "evaluate RUN FILE", "predict RUN FILE --n-best 3 --scores")

SUGGESTED: dict[str, dict[str, Any]] = {
    "dual": {"optimizer": "adamw", "learning_rate": 0.001, "weight_decay": 0.01, "clip_norm": 5.0},
    "generative": {"optimizer": "adamw", "learning_rate": 0.002, "weight_decay": 0.01, "clip_norm": 1.0},
    "seq2seq": {"optimizer": "adamw", "learning_rate": 0.001, "weight_decay": 0.01, "clip_norm": 1.0},
}


class ConverseConfig(Config):
    """Conversation."""

    task: Literal["converse"] = "converse"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    machine: MachineConfig = MachineConfig()
    data: ConverseDataConfig = ConverseDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig(lowercase=True)
    vocabulary: VocabularyConfig = VocabularyConfig()
    model: _ResponderConfig = BM25Config()
    index: IndexConfig = IndexConfig()
    batches: BatchConfig = BatchConfig(batch_size=128, bucket=0)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: ConverseEvaluationConfig = ConverseEvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Train each model as it likes to be trained, unless the config says how."""
        return with_suggestions(data, SUGGESTED, "bm25")

    @model_validator(mode="after")
    def _fits_together(self) -> ConverseConfig:
        problems = list(self._problems())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        kind, metric = self.model.kind, self.training.metric
        known = WRITING if kind in WRITES else self.evaluation.ranking
        if metric not in (None, *known):
            yield f"training.metric = {metric!r} is no score of this model: {did_you_mean(str(metric), known)}"
        if self.index.clusters is not None and kind != "dual":
            yield (
                f"index.clusters = {self.index.clusters} groups the vectors of a dual encoder, and model.kind is "
                f"{kind!r}: leave it out"
            )
        if kind in WRITES and self.index.file is not None:
            yield f"index.file names responses to choose from, and model.kind = {kind!r} writes them: leave it out"
        if getattr(self.model, "against", None) == "context" and self.index.file is not None:
            yield (
                "index.file names responses alone, and model.against = 'context' compares with what each was said "
                "after, which nobody knows: leave one of them out"
            )
        encoder = getattr(self.model, "encoder", None)
        longest = getattr(encoder, "max_length", None)
        if getattr(encoder, "positions", "") == "learned" and longest is not None and longest < self.data.max_length:
            yield (
                f"model.encoder.max_length = {longest} learned positions are fewer than data.max_length = "
                f"{self.data.max_length}: make them equal"
            )
