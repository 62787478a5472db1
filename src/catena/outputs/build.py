"""From settings to output layers. A new kind of layer is entered in ``OUTPUTS`` under its ``kind``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from catena.errors import ConfigError
from catena.outputs.base import OutputLayer
from catena.outputs.settings import OutputSettings, SoftmaxSettings
from catena.outputs.softmax import Softmax
from catena.registry import Registry


@dataclass(frozen=True, eq=False)
class Words:
    """What a layer is told of its words: how often each occurs, and what else the caller has."""

    counts: Sequence[int]
    tied: nn.Parameter | None = None
    vectors: Tensor | None = None
    classes: Sequence[int] | None = None
    forbidden: Sequence[int] = ()

    @property
    def v(self) -> int:
        return len(self.counts)


OUTPUTS: Registry[Callable[[Any, int, Words], OutputLayer]] = Registry("output layer")


def build_output(
    settings: OutputSettings,
    d_in: int,
    counts: Sequence[int],
    tied: nn.Parameter | None = None,
    vectors: Float[Tensor, "v d"] | None = None,
    classes: Sequence[int] | None = None,
    forbidden: Sequence[int] = (),
) -> OutputLayer:
    """The layer of these settings for vectors of size ``d_in``.

    Args:
        settings: any of ``OutputSettings``.
        d_in: features of the vectors.
        counts: how often each id occurs in the training text, in the order of the ids.
        tied: the rows of an embedding to use as weights, of shape ``(v, d_in)``.
        vectors: word vectors that a clustered tree is made of.
        classes: the class of each id, for a hierarchy of classes.
        forbidden: ids of probability 0, such as padding.
    """
    if not len(counts):
        raise ConfigError(
            "counts must have the frequency of each id, but it is empty: an output layer needs a vocabulary"
        )
    words = Words([int(count) for count in counts], tied, vectors, classes, tuple(int(i) for i in forbidden))
    return OUTPUTS[settings.kind](settings, d_in, words)


@OUTPUTS.register("softmax")
def build_softmax(settings: SoftmaxSettings, d_in: int, words: Words) -> Softmax:
    """The full softmax."""
    return Softmax(d_in, words.v, settings.bias, settings.temperature, words.tied, words.forbidden)
