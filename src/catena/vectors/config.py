"""The choices that turn text into word vectors. Typed values only; imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config


class WordConfig(Config):
    """Which words get a vector."""

    min_count: int = Field(5, ge=1)
    """Words that are rarer have no vector of their own, and are left out of the text."""
    max_size: int | None = Field(None, ge=2)
    """Keep so many words at most, the most frequent ones; all if not set."""
    scan_limit: int = Field(50_000_000, ge=2)
    """Different words that are counted at most; words that first come up later are left out, and said so."""


class PhraseConfig(Config):
    """Joining words that stand together more often than chance has it (Mikolov et al. 2013, section 4)."""

    passes: int = Field(0, ge=0, le=10)
    """How often neighbors are joined: 1 makes new_york, 2 makes new_york_times; 0 joins none."""
    score: Literal["ratio", "npmi"] = "ratio"
    """ratio: (count(a b) - min_pairs) n / (count(a) count(b)); npmi: normalized pointwise mutual information."""
    threshold: float = 10.0
    """Pairs that score higher are joined; for npmi a number between -1 and 1, such as 0.5."""
    min_pairs: int = Field(5, ge=1)
    """Pairs that are rarer are not joined."""
    joint: str = Field("_", min_length=1)
    """What is written between joined words."""

    @model_validator(mode="after")
    def _npmi_has_a_limit(self) -> PhraseConfig:
        if self.score == "npmi" and not -1 <= self.threshold < 1:
            raise ValueError(
                f"phrases.threshold = {self.threshold:g} joins nothing with phrases.score = 'npmi', which lies between "
                f"-1 and 1: set it to 0.5, say"
            )
        if any(letter.isspace() for letter in self.joint):
            raise ValueError(f"phrases.joint = {self.joint!r} must hold no blank: the words would fall apart again")
        return self


class SubwordConfig(Config):
    """Vectors of character n-grams, so that words that were never seen get vectors too (Bojanowski et al. 2017)."""

    longest: int = Field(0, ge=0, le=30)
    """Characters of the longest n-gram, such as 6; 0 for words alone."""
    shortest: int = Field(3, ge=1)
    """Characters of the shortest n-gram."""
    buckets: int = Field(2_000_000, ge=1, lt=2**31)
    """Rows that the n-grams share, by a hash."""

    @model_validator(mode="after")
    def _in_order(self) -> SubwordConfig:
        if self.longest and self.shortest > self.longest:
            raise ValueError(
                f"subwords.shortest = {self.shortest} must not be above subwords.longest = {self.longest}: "
                f"exchange them"
            )
        return self


# --- models -----------------------------------------------------------------------------------------------------------


class BaseVectorConfig(Config):
    """What all models share."""

    kind: str
    """The model."""
    d: int = Field(100, ge=1, le=65_536)
    """Numbers of a vector."""
    window: int = Field(5, ge=1, le=1000)
    """The farthest neighbor that counts as context."""
    dynamic: bool = True
    """Draw the reach of each word from 1 to window, so that near neighbors count more."""
    positions: int | None = Field(None, ge=1)
    """Draw so many different positions within the window, near and far alike, in place of all of them."""

    @model_validator(mode="after")
    def _positions_are_there(self) -> BaseVectorConfig:
        if self.positions is not None and self.positions > 2 * self.window:
            raise ValueError(
                f"model.positions = {self.positions} cannot be drawn from the {2 * self.window} positions of "
                f"model.window = {self.window}: draw fewer, or widen the window"
            )
        return self


class SkipGramConfig(BaseVectorConfig):
    """Each neighbor predicts the word: slower than CBOW, better for rare words."""

    kind: Literal["skipgram"] = "skipgram"
    """The model."""


class CBOWConfig(BaseVectorConfig):
    """The neighbors together predict the word: fast."""

    kind: Literal["cbow"] = "cbow"
    """The model."""
    combine: Literal["mean", "sum", "product"] = "mean"
    """How neighbors are put together: the mean or the sum of their vectors; or each by itself, and the product of
    their probabilities."""
    whole_error: bool = True
    """Each neighbor of a mean takes the whole error, as in word2vec, not its share, which is the exact gradient."""
    unit_norm: bool = False
    """Keep all vectors at length one."""


class PVDMConfig(BaseVectorConfig):
    """Paragraph vectors, distributed memory: a line's vector and the neighbors predict the word (Le, Mikolov 2014)."""

    kind: Literal["dm"] = "dm"
    """The model."""
    combine: Literal["mean", "sum"] = "mean"
    """How the line and the neighbors are put together."""
    whole_error: bool = True
    """Each vector of a mean takes the whole error, not its share, which is the exact gradient."""


class PVDBOWConfig(BaseVectorConfig):
    """Paragraph vectors, distributed bag of words: the line's vector predicts every word of the line."""

    kind: Literal["dbow"] = "dbow"
    """The model."""
    words: bool = True
    """Learn word vectors beside them, by skip-gram."""


