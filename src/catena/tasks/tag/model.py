"""Neural taggers: from words to states, from states to a distribution over tags."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.structure.base import StructuredDistribution
from catena.tasks.tag.config import NeuralTaggerConfig
from catena.tasks.tag.segments import SegmentKinds, SemiMarkovStructure
from catena.tasks.tag.structures import (
    CrfTagStructure,
    MarginTagStructure,
    MemmTagStructure,
    PerceptronTagStructure,
    SoftmaxTagStructure,
    TagStructure,
)
from catena.tasks.tag.tag_set import TagSet
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.model import SentenceEncoder, build_sentence_encoder
from catena.tasks.word_vectors import WordVectorRows


@dataclass(frozen=True)
class TagBatch:
    """Sentences on the model's device, with their tags (-1 if not known) and lengths on the CPU."""

    words: WordBatch
    tags: Int[Tensor, "b t"]
    lengths: Int[Tensor, "b"]


class TagModel(nn.Module):
    """An encoder of sentences and a structure over their tags."""

    def __init__(self, encoder: SentenceEncoder, structure: TagStructure) -> None:
        super().__init__()
        self.encoder, self.structure = encoder, structure

    def losses(self, batch: TagBatch) -> Float[Tensor, "b"]:
        """The loss of each sentence."""
        return self.structure.losses(self.encoder(batch.words), batch.tags, batch.lengths)

    def distribution(self, words: WordBatch, lengths: Int[Tensor, "b"]) -> StructuredDistribution:
        """The distribution over tags, on the CPU."""
        return self.structure.distribution(self.encoder(words), lengths)


def build_model(
    settings: NeuralTaggerConfig, encoding: WordEncoding, tagging: TagSet, vectors: WordVectorRows | None = None
) -> TagModel:
    """The model that a config describes, with random weights."""
    encoder = build_sentence_encoder(settings, encoding, vectors)
    return TagModel(encoder, build_structure(settings, encoder.d_out, tagging))


def build_structure(settings: NeuralTaggerConfig, d_in: int, tagging: TagSet) -> TagStructure:
    """The structure of a config over the tags of a tag set."""
    sizes = d_in, len(tagging.names), tagging.rules()
    match settings.structure:
        case "crf":
            return CrfTagStructure(*sizes)
        case "softmax":
            return SoftmaxTagStructure(*sizes)
        case "memm":
            return MemmTagStructure(*sizes)
        case "perceptron":
            return PerceptronTagStructure(*sizes)
        case "margin":
            return MarginTagStructure(*sizes, settings.cost)
        case "semimarkov":
            assert tagging.own is not None
            return SemiMarkovStructure(d_in, SegmentKinds(tagging.names.names, tagging.own), settings.max_segment)
