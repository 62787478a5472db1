r"""Networks and losses of text classifiers.

Losses of a classifier, one value for each example.

With scores :math:`s` over k classes, the gold class y, and a target distribution q that is one at y (or smoothed):

=================  ==================================================================
cross_entropy      :math:`-\sum_j q_j \log \mathrm{softmax}(s)_j`
hinge              :math:`\max(0, 1 + \max_{j \ne y} s_j - s_y)` (Crammer & Singer 2001)
squared_error      :math:`\frac12 \sum_j (q_j - \mathrm{softmax}(s)_j)^2`
perceptron         :math:`s_{\hat y} - s_y` with :math:`\hat y = \arg\max_j s_j` (Rosenblatt 1958)
=================  ==================================================================

If a text has several labels, each class is its own binary decision: sigmoid replaces softmax, the margin is between
each class and 0, and the losses of the classes are added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.embeddings.table import Embedding, build_embedding
from catena.encoders.build import build_encoder, build_highway, build_pooling
from catena.encoders.config import HighwayConfig
from catena.encoders.layers import build_activation
from catena.encoders.text_convolution import build_text_convolution
from catena.registry import Registry
from catena.tasks.classify.config import (
    ClassifyConfig,
    CNNConfig,
    ConvolutionalClassifierConfig,
    MLPConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from catena.tasks.classify.encoding import BagBatch, ClassifyBatch, TokenBatch


class ClassifierLoss(ABC):
    """A loss for one label per example and for several. Static, since a loss has no state."""

    @staticmethod
    @abstractmethod
    def single(logits: Float[Tensor, "*b k"], labels: Int[Tensor, "*b"], smoothing: float) -> Float[Tensor, "*b"]:
        """One label for each example."""

    @staticmethod
    @abstractmethod
    def several(logits: Float[Tensor, "*b k"], targets: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
        """Any number of labels: ``targets`` is 1 for the gold classes."""


LOSSES: Registry[type[ClassifierLoss]] = Registry("loss")


@LOSSES.register("cross_entropy")
class CrossEntropy(ClassifierLoss):
    """-log p of the gold class; with several labels, of the gold decision for each class."""

    @staticmethod
    def single(logits: Float[Tensor, "*b k"], labels: Int[Tensor, "*b"], smoothing: float) -> Float[Tensor, "*b"]:
        log_probs = logits.log_softmax(-1)
        exact = -log_probs.gather(-1, labels[..., None]).squeeze(-1)
        return exact if smoothing == 0 else (1 - smoothing) * exact - smoothing * log_probs.mean(-1)

    @staticmethod
    def several(logits: Float[Tensor, "*b k"], targets: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(-1)


@LOSSES.register("hinge")
class Hinge(ClassifierLoss):
    """The amount by which the gold class is not 1 ahead of the best other class (Crammer & Singer 2001)."""

    @staticmethod
    def single(logits: Float[Tensor, "*b k"], labels: Int[Tensor, "*b"], smoothing: float) -> Float[Tensor, "*b"]:
        right = logits.gather(-1, labels[..., None])
        rival = logits.scatter(-1, labels[..., None], -torch.inf).amax(-1)
        return F.relu(1 + rival - right.squeeze(-1))

    @staticmethod
    def several(logits: Float[Tensor, "*b k"], targets: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
        return F.relu(1 - (2 * targets - 1) * logits).sum(-1)


@LOSSES.register("squared_error")
class SquaredError(ClassifierLoss):
    """Half the squared distance between predicted and target probabilities."""

    @staticmethod
    def single(logits: Float[Tensor, "*b k"], labels: Int[Tensor, "*b"], smoothing: float) -> Float[Tensor, "*b"]:
        k = logits.shape[-1]
        targets = F.one_hot(labels, k).to(logits.dtype) * (1 - smoothing) + smoothing / k
        return 0.5 * (targets - logits.softmax(-1)).square().sum(-1)

    @staticmethod
    def several(logits: Float[Tensor, "*b k"], targets: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
        return 0.5 * (targets - logits.sigmoid()).square().sum(-1)


@LOSSES.register("perceptron")
class PerceptronLoss(ClassifierLoss):
    """The score of the predicted class minus the score of the gold class (Rosenblatt 1958)."""

    @staticmethod
    def single(logits: Float[Tensor, "*b k"], labels: Int[Tensor, "*b"], smoothing: float) -> Float[Tensor, "*b"]:
        # Not max(0, …): at the start all scores tie at 0, and a wrong guess must still move the weights.
        guess = logits.argmax(-1, keepdim=True)
        return (logits.gather(-1, guess) - logits.gather(-1, labels[..., None])).squeeze(-1)

    @staticmethod
    def several(logits: Float[Tensor, "*b k"], targets: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
        wrong = (logits > 0) != (targets > 0.5)
        return (torch.where(targets > 0.5, -logits, logits) * wrong).sum(-1)


def balanced_weights(counts: Int[Tensor, "k"] | Float[Tensor, "k"]) -> Float[Tensor, "k"]:
    """Weights that give all classes the same total: n / (k · count), with mean 1 over the examples."""
    return counts.sum() / (torch.where(counts > 0, counts, 1) * len(counts)).to(torch.get_default_dtype())


# --- networks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassifierOutput:
    """The scores of each class and, for neural models, the text vector.

    A bag of models has its models on the first axis.
    """

    logits: Float[Tensor, "*m b k"]
    hidden: Float[Tensor, "*m b d"] | None = None


class Classifier(nn.Module, ABC):
    """Scores texts. ``temperature`` divides the scores in prediction only; it is fitted on dev, not trained."""

    temperature: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("temperature", torch.ones(()))

    @abstractmethod
    def forward(self, batch: Any) -> ClassifierOutput:
        """The scores of a batch of the kind that the model reads: token ids or bags of features."""


class FeatureSum(nn.Module):
    """b + Σ v_i w_i over the features i of each text. Weights start at zero unless initialized afterwards."""

    def __init__(self, n_features: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(max(1, n_features), d_out))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, batch: BagBatch, dropout: float = 0.0) -> Float[Tensor, "b d_out"]:
        values = F.dropout(batch.values, dropout, self.training)
        total = F.embedding_bag(
            batch.ids, self.weight, batch.offsets, mode="sum", per_sample_weights=values.to(self.weight.dtype)
        )
        return total + self.bias


class MultilayerPerceptron(Classifier):
    """Hidden layers over the features of a text."""

    def __init__(self, settings: MLPConfig, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.dropout_input, self.dropout_hidden = settings.dropout_input, settings.dropout_hidden
        self.first = FeatureSum(n_features, settings.hidden[0])
        # A text has some tens of features at any table size, so the variance follows that and not the table.
        nn.init.normal_(self.first.weight, std=0.1)
        sizes = settings.hidden
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.activation = build_activation(settings.activation)
        self.output = nn.Linear(sizes[-1], n_classes)

    def forward(self, batch: BagBatch) -> ClassifierOutput:
        hidden = self.activation(self.first(batch, self.dropout_input))
        for layer in self.layers:
            hidden = self.activation(layer(F.dropout(hidden, self.dropout_hidden, self.training)))
        return ClassifierOutput(self.output(F.dropout(hidden, self.dropout_hidden, self.training)), hidden)


class VectorClassifier(Classifier):
    """Token vectors, their summary, and an output layer; the loss can perturb the vectors before the summary.

    Args:
        embedding: ids to vectors.
        summary: vectors to one text vector.
        output: text vector to scores.
        dropout_input: dropout probability of the token vectors.
        dropout_hidden: dropout probability of the text vector.
    """

    def __init__(
        self,
        embedding: Embedding,
        summary: nn.Module,
        output: nn.Linear,
        dropout_input: float,
        dropout_hidden: float,
    ) -> None:
        super().__init__()
        self.embedding, self.summary, self.output = embedding, summary, output
        self.dropout_input, self.dropout_hidden = dropout_input, dropout_hidden

    def vectors(self, batch: TokenBatch) -> Float[Tensor, "b t d"]:
        return F.dropout(self.embedding(batch.ids), self.dropout_input, self.training)

    def score(self, vectors: Float[Tensor, "b t d"], batch: TokenBatch) -> ClassifierOutput:
        hidden = self.summary(vectors, batch.lengths)
        return ClassifierOutput(self.output(F.dropout(hidden, self.dropout_hidden, self.training)), hidden)

    def forward(self, batch: TokenBatch) -> ClassifierOutput:
        return self.score(self.vectors(batch), batch)


class PositionClassifier(VectorClassifier):
    """Scores every position and pools the scores: with max, one position is enough to assign a class."""

    def __init__(
        self,
        embedding: Embedding,
        encoder: nn.Module,
        output: nn.Linear,
        pooling: nn.Module,
        dropout_input: float,
        dropout_hidden: float,
    ) -> None:
        super().__init__(embedding, encoder, output, dropout_input, dropout_hidden)
        self.pooling = pooling

    def score(self, vectors: Float[Tensor, "b t d"], batch: TokenBatch) -> ClassifierOutput:
        states = F.dropout(self.summary(vectors, batch.lengths), self.dropout_hidden, self.training)
        return ClassifierOutput(self.pooling(self.output(states), batch.lengths))


class PooledEncoder(nn.Module):
    """An encoder, a pooling, and highway layers on the result."""

    def __init__(self, encoder: nn.Module, pooling: nn.Module) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.pooling(self.encoder(x, lengths), lengths)


class WithHighway(nn.Module):
    """Highway layers on a text vector, treated as a sequence of one position."""

    def __init__(self, summary: nn.Module, highway: nn.Module) -> None:
        super().__init__()
        self.summary, self.highway = summary, highway

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        vector = self.summary(x, lengths)
        return self.highway(vector[:, None], torch.ones_like(lengths)).squeeze(1)


class BaggingEnsemble(Classifier):
    """Several classifiers, each trained on its own bootstrap sample, with averaged probabilities."""

    def __init__(self, members: list[Classifier]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, batch: ClassifyBatch) -> ClassifierOutput:
        scored = [member(batch) for member in self.members]
        hidden = [s.hidden for s in scored if s.hidden is not None]
        return ClassifierOutput(torch.stack([s.logits for s in scored]), torch.stack(hidden) if hidden else None)


def build_model(
    config: ClassifyConfig,
    n_ids: int,
    n_classes: int,
    vectors: tuple[Tensor, Tensor] | None = None,
) -> Classifier:
    """The model, or the bag of models, that a config describes.

    Args:
        config: the config of the task.
        n_ids: number of ids of the encoding.
        n_classes: number of classes.
        vectors: pretrained word vectors and a mask of the ids that have one.
    """
    if config.bagging.members == 1:
        return _one_model(config, n_ids, n_classes, vectors)
    return BaggingEnsemble([_one_model(config, n_ids, n_classes, vectors) for _ in range(config.bagging.members)])


def _one_model(config: ClassifyConfig, n_ids: int, n_classes: int, vectors: tuple[Tensor, Tensor] | None) -> Classifier:
    settings = config.model
    if isinstance(settings, MLPConfig):
        return MultilayerPerceptron(settings, n_ids, n_classes)
    assert isinstance(
        settings, CNNConfig | RecurrentClassifierConfig | ConvolutionalClassifierConfig | TransformerClassifierConfig
    )
    matrix, known = vectors if vectors else (None, None)
    embedding = build_embedding(settings.embedding, n_ids, matrix=matrix, known=known)
    drops = settings.dropout_input, settings.dropout_hidden
    if isinstance(settings, CNNConfig):
        convolution = build_text_convolution(settings.convolution, embedding.d_out)
        summary: nn.Module = convolution
        d_out = convolution.d_out
    else:
        encoder = build_encoder(settings.encoder, embedding.d_out)
        if settings.pool_outputs:
            pooling = build_pooling(settings.pooling, n_classes)
            return PositionClassifier(embedding, encoder, nn.Linear(encoder.d_out, n_classes), pooling, *drops)
        pooling = build_pooling(settings.pooling, encoder.d_out)
        summary, d_out = PooledEncoder(encoder, pooling), pooling.d_out
    if settings.n_highway:
        highway = HighwayConfig(n_layers=settings.n_highway, carry=settings.highway_carry)
        summary = WithHighway(summary, build_highway(highway, d_out))
    return VectorClassifier(embedding, summary, nn.Linear(d_out, n_classes), *drops)
