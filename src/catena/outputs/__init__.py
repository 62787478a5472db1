"""What turns one vector into a distribution over a vocabulary, or its loss."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.outputs.adaptive import AdaptiveSoftmax as AdaptiveSoftmax
    from catena.outputs.base import OutputLayer as OutputLayer
    from catena.outputs.build import build_output as build_output
    from catena.outputs.classes import ClassSoftmax as ClassSoftmax
    from catena.outputs.contrastive import NCE as NCE
    from catena.outputs.contrastive import NegativeSampling as NegativeSampling
    from catena.outputs.hierarchical import TreeSoftmax as TreeSoftmax
    from catena.outputs.partitioned import PartitionedSoftmax as PartitionedSoftmax
    from catena.outputs.sampled import SampledSoftmax as SampledSoftmax
    from catena.outputs.softmax import Softmax as Softmax

__all__ = [
    "NCE",
    "AdaptiveSoftmax",
    "ClassSoftmax",
    "NegativeSampling",
    "OutputLayer",
    "PartitionedSoftmax",
    "SampledSoftmax",
    "Softmax",
    "TreeSoftmax",
    "build_output",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AdaptiveSoftmax": ".adaptive",
        "ClassSoftmax": ".classes",
        "NCE": ".contrastive",
        "NegativeSampling": ".contrastive",
        "OutputLayer": ".base",
        "PartitionedSoftmax": ".partitioned",
        "SampledSoftmax": ".sampled",
        "Softmax": ".softmax",
        "TreeSoftmax": ".hierarchical",
        "build_output": ".build",
    },
)
