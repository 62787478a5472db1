"""Batches of pictures for a network, and the search for captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from catena.data.augment import to_unit_scale
from catena.search.config import BaseSearchConfig
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.base import Source
from catena.seq2seq.caption import CaptionModel, GridReader, PictureSource
from catena.tasks.caption.config import CaptionOptions
from catena.tasks.caption.data import CaptionExample
from catena.tasks.caption.encoding import CaptionEncoding
from catena.tasks.caption.predict import CaptionPrediction
from catena.tasks.text_search import HypothesisDetails, SearchModel, TextSearch
from catena.tasks.translate.config import OutputTextConfig


@dataclass(frozen=True, eq=False)
class EncodedPicture:
    """The pixels (height, width, 3) or features (positions, d) of a picture, and its number of positions."""

    content: np.ndarray
    n_positions: int

    def __len__(self) -> int:
        return self.n_positions


@dataclass(frozen=True, eq=False)
class CaptionNetwork(SearchModel[EncodedPicture]):
    """A network of an ensemble."""

    network: CaptionModel

    def code(self, content: np.ndarray) -> EncodedPicture:
        """An encoded picture."""
        reads_pixels = isinstance(self.network.pictures, GridReader)
        return EncodedPicture(content, self.network.n_positions if reads_pixels else len(content))

    def batch(self, sources: Sequence[EncodedPicture]) -> Source:
        return build_source(self.network, [one.content for one in sources])


def build_source(network: CaptionModel, contents: Sequence[np.ndarray]) -> PictureSource:
    """A batch of pictures on the device of a network, padded if their numbers of features differ."""
    device = network.device
    if isinstance(network.pictures, GridReader):
        return pixel_source(network, to_unit_scale(torch.from_numpy(np.stack(contents)).to(device)))
    lengths = torch.tensor([len(one) for one in contents])
    padded = np.zeros((len(contents), int(lengths.max()), contents[0].shape[1]), contents[0].dtype)
    for row, one in zip(padded, contents, strict=True):
        row[: len(one)] = one
    return PictureSource.build(torch.from_numpy(padded).to(device), lengths.to(device), padded.shape[1])


def pixel_source(network: CaptionModel, pixels: torch.Tensor) -> PictureSource:
    """A batch of pictures with values from 0 to 1."""
    n = network.n_positions
    return PictureSource.build(pixels, torch.full((len(pixels),), n, device=pixels.device), n)


class CaptionSearch(TextSearch[EncodedPicture]):
    """Searches for captions with one or more networks that have the same vocabulary."""

    def __init__(self, networks: Sequence[CaptionModel], encoding: CaptionEncoding, max_length: int) -> None:
        self.networks, self.encoding = [CaptionNetwork(network) for network in networks], encoding
        # The number of positions says nothing about the length of a caption.
        super().__init__(self.networks, encoding.target, OutputTextConfig(extra=max_length))

    def describe(
        self, examples: Sequence[CaptionExample], config: BaseSearchConfig, options: CaptionOptions
    ) -> list[list[CaptionPrediction]]:
        """The captions of each picture, best first."""
        coded = [[network.code(example.content) for network in self.networks] for example in examples]
        constraints = [example.constraints or options.constraints() for example in examples]
        found = self.search(coded, config, constraints, options.seed)
        rows = [(i, one) for i, listed in enumerate(found) for one in listed]
        details: list[HypothesisDetails | None] = [None] * len(rows)
        if options.scores or options.attention:
            sources, own = [coded[i] for i, _ in rows], [constraints[i] for i, _ in rows]
            details = list(self.details(sources, [one for _, one in rows], own, options.attention))
        ranked: list[list[CaptionPrediction]] = [[] for _ in examples]
        for (i, one), detail in zip(rows, details, strict=True):
            ranked[i].append(self._prediction(str(examples[i].path), one, detail, options))
        return ranked

    def _prediction(
        self, file: str, one: Hypothesis, details: HypothesisDetails | None, options: CaptionOptions
    ) -> CaptionPrediction:
        tokens = tuple(map(self.encoding.tokenizer.shown, self.encoding.vocabulary.tokens(one.ids)))
        made = CaptionPrediction(file, self.encoding.text(one.ids), tokens, one.log_prob, one.score, not one.finished)
        if details is None:
            return made
        if options.scores:
            made = replace(made, log_probs=details.log_probs[: len(tokens) + one.finished])
        if options.attention:
            made = replace(made, attention=details.attention[0][0, : len(tokens)])
        return made
