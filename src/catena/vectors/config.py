"""Configs of word vectors, without torch. Tested in tests/vectors/test_learning.py and tests/vectors/test_train.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config


class WordConfig(Config):
    """Which words get a vector."""

    min_count: int = Field(5, ge=1)
    """Drop words that occur less often from the text. They get no vector."""
    max_size: int | None = Field(None, ge=2)
    """Keep at most this many words, the most frequent ones. Default: all."""
    scan_limit: int = Field(50_000_000, ge=2)
    """Maximum number of distinct words to count. Words that first occur later are dropped with a message."""


class PhraseConfig(Config):
    """Joining words that co-occur more often than expected (Mikolov et al. 2013, section 4)."""

    passes: int = Field(0, ge=0, le=10)
    """Number of passes: 1 makes new_york, 2 makes new_york_times, 0 joins nothing."""
    score: Literal["ratio", "npmi"] = "ratio"
    """ratio: (count(a b) - min_pairs) n / (count(a) count(b)); npmi: normalized pointwise mutual information."""
    threshold: float = 10.0
    """Join pairs with a higher score. For npmi, a value between -1 and 1, such as 0.5."""
    min_pairs: int = Field(5, ge=1)
    """Do not join pairs that occur less often."""
    joint: str = Field("_", min_length=1)
    """Separator of joined words."""

    @model_validator(mode="after")
    def _npmi_has_a_limit(self) -> PhraseConfig:
        if self.score == "npmi" and not -1 <= self.threshold < 1:
            raise ValueError(
                f"phrases.threshold must be below 1 for phrases.score = 'npmi', got {self.threshold:g}. Set it to 0.5, "
                f"for example."
            )
        if any(letter.isspace() for letter in self.joint):
            raise ValueError(f"phrases.joint must not contain a blank, got {self.joint!r}. Use '_'.")
        return self


class SubwordConfig(Config):
    """Vectors of character n-grams, which give vectors to unseen words (Bojanowski et al. 2017)."""

    longest: int = Field(0, ge=0, le=30)
    """Maximum length of character n-grams, such as 6. 0: no character n-grams."""
    shortest: int = Field(3, ge=1)
    """Minimum length of character n-grams."""
    buckets: int = Field(2_000_000, ge=1, lt=2**31)
    """Number of rows into which n-grams are hashed."""

    @model_validator(mode="after")
    def _in_order(self) -> SubwordConfig:
        if self.longest and self.shortest > self.longest:
            raise ValueError(
                f"subwords.shortest must be at most subwords.longest = {self.longest}, got {self.shortest}. Swap them."
            )
        return self


# --- models -----------------------------------------------------------------------------------------------------------


class BaseVectorConfig(Config):
    """Options of all models."""

    kind: str
    """Model."""
    d: int = Field(100, ge=1, le=65_536)
    """Dimension of the vectors."""
    window: int = Field(5, ge=1, le=1000)
    """Maximum distance of a context word."""
    dynamic: bool = True
    """Sample the window of each word from 1 to window, so that near neighbors count more."""
    positions: int | None = Field(None, ge=1)
    """Sample this many positions within the window, uniformly, instead of using all of them."""

    @model_validator(mode="after")
    def _positions_are_there(self) -> BaseVectorConfig:
        if self.positions is not None and self.positions > 2 * self.window:
            raise ValueError(
                f"model.positions must be at most {2 * self.window} for model.window = {self.window}, got "
                f"{self.positions}. Reduce it, or widen the window."
            )
        return self


class SkipGramConfig(BaseVectorConfig):
    """Each neighbor predicts the word. Slower than CBOW, better for rare words."""

    kind: Literal["skipgram"] = "skipgram"
    """Model."""


class CBOWConfig(BaseVectorConfig):
    """All neighbors together predict the word. Fast."""

    kind: Literal["cbow"] = "cbow"
    """Model."""
    combine: Literal["mean", "sum", "product"] = "mean"
    """Combination of the neighbors: the mean or sum of their vectors, or the product of their separate
    probabilities."""
    whole_error: bool = True
    """Apply the whole gradient to each neighbor of a mean, as in word2vec. false: the exact gradient, divided among
    them."""
    unit_norm: bool = False
    """Keep all vectors at unit length."""


class PVDMConfig(BaseVectorConfig):
    """Paragraph vectors, distributed memory: line and neighbors predict the word (Le & Mikolov 2014)."""

    kind: Literal["dm"] = "dm"
    """Model."""
    combine: Literal["mean", "sum"] = "mean"
    """Combination of the vectors of the line and its neighbors."""
    whole_error: bool = True
    """Apply the whole gradient to each vector of a mean. false: the exact gradient, divided among them."""


class PVDBOWConfig(BaseVectorConfig):
    """Paragraph vectors, distributed bag of words: the line predicts each of its words."""

    kind: Literal["dbow"] = "dbow"
    """Model."""
    words: bool = True
    """Also train word vectors, by skip-gram."""


class FactorConfig(Config):
    """Options of all linear factor models, which factorize a matrix of counts by scikit-learn."""

    kind: str
    """Model."""
    d: int = Field(100, ge=1, le=65_536)
    """Dimension of the vectors."""
    counts: Literal["contexts", "documents"] = "contexts"
    """contexts: how often words occur near each other; documents: how often they occur in each line, which then has a
    vector too."""
    window: int = Field(5, ge=1, le=1000)
    """For contexts: maximum distance of a context word."""
    n_contexts: int | None = Field(None, ge=2)
    """For contexts: number of context words, the most frequent ones. Default: all; 1,000 for models of dense matrices
    (factor, ica, sparse)."""
    weighting: Literal["auto", "none", "log", "ppmi", "tfidf"] = "auto"
    """Weights of counts: none, log(1 + count), positive pointwise mutual information (ppmi), or term frequency times
    inverse document frequency (tfidf). auto: ppmi for contexts, tfidf for documents."""
    shift: float = Field(1.0, ge=1)
    """For ppmi: the logarithm of this value is subtracted, as in negative sampling with this many noise words."""
    smoothing: float = Field(0.75, gt=0, le=1)
    """For ppmi: power of the counts of contexts, which makes rare ones less important (Levy et al. 2015)."""
    max_iter: int = Field(200, ge=1)
    """Maximum number of iterations; lsa and pca need none."""

    @property
    def weights(self) -> str:
        """The weights of counts, with auto resolved."""
        if self.weighting != "auto":
            return self.weighting
        return "ppmi" if self.counts == "contexts" else "tfidf"


class LSAConfig(FactorConfig):
    """Latent semantic analysis: the truncated singular value decomposition of counts (Deerwester et al. 1990)."""

    kind: Literal["lsa"] = "lsa"
    """Model."""
    power: float = Field(0.5, ge=0, le=1)
    """Word vectors are left singular vectors times singular values to this power."""


class PCAConfig(FactorConfig):
    """Principal components of counts."""

    kind: Literal["pca"] = "pca"
    """Model."""


class FactorAnalysisConfig(FactorConfig):
    """Factor analysis: Gaussian factors, and noise with its own variance in each column, fitted by EM."""

    kind: Literal["factor"] = "factor"
    """Model."""


class ICAConfig(FactorConfig):
    """Independent components of counts, by FastICA."""

    kind: Literal["ica"] = "ica"
    """Model."""


class SparseCodingConfig(FactorConfig):
    """Sparse coding: each row of counts is a combination of few learned rows."""

    kind: Literal["sparse"] = "sparse"
    """Model."""
    alpha: float = Field(0.1, gt=0)
    """Weight of the L1 penalty: a larger one makes more values of a vector zero."""


class NMFConfig(FactorConfig):
    """Non-negative matrix factorization: vectors without negative values, whose dimensions resemble topics."""

    kind: Literal["nmf"] = "nmf"
    """Model."""
    divergence: Literal["frobenius", "kullback-leibler"] = "frobenius"
    """What is minimized: the squared error, or the Kullback-Leibler divergence."""


FACTOR_KINDS = ("lsa", "pca", "factor", "ica", "sparse", "nmf")
"""Linear factor models."""
_VectorModelConfig = Annotated[
    SkipGramConfig
    | CBOWConfig
    | PVDMConfig
    | PVDBOWConfig
    | LSAConfig
    | PCAConfig
    | FactorAnalysisConfig
    | ICAConfig
    | SparseCodingConfig
    | NMFConfig,
    Field(discriminator="kind"),
]


# --- losses -----------------------------------------------------------------------------------------------------------


class NegativeLossConfig(Config):
    """Negative sampling: the word against a few sampled words (Mikolov et al. 2013)."""

    kind: Literal["negative"] = "negative"
    """Loss."""
    noise: int = Field(5, ge=1, le=1000)
    """Number of sampled words for each word."""
    power: float = Field(0.75, ge=0, le=2)
    """Sample words in proportion to count ** power. 0: uniformly."""
    shared: bool = False
    """Use the same samples for all neighbors of a window: much faster, about as good (skip-gram)."""


class NCELossConfig(Config):
    """Noise-contrastive estimation, whose scores approach log-probabilities (Mnih & Teh 2012)."""

    kind: Literal["nce"] = "nce"
    """Loss."""
    noise: int = Field(20, ge=1, le=1000)
    """Number of sampled words for each word."""
    power: float = Field(1.0, ge=0, le=2)
    """Sample words in proportion to count ** power. 0: uniformly."""


class HierarchicalLossConfig(Config):
    """Hierarchical softmax over a Huffman tree of the words, without sampling."""

    kind: Literal["hierarchical"] = "hierarchical"
    """Loss."""


class SoftmaxLossConfig(Config):
    """The full softmax: exact, but slow for more than some thousand words."""

    kind: Literal["softmax"] = "softmax"
    """Loss."""


_VectorLossConfig = Annotated[
    NegativeLossConfig | NCELossConfig | HierarchicalLossConfig | SoftmaxLossConfig, Field(discriminator="kind")
]


class VectorTrainingConfig(Config):
    """Epochs, learning rate, subsampling and checkpoints."""

    epochs: int = Field(5, ge=1)
    """Number of epochs."""
    learning_rate: float | None = Field(None, gt=0)
    """Initial learning rate. Default: 0.05 for CBOW, 0.025 for the other models."""
    min_learning_rate: float = Field(0.0001, ge=0)
    """Final learning rate. It decreases linearly with the words read."""
    subsample: float = Field(0.001, ge=0)
    """Randomly drop words whose relative frequency exceeds this threshold. 0: keep all."""
    save_every: float = Field(300.0, gt=0)
    """Seconds between checkpoints, in addition to one at the end of each epoch."""


class VectorConfig(Config):
    """The complete config of word vectors."""

    seed: int = Field(0, ge=0)
    """Seed of the random number generators."""
    threads: int | None = Field(None, ge=1, le=256)
    """Number of CPU threads. Default: all cores. Only one thread gives exactly reproducible vectors."""
    words: WordConfig = WordConfig()
    """Which words get a vector."""
    phrases: PhraseConfig = PhraseConfig()
    """Joining words that co-occur."""
    subwords: SubwordConfig = SubwordConfig()
    """Vectors of character n-grams."""
    model: _VectorModelConfig = SkipGramConfig()
    """The model."""
    loss: _VectorLossConfig = NegativeLossConfig()
    """The loss."""
    training: VectorTrainingConfig = VectorTrainingConfig()
    """Epochs, learning rate, subsampling and checkpoints."""

    @property
    def rate(self) -> float:
        """The initial learning rate."""
        return self.training.learning_rate or (0.05 if self.model.kind == "cbow" else 0.025)

    @property
    def is_shared(self) -> bool:
        """Whether the neighbors of a window use the same noise samples."""
        if self.model.kind == "cbow":
            return self.model.combine == "product"
        return self.loss.kind == "negative" and self.loss.shared

    @property
    def is_paragraph(self) -> bool:
        """Whether lines have vectors too."""
        model = self.model
        return model.counts == "documents" if isinstance(model, FactorConfig) else model.kind in ("dm", "dbow")

    @property
    def is_factor(self) -> bool:
        """Whether the vectors come from a linear factor model of counts."""
        return isinstance(self.model, FactorConfig)

    @model_validator(mode="after")
    def _factors_have_no_steps(self) -> VectorConfig:
        if not self.is_factor:
            return self
        for name, value in (("loss", NegativeLossConfig()), ("training", type(self.training)())):
            set_here = getattr(self, name)
            if set_here != value:
                known = type(value).model_fields
                key = next((key for key in known if getattr(set_here, key, None) != getattr(value, key)), "kind")
                raise ValueError(
                    f"{name}.{key} must not be set for model = {self.model.kind!r}, which factorizes counts, got "
                    f"{getattr(set_here, key, None)!r:.60}. Remove it, or use model = 'skipgram'."
                )
        if self.subwords.longest:
            raise ValueError(
                f"subwords.longest must be 0 for model = {self.model.kind!r}, got {self.subwords.longest}. Remove it."
            )
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> VectorConfig:
        model, loss = self.model, self.loss
        if model.kind == "cbow" and loss.kind != "negative" and (model.combine == "product" or model.unit_norm):
            what = "model.combine = 'product'" if model.combine == "product" else "model.unit_norm"
            raise ValueError(f"{what} requires loss = 'negative', got {loss.kind!r}. Change one of them.")
        if loss.kind == "negative" and loss.shared and model.kind != "skipgram":
            raise ValueError(
                f"loss.shared requires model = 'skipgram', got {model.kind!r}, which samples noise once per window "
                f"anyway. Remove it."
            )
        if self.subwords.longest and self.is_shared:
            raise ValueError(
                "subwords.longest cannot be combined with shared noise. Remove loss.shared and model.combine = "
                "'product', or set subwords.longest = 0."
            )
        if self.training.min_learning_rate > self.rate:
            raise ValueError(
                f"training.min_learning_rate must be at most the initial rate {self.rate:g}, got "
                f"{self.training.min_learning_rate:g}. Lower it."
            )
        return self
