"""The config of a reader, which answers questions by spans of texts. Imports no torch.

Tested in tests/tasks/read/test_task.py and tests/tasks/read/test_model.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import (
    BatchConfig,
    CharacterTokenizerConfig,
    VocabularyConfig,
    WhitespaceTokenizerConfig,
    WordTokenizerConfig,
)
from catena.embeddings.config import CharacterConfig, CharacterConvolutionConfig, EmbeddingConfig, NoCharacterConfig
from catena.encoders.config import EncoderConfig, HighwayConfig, Probability, RecurrentConfig, ScoreName
from catena.tasks.config import FilesConfig, MachineConfig, SplitConfig, TaskConfig
from catena.tasks.options import PredictOptions
from catena.training.config import TrainingConfig

METRICS = ("f1", "exact_match")
"""The scores of a reader; the first selects checkpoints."""
_TRAINING: dict[str, Any] = {
    "optimizer": "adam", "learning_rate": 1e-3, "clip_norm": 5.0, "ema": 0.999, "max_epochs": 16, "patience": 0,
}  # fmt: skip
"""Default training options. BiDAF learns little in its first epochs, so that training does not stop early."""


class BiDAFConfig(Config):
    """Bidirectional attention flow (Seo et al. 2017): an answer is a span between two positions of the text."""

    kind: Literal["bidaf"] = "bidaf"
    """The model."""
    words: EmbeddingConfig = EmbeddingConfig(d=100)
    """The word vectors. Those of a file are frozen with mode = 'static', and words outside it are trained."""
    use_words: bool = True
    """Use word vectors; otherwise only characters."""
    characters: CharacterConfig = CharacterConvolutionConfig(d=16, windows=(5,), filters=100, max_length=16)
    """The vectors of words from their characters, with a ReLU."""
    unknown_dropout: float = Field(0.0, ge=0)
    """z: in training, replace a word that occurs n times by the unknown word with probability z / (z + n)."""
    highway: HighwayConfig = HighwayConfig()
    """The highway layers over both vectors of a word."""
    match: bool = False
    """Add two features to the vector of a token: whether the other text has the same token, and the same word."""
    contextual: EncoderConfig = RecurrentConfig(init="orthogonal")
    """The encoder of text and question, with the same weights for both."""
    score: ScoreName = "trilinear"
    """The attention score of a position of the text and a word of the question."""
    context_to_query: bool = True
    """Positions of the text attend to the question; otherwise they get the mean of its vectors."""
    query_to_context: bool = True
    """The question attends to the text; otherwise this part of the features is left out."""
    modeling: EncoderConfig = RecurrentConfig(n_layers=2, dropout=0.2, init="orthogonal")
    """The encoder of the attended text."""
    end: EncoderConfig = RecurrentConfig(init="orthogonal")
    """The encoder before the last position of the answer."""
    end_reads_start: bool = False
    """The encoder of the end also reads the attended text and the expected start, as in AllenNLP."""
    no_answer: Literal["none", "bias", "pooled"] = "none"
    """The score of no answer: none, one learned value, or a function of the positions that the model prefers."""
    no_answer_words: bool = True
    """Decide whether there is no answer by a regression over this score and which words of the question are in the text
    and in the sentence of the answer. It is fitted on train and dev. No effect if no_answer = none."""
    dropout: Probability = 0.2
    """Probability of dropping an input of an encoder or of an output layer."""

    @model_validator(mode="after")
    def _has_inputs(self) -> BiDAFConfig:
        if not self.use_words and isinstance(self.characters, NoCharacterConfig):
            raise ValueError(
                "use_words must be true if characters.kind = 'none', got false. Use words, characters or both."
            )
        if self.words.mode == "multichannel":
            raise ValueError(
                "words.mode must be 'random', 'static' or 'tuned' for a reader, got 'multichannel'. Use 'static'."
            )
        return self


_ReadTokenizerConfig = Annotated[
    WordTokenizerConfig | CharacterTokenizerConfig | WhitespaceTokenizerConfig, Field(discriminator="kind")
]


class ReadDataConfig(FilesConfig, SplitConfig):
    """Questions about texts with their answers."""

    input_format: Literal["auto", "squad", "json", "jsonl", "csv", "tsv"] = "auto"
    """Format of the files: SQuAD 1.1 or 2.0, a list of JSON objects, JSON lines, or a table with a header; auto detects
    it. Objects and tables have context, question, answers and optionally start and id."""
    answer_separator: str | None = None
    """Separator of several answers in one field of a table, such as |."""


class ReadSearchConfig(Config):
    """Which spans of a text are answers."""

    max_answer: int = Field(17, ge=1)
    """Maximum number of tokens of an answer."""
    window: int = Field(400, ge=1)
    """Maximum number of tokens that are read together; longer texts are read in overlapping windows."""
    stride: int = Field(200, ge=1)
    """Distance between the beginnings of two windows."""
    no_answer_threshold: float | None = None
    """There is no answer if its log-odds, or without model.no_answer_words its log-probability minus that of the best
    answer, exceed this. If not set, the value with the best F1 on dev. No effect if model.no_answer = none."""

    @model_validator(mode="after")
    def _windows_overlap(self) -> ReadSearchConfig:
        most = self.window - self.max_answer + 1
        if self.stride > most:
            raise ValueError(
                f"stride must be at most window - max_answer + 1 = {most}, so that each answer is inside of a window, "
                f"got {self.stride}. Lower stride or max_answer, or raise window."
            )
        return self


class ReadEvaluationConfig(Config):
    """How answers are compared with the references."""

    script: Literal["auto", "1.1", "2.0"] = "auto"
    """The SQuAD script whose rules apply. auto: 2.0 if some question has no answer, otherwise 1.1."""
    unit: Literal["auto", "words", "characters"] = "auto"
    """Unit of F1. auto: characters if most letters of the references are Chinese or Japanese, otherwise words."""
    calibrate: bool = True
    """Fit a temperature on dev, so that probabilities agree with the frequency of correct answers."""
    tokens_at_once: int = Field(40_000, gt=0)
    """Tokens that are read in one batch of prediction, including padding."""


class ReadLossConfig(Config):
    """What the reader is trained on."""

    references: Literal["random", "first"] = "random"
    """Of several reference answers, train on a random one in each epoch, or always on the first."""


class ReadOptions(PredictOptions):
    """Options of prediction with a reader."""

    n_best: int = Field(1, ge=1)
    """Return the N most probable answers with different texts, best first."""
    max_answer: int | None = Field(None, ge=1)
    """Maximum number of tokens of an answer. Default: as trained."""
    no_answer_threshold: float | None = None
    """There is no answer if its log-odds, or without model.no_answer_words its log-probability minus that of the best
    answer, exceed this. Default: fitted."""


class ReadConfig(TaskConfig):
    """Config of a reader."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {"bidaf": _TRAINING}

    task: Literal["read"] = "read"
    machine: MachineConfig = MachineConfig()
    data: ReadDataConfig = ReadDataConfig()
    tokenizer: _ReadTokenizerConfig = WordTokenizerConfig(hyphens="split")
    """How texts are split into tokens, whose ends are the possible ends of answers."""
    vocabulary: VocabularyConfig = VocabularyConfig(min_count=2)
    """Which words without a pretrained vector get their own vector."""
    model: BiDAFConfig = BiDAFConfig()
    search: ReadSearchConfig = ReadSearchConfig()
    evaluation: ReadEvaluationConfig = ReadEvaluationConfig()
    loss: ReadLossConfig = ReadLossConfig()
    batches: BatchConfig = BatchConfig(batch_size=60)
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    def problems(self) -> Iterator[str]:
        own = self.tokenizer
        changed = [
            name
            for name in ("lowercase", "normalize", "digits", "stem", "lemmatize")
            if getattr(own, name, None) not in (None, False, "none", "keep")
        ]
        if changed:
            yield (
                f"tokenizer.{changed[0]} must not be set for a reader, whose answers are parts of the text, got "
                f"{getattr(own, changed[0])!r}. Remove it; words are looked up in lower case anyway."
            )
