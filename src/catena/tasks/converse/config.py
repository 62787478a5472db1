"""The config of a conversation model. Imports no torch.

Tested in tests/tasks/converse/test_data.py and tests/tasks/converse/test_task.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, TokenizerConfig, VocabularyConfig, WordTokenizerConfig
from catena.lm.neural_config import ConvolutionLMConfig, GRULMConfig, LSTMLMConfig, RNNLMConfig, TransformerLMConfig
from catena.retrieval.config import BM25Config, DualEncoderConfig, TfidfConfig
from catena.search.config import SampleConfig, SearchConfig
from catena.seq2seq.config import EncoderDecoderConfig, RecurrentSeq2SeqConfig
from catena.tasks.config import FilesConfig, MachineConfig, SplitConfig, TaskConfig
from catena.tasks.options import AttentionOptions, PredictOptions
from catena.training.config import TrainingConfig

if TYPE_CHECKING:
    from catena.data.splits import SplitMethod


class ConverseDataConfig(FilesConfig, SplitConfig):
    """Conversations: pairs of context and response, tables with labels or distractors, JSON lines or dialogues."""

    context_column: str | None = None
    """Column or key of the context in tables and JSON lines: a name, or a number from 1 if the columns have no names.
    Detected by name if not set."""
    response_column: str | None = None
    """Column or key of the response, given like context_column."""
    window: int = Field(6, gt=0)
    """Number of turns of a context; only the last ones are read."""
    inner_turns: bool = False
    """Also train on the turns of contexts, each as the response to the previous turns."""
    split: Literal["hash", "end"] = "hash"
    """How dev is chosen if no dev file is given. hash: by a hash of the first turn, which keeps a dialogue in one split
    and does not depend on the seed. end: the last contexts of the file."""
    max_length: int = Field(200, gt=0)
    """Maximum number of tokens: contexts keep their last tokens, responses their first."""

    def split_method(self) -> SplitMethod:
        return self.split

    @model_validator(mode="after")
    def _both_columns(self) -> ConverseDataConfig:
        if (self.context_column is None) != (self.response_column is None):
            raise ValueError("Only one of data.context_column and data.response_column is set. Set both or neither.")
        return self

    @property
    def columns(self) -> dict[str, str]:
        """The columns of context and response that are set."""
        named = {"context": self.context_column, "response": self.response_column}
        return {role: column for role, column in named.items() if column is not None}


class ConverseOptions(PredictOptions):
    """Options of prediction with a model that retrieves responses."""

    n_best: int = Field(1, ge=1)
    """Return the N best responses, best first."""
    scores: bool = False
    """Add the score of each response in tables: the score of the match, or the log-probability of a generated one."""


class GenerativeOptions(ConverseOptions, AttentionOptions):
    """Options of prediction with a model that generates responses."""

    beam_size: int | None = Field(None, ge=1)
    """Beam size, for beam search instead of the search of the config. 1 is greedy search."""
    max_length: int | None = Field(None, ge=1)
    """Maximum number of tokens of a response, including the end symbol. Default: as in the config."""
    seed: int = Field(0, ge=0)
    """The random seed for sampling."""


class RankerMixtureConfig(Config):
    """A weighted sum of the scores of several trained models, with weights fitted on dev."""

    kind: Literal["mixture"] = "mixture"
    """The model."""
    runs: tuple[str, ...] = ()
    """Run folders of this task, trained on the same data. The mixture keeps copies of them."""
    weights: tuple[float, ...] = ()
    """The weights. If not set, they maximize the likelihood of the correct responses of dev."""
    penalty: float = Field(1e-3, ge=0)
    """L2 penalty of the weights."""

    @model_validator(mode="after")
    def _enough(self) -> RankerMixtureConfig:
        if len(self.runs) < 2:
            raise ValueError(f"model.runs must have at least 2 run folders, got {list(self.runs)}. Add run folders.")
        if self.weights and len(self.weights) != len(self.runs):
            raise ValueError(
                f"model.weights must have {len(self.runs)} values, one per run, got {list(self.weights)}. Correct "
                f"them, or remove model.weights to fit them."
            )
        return self


_ResponseNetworkConfig = Annotated[
    RNNLMConfig | LSTMLMConfig | GRULMConfig | ConvolutionLMConfig | TransformerLMConfig, Field(discriminator="kind")
]


class GenerativeConfig(Config):
    """A language model over dialogues, which generates the next turn."""

    kind: Literal["generative"] = "generative"
    """The model."""
    network: _ResponseNetworkConfig = LSTMLMConfig()
    """The language model."""
    learn: Literal["dialogue", "response"] = "dialogue"
    """Turns to predict in training: every turn of the window, or only the response."""
    ngram_order: int = Field(3, ge=1)
    """Order of the n-gram model whose perplexity is reported for comparison."""


class Seq2SeqResponseConfig(Config):
    """An encoder-decoder from the turns of a context to the next turn."""

    kind: Literal["seq2seq"] = "seq2seq"
    """The model."""
    network: EncoderDecoderConfig = RecurrentSeq2SeqConfig()
    """The encoder-decoder."""
    ngram_order: int = Field(3, ge=1)
    """Order of the n-gram model whose perplexity is reported for comparison."""


_ResponderConfig = Annotated[
    DualEncoderConfig | TfidfConfig | BM25Config | RankerMixtureConfig | GenerativeConfig | Seq2SeqResponseConfig,
    Field(discriminator="kind"),
]
GENERATIVE = ("generative", "seq2seq")
"""Model kinds that generate responses."""


class IndexConfig(Config):
    """The responses to retrieve from."""

    file: str | None = None
    """A file with one response per line. The responses of train if not set."""
    clusters: int | None = Field(None, gt=0)
    """Keep only N responses: those nearest to the centers of N k-means clusters of their vectors. Only for a dual
    encoder."""


class ConverseEvaluationConfig(Config):
    """How the model is evaluated."""

    recall: tuple[Annotated[int, Field(gt=0)], ...] = Field((1, 2, 5), min_length=1)
    """Values of k for recall@k, the fraction of contexts with a correct response among the k best. The first value
    chooses the best checkpoint."""
    candidates: int = Field(10, ge=2)
    """With random distractors: number of candidate responses, including the correct one."""
    distractors: Literal["auto", "random", "given", "hard"] = "auto"
    """random: sampled from the correct responses to other contexts of the file. given: the incorrect responses of the
    file. hard: its adversarial responses. auto: given for tables of distractors and for files with enough incorrect
    responses for each context, random otherwise."""
    seed: int = Field(0, ge=0)
    """Seed of the sampled distractors. It does not depend on the seed of the run, so that all models rank the same
    candidates."""
    texts_at_once: int = Field(256, gt=0)
    """Number of texts scored in one batch."""
    search: SearchConfig = SampleConfig(max_length=40, top_p=0.9)
    """The search of a generative model."""
    written: int = Field(100, ge=0)
    """Number of responses generated at each evaluation for distinct-1 and distinct-2. 0 generates none."""

    @property
    def ranking(self) -> tuple[str, ...]:
        """The names of the ranking metrics."""
        return (*(f"recall@{k}" for k in self.recall), "mrr")


LIKELIHOODS = ("perplexity", "nats_per_token")
"""The scores of generative models that can select checkpoints."""
NEXT_COMMANDS = ("chat RUN", "evaluate RUN FILE", "predict RUN FILE --n-best 3 --scores")


class ConverseConfig(TaskConfig):
    """Conversation."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "dual": {"optimizer": "adamw", "learning_rate": 0.001, "weight_decay": 0.01, "clip_norm": 5.0},
        "generative": {"optimizer": "adamw", "learning_rate": 0.002, "weight_decay": 0.01, "clip_norm": 1.0},
        "seq2seq": {"optimizer": "adamw", "learning_rate": 0.001, "weight_decay": 0.01, "clip_norm": 1.0},
    }

    task: Literal["converse"] = "converse"
    machine: MachineConfig = MachineConfig()
    data: ConverseDataConfig = ConverseDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig(lowercase=True)
    vocabulary: VocabularyConfig = VocabularyConfig()
    model: _ResponderConfig = BM25Config()
    index: IndexConfig = IndexConfig()
    batches: BatchConfig = BatchConfig(batch_size=128, bucket=0)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: ConverseEvaluationConfig = ConverseEvaluationConfig()

    def known_metrics(self) -> tuple[str, ...]:
        return LIKELIHOODS if self.model.kind in GENERATIVE else self.evaluation.ranking

    def problems(self) -> Iterator[str]:
        kind = self.model.kind
        if self.index.clusters is not None and kind != "dual":
            yield (
                f"model.kind must be 'dual' if index.clusters = {self.index.clusters} is set, got {kind!r}. Remove "
                f"index.clusters."
            )
        if kind in GENERATIVE and self.index.file is not None:
            yield f"index.file applies only to models that retrieve responses, got model.kind = {kind!r}. Remove it."
        if getattr(self.model, "against", None) == "context" and self.index.file is not None:
            yield (
                "model.against must not be 'context' if index.file is set, because its responses have no contexts, got "
                "'context'. Remove one of the two options."
            )
        encoder = getattr(self.model, "encoder", None)
        longest = getattr(encoder, "max_length", None)
        if getattr(encoder, "positions", "") == "learned" and longest is not None and longest < self.data.max_length:
            yield (
                f"model.encoder.max_length must be at least data.max_length = {self.data.max_length} if positions are "
                f"learned, got {longest}. Set it to {self.data.max_length}."
            )
