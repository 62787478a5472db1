"""Neural taggers: from words to states, from states to a distribution over tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.data.batches import pad
from catena.structure.base import StructuredDistribution
from catena.structure.chain import LinearChain
from catena.structure.semimarkov import SemiMarkov
from catena.tasks.base import DataParts, Origin
from catena.tasks.config import model_section
from catena.tasks.neural import Dataset
from catena.tasks.pretrained import WordVectorRows, initial_vectors
from catena.tasks.tag.base import TagTask
from catena.tasks.tag.config import NeuralTaggerConfig, TagConfig, TagOptions
from catena.tasks.tag.data import TagEncoding, TaggedSentence, TagRows, describe_parts, fit_tags, limit_length, tag_ids
from catena.tasks.tag.distribution import ChainDistribution, SegmentDistribution, TagDistribution
from catena.tasks.tag.predict import TagEvaluation, TagPrediction
from catena.tasks.tag.structures import (
    CrfTagStructure,
    MarginTagStructure,
    MemmTagStructure,
    PerceptronTagStructure,
    SegmentKinds,
    SemiMarkovStructure,
    SoftmaxTagStructure,
    TagStructure,
)
from catena.tasks.tag.tag_set import TagSet
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.model import SentenceEncoder, build_sentence_encoder
from catena.tasks.word_inputs.task import WordTask
from catena.training.task import BatchLoss


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


# --- the task ---------------------------------------------------------------------------------------------------------


_SAMPLES, _WIDTH = 3, 90
"""Number and width of the dev sentences that are shown at each evaluation."""


class NeuralTagTask(WordTask[TagConfig, TaggedSentence, TagPrediction, TagOptions], TagTask):
    """A neural tagger."""

    def __init__(self, config: TagConfig, encoding: TagEncoding, network: TagModel) -> None:
        super().__init__(config, encoding, network)
        self.tags, self._tagger = encoding.tags, network

    @classmethod
    def fit_encoding(cls, config: TagConfig, train: Sequence[TaggedSentence], origin: Origin) -> TagEncoding:
        words = origin.pretrained.encoding.vocabulary if origin.pretrained else None
        sentences = (one.sentence for one in train)
        return TagEncoding(
            fit_tags(config, train),
            WordEncoding.count(model_section(config, NeuralTaggerConfig).words, sentences, words),
        )

    @classmethod
    def load_encoding(cls, config: TagConfig, folder: Path) -> TagEncoding:
        return TagEncoding(
            TagSet.load(folder), WordEncoding.load(model_section(config, NeuralTaggerConfig).words, folder)
        )

    @classmethod
    def build_network(cls, config: TagConfig, encoding: TagEncoding, report: list[str] | None = None) -> nn.Module:
        settings = model_section(config, NeuralTaggerConfig)
        vectors = initial_vectors(settings.words.embedding, encoding.words.words, report)
        return build_model(settings, encoding.words, encoding.tags, vectors)

    def usable(self, example: TaggedSentence) -> TaggedSentence | str:
        limited, settings = limit_length(self.config.data, example), model_section(self.config, NeuralTaggerConfig)
        if isinstance(limited, TaggedSentence) and settings.structure == "semimarkov":
            longest = max((end - begin for begin, end, _ in self.tags.spans(limited.tags)), default=0)
            if longest > settings.max_segment:
                return f"with a span longer than max_segment={settings.max_segment}"
        return limited

    def encode(self, examples: Sequence[TaggedSentence], *, gold: bool = True) -> TagRows:
        words = self.encoding.words.encode(one.sentence for one in examples)
        return TagRows(examples, words, [])

    def collate(self, rows: TagRows, index: np.ndarray) -> TagBatch:
        if not rows.tags:  # only training sentences must have known tags
            rows.tags.extend(tag_ids(self.tags, rows.examples))
        tags, lengths = pad([rows.tags[i] for i in index], -1)
        return TagBatch(rows.words.batch(index, self.device), tags, lengths)

    def loss(self, batch: TagBatch) -> BatchLoss:
        mean = self._tagger.losses(batch).mean().to(self.device)
        return BatchLoss(mean, batch.words.size, batch.words.tokens)

    def evaluate_rows(self, rows: TagRows) -> TagEvaluation:
        best = self._by_length(rows.lengths, lambda index: self._distribution(rows, index).best())
        return self.compare(rows.examples, best)

    def distribution(self, examples: Sequence[TaggedSentence]) -> TagDistribution:
        return self._distribution(self.encode(examples, gold=False), np.arange(len(examples)))

    def _distribution(self, rows: TagRows, index: np.ndarray) -> TagDistribution:
        with torch.no_grad():  # not inference mode: confidences are gradients of the result
            lengths = torch.from_numpy(rows.lengths[index])
            structure = self._tagger.distribution(rows.words.batch(index, self.device), lengths)
        if isinstance(structure, LinearChain):
            bonus = self.tags.bonus([rows.examples[i].sentence.words for i in index])
            if bonus is not None:
                emissions = structure.emissions + torch.from_numpy(bonus).to(structure.emissions.dtype)
                structure = structure.with_score_tensors((emissions, *structure.score_tensors()[1:]))
            return ChainDistribution(structure, self.tags, lengths.tolist())
        assert isinstance(structure, SemiMarkov)
        assert isinstance(self._tagger.structure, SemiMarkovStructure)
        return SegmentDistribution(structure, self._tagger.structure.kinds, self.tags, lengths.tolist())

    def summarize(self, parts: DataParts[TaggedSentence], data: Dataset) -> list[str]:
        return describe_parts(self.tags, parts, self.encoding.words.unknown_fractions(data))

    def show(self, rows: TagRows, result: TagEvaluation) -> list[str]:
        chosen = np.linspace(0, len(rows) - 1, min(_SAMPLES, len(rows))).astype(int)
        return [_shown(rows.examples[i], result.predicted[i]) for i in chosen]

    def describe(self, top: int) -> list[str]:
        words, structure = len(self.encoding.words.words), model_section(self.config, NeuralTaggerConfig).structure
        return [*super().describe(top), f"{words:,} words, {self.n_parameters:,} parameters, structure {structure}"]


def _shown(example: TaggedSentence, predicted: Sequence[str]) -> str:
    """Words with their tags other than O, and a mark for wrong tags."""
    parts = []
    for word, gold, tag in zip(example.sentence.words, example.tags, predicted, strict=True):
        mark = "" if tag == gold else f"✗{gold}"
        parts.append(word if tag == "O" and not mark else f"{word}/{tag}{mark}")
    line = " ".join(parts)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