_VectorModelConfig = Annotated[SkipGramConfig | CBOWConfig | PVDMConfig | PVDBOWConfig, Field(discriminator="kind")]


# --- losses -----------------------------------------------------------------------------------------------------------


class NegativeLossConfig(Config):
    """Negative sampling: the word against a few others, drawn at random (Mikolov et al. 2013)."""

    kind: Literal["negative"] = "negative"
    """What is minimized."""
    noise: int = Field(5, ge=1, le=1000)
    """Others for each word."""
    power: float = Field(0.75, ge=0, le=2)
    """Others are drawn in proportion to count ** power; 0 draws all words alike."""
    shared: bool = False
    """All neighbors of a window share their noise: much faster, and about as good (skip-gram)."""


class NCELossConfig(Config):
    """Noise-contrastive estimation: negative sampling whose scores tend to log-probabilities (Mnih and Teh 2012)."""

    kind: Literal["nce"] = "nce"
    """What is minimized."""
    noise: int = Field(20, ge=1, le=1000)
    """Others for each word."""
    power: float = Field(1.0, ge=0, le=2)
    """Others are drawn in proportion to count ** power; 0 draws all words alike."""


class HierarchicalLossConfig(Config):
    """Hierarchical softmax: the turns down Huffman's tree of the words; no sampling."""

    kind: Literal["hierarchical"] = "hierarchical"
    """What is minimized."""


class SoftmaxLossConfig(Config):
    """The whole softmax: exact, and slow beyond some thousand words."""

    kind: Literal["softmax"] = "softmax"
    """What is minimized."""


_VectorLossConfig = Annotated[
    NegativeLossConfig | NCELossConfig | HierarchicalLossConfig | SoftmaxLossConfig, Field(discriminator="kind")
]


class VectorTrainingConfig(Config):
    """How long, how fast, and on which words."""

    epochs: int = Field(5, ge=1)
    """Passes over the text."""
    learning_rate: float | None = Field(None, gt=0)
    """The step at the start; 0.05 for CBOW and 0.025 for the others if not set."""
    min_learning_rate: float = Field(0.0001, ge=0)
    """The step falls to this, in proportion to the words read."""
    subsample: float = Field(0.001, ge=0)
    """Words more frequent than this share of the text are left out at random now and then; 0 keeps all."""
    save_every: float = Field(300.0, gt=0)
    """Seconds between checkpoints; there is one at the end of each epoch too."""


class VectorConfig(Config):
    """All choices of a training."""

    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    threads: int | None = Field(None, ge=1, le=256)
    """CPU threads; all cores if not set. One thread gives the same vectors bit for bit each time; several do not."""
    words: WordConfig = WordConfig()
    """Which words get a vector."""
    phrases: PhraseConfig = PhraseConfig()
    """Joining words that stand together."""
    subwords: SubwordConfig = SubwordConfig()
    """Vectors of character n-grams."""
    model: _VectorModelConfig = SkipGramConfig()
    """What predicts what."""
    loss: _VectorLossConfig = NegativeLossConfig()
    """What is minimized."""
    training: VectorTrainingConfig = VectorTrainingConfig()
    """How long, how fast, and on which words."""

    @property
    def rate(self) -> float:
        """The step at the start."""
        return self.training.learning_rate or (0.05 if self.model.kind == "cbow" else 0.025)

    @property
    def is_shared(self) -> bool:
        """Whether the neighbors of a window share their noise."""
        if self.model.kind == "cbow":
            return self.model.combine == "product"
        return self.loss.kind == "negative" and self.loss.shared

    @property
    def is_paragraph(self) -> bool:
        """Whether lines have vectors too."""
        return self.model.kind in ("dm", "dbow")

    @model_validator(mode="after")
    def _parts_fit(self) -> VectorConfig:
        model, loss = self.model, self.loss
        if model.kind == "cbow" and loss.kind != "negative" and (model.combine == "product" or model.unit_norm):
            what = "model.combine = 'product'" if model.combine == "product" else "model.unit_norm"
            raise ValueError(f"{what} needs loss = 'negative', and loss is {loss.kind!r}: change one of them")
        if loss.kind == "negative" and loss.shared and model.kind != "skipgram":
            raise ValueError(
                f"loss.shared is for model = 'skipgram', and model is {model.kind!r}, which draws noise once for a "
                f"window anyway: leave it out"
            )
        if self.subwords.longest and self.is_shared:
            raise ValueError(
                "subwords.longest cannot be used where neighbors share their noise: leave loss.shared and "
                "model.combine = 'product' out, or set subwords.longest = 0"
            )
        if self.training.min_learning_rate > self.rate:
            raise ValueError(
                f"training.min_learning_rate = {self.training.min_learning_rate:g} must not be above the rate at the "
                f"start, "
                f"{self.rate:g}: lower it"
            )
        return self
