r"""Losses of a classifier, one value for each example.

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

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from catena.registry import Registry


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


def balanced_weights(counts: Int[Tensor, "k"]) -> Float[Tensor, "k"]:
    """Weights that give all classes the same total: n / (k · count), with mean 1 over the examples."""
    return counts.sum() / (counts.clamp(min=1) * len(counts)).to(torch.get_default_dtype())
