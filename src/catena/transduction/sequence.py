"""Encoder-decoders as transducers with beam search.

A source ends with an end symbol, so that it is never empty. All source symbols that are not in the training data have
the same embedding; networks that copy can still generate them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.data.batches import pad
from catena.errors import ConfigError
from catena.search.build import search, wrap_stepper
from catena.search.combine import Ensemble
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.base import EncoderDecoder, Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.copy import CopyNet
from catena.transduction.alphabet import UNKNOWN, Alphabet
from catena.transduction.attention_alignment import alignment_links, monotone_path
from catena.transduction.base import Link, SymbolSequence, TransducedString
from catena.transduction.config import SequenceTransducerConfig
from catena.transduction.network import NetworkTransducer, StringPairBatch, alike

PAD, UNKNOWN_SOURCE, BEGIN, END = 0, 1, 1, 2
"""Special ids, equal on both sides except 1: an unknown source symbol, or the beginning of a target."""
_FIRST = 2
"""The offset of the ids of an alphabet, which start at 1."""
_STEP = 16
"""Length limits are multiples of this."""
_ROOM = {"cpu": 6000}
"""Largest number of source symbols in one search batch, by device type."""
_MORE_ROOM = 60_000
"""The default for other devices."""


def longest_target(x: SymbolSequence) -> int:
    """Return the largest number of steps of a target, three for each source symbol plus a constant.

    It is rounded up, so that sources of similar length are searched in one batch.
    """
    return _STEP * math.ceil((3 * (len(x) + 1) + 20) / _STEP)


def build_network(settings: SequenceTransducerConfig, source: Alphabet, target: Alphabet) -> EncoderDecoder:
    """Return the network with randomly initialized weights."""
    counts = [1] * (len(target) + _FIRST + 1)  # layers by frequency are for large vocabularies
    sides = VocabularyInfo(len(source) + _FIRST + 1, counts, BEGIN, END, forbidden=(PAD, BEGIN))
    return build_encoder_decoder(settings.network, sides)


class SequenceModel(NetworkTransducer):
    """An encoder-decoder with its alphabets.

    Args:
        network: the encoder-decoder.
        source: the source symbols.
        target: the target symbols.
        settings: the config.
        others: further networks over the same alphabets, whose probabilities are averaged with those of the first.
    """

    def __init__(
        self,
        network: EncoderDecoder,
        source: Alphabet,
        target: Alphabet,
        settings: SequenceTransducerConfig,
        others: Sequence[EncoderDecoder] = (),
    ) -> None:
        self.network: EncoderDecoder = network
        self.source, self.target, self.settings = source, target, settings
        self.others = list(others)
        # The target id as which each source id is copied; PAD, which is never generated, if the target lacks it.
        known = [id + _FIRST if id != UNKNOWN else PAD for id in target.ids(source.symbols)]
        self._copied_as = torch.tensor([PAD, PAD, PAD, *known])

    # --- training -----------------------------------------------------------------------------------------------------

    def source_ids(self, x: SymbolSequence) -> np.ndarray:
        ids = [id + _FIRST if id != UNKNOWN else UNKNOWN_SOURCE for id in self.source.ids(x)]
        return np.array([*ids, END], np.int64)

    def target_ids(self, y: SymbolSequence) -> np.ndarray:
        return np.array([*(id + _FIRST for id in self.target.ids(y)), END], np.int64)

    def loss(self, batch: StringPairBatch) -> tuple[Float[Tensor, ""], int]:
        copies = self._copied_as.to(batch.ids.device)[batch.ids] if self.copies else None
        total = self.network.loss(Source(batch.ids, batch.lengths, copies), batch.targets, batch.target_lengths)
        return total, batch.target_symbols

    @property
    def copies(self) -> bool:
        """Return whether a network gets the ids of source symbols that it may copy."""
        return any(network.copies for network in (self.network, *self.others) if isinstance(network, CopyNet))

    # --- inference ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        found: list[list[TransducedString]] = [[] for _ in sources]
        limits = [longest_target(x) for x in sources]
        for limit in sorted(set(limits)):  # depends only on the source: the rest of the batch must not matter
            own = [r for r, other in enumerate(limits) if other == limit]
            for places in alike([sources[r] for r in own], _ROOM.get(self.device.type, _MORE_ROOM)):
                rows = [own[i] for i in places]
                for r, listed in zip(rows, self._search([sources[r] for r in rows], n_best, limit), strict=True):
                    found[r] = listed if sources[r] else [TransducedString((), 0.0, ())]
        return found

    def _search(self, sources: Sequence[SymbolSequence], n_best: int, limit: int) -> list[list[TransducedString]]:
        """Return the best targets of a batch, with at most ``limit`` steps."""
        source = self._source(sources)
        options = self.settings.search.model_copy(
            update={
                "n_best": n_best,
                "beam_size": max(self.settings.search.beam_size, n_best),
                "max_length": min(limit, self.settings.search.max_length),
            }
        )
        networks = [self.network, *self.others]
        steppers = [wrap_stepper(options, network.stepper(source)) for network in networks]
        stepper = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        listed = search(options, stepper, stepper.start(len(sources)), torch.Generator())
        whole = [[one for one in some if one.finished] or some[:1] for some in listed]  # the best, if all are truncated
        return self._aligned(sources, source, whole)

    def _source(self, sources: Sequence[SymbolSequence]) -> Source:
        """Return a batch as the network expects it."""
        ids, lengths = pad([self.source_ids(x) for x in sources])
        if not self.copies:
            return Source(ids, lengths).to(self.device)
        copies, new = self._copied_as[ids], [self._new_symbols(x) for x in sources]
        for row, (x, symbols) in enumerate(zip(sources, new, strict=True)):
            for place, symbol in enumerate(x):
                if symbol in symbols:
                    copies[row, place] = self.network.v + symbols.index(symbol)
        return Source(ids, lengths, copies, max(map(len, new))).to(self.device)

    def _new_symbols(self, x: SymbolSequence) -> list[str]:
        """Return the distinct symbols of a source that are not in the training data."""
        return [symbol for symbol in dict.fromkeys(x) if symbol not in self.source]

    def _spelled(self, x: SymbolSequence, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the symbols of a target, which may include new symbols of its source."""
        v = self.network.v
        if all(id < v for id in ids):
            return self.target.spelled(id - _FIRST for id in ids)
        new = self._new_symbols(x)
        return tuple(new[id - v] if id >= v else self.target.spelled([id - _FIRST])[0] for id in ids)

    def _aligned(
        self, sources: Sequence[SymbolSequence], source: Source, listed: Sequence[Sequence[Hypothesis]]
    ) -> list[list[TransducedString]]:
        """Return hypotheses as targets, aligned by the attention of the network."""
        flat = [(r, one) for r, some in enumerate(listed) for one in some]
        links = self._links(sources, source, flat)
        found: list[list[TransducedString]] = [[] for _ in sources]
        for (r, one), pieces in zip(flat, links, strict=True):
            found[r].append(TransducedString(self._spelled(sources[r], one.ids), one.log_prob, pieces, one.finished))
        return found

    def _links(
        self, sources: Sequence[SymbolSequence], source: Source, flat: Sequence[tuple[int, Hypothesis]]
    ) -> list[tuple[Link, ...]]:
        rows = torch.tensor([r for r, _ in flat], dtype=torch.int64, device=source.ids.device)
        targets, lengths = pad([np.array([*one.ids, END], np.int64) for _, one in flat])
        some = source.select(rows)
        weights = self.network.attention(some, targets.to(rows.device), lengths.to(rows.device)) if flat else []
        spelled = [self._spelled(sources[r], one.ids) for r, one in flat]
        if not weights:  # no attention: the whole target is aligned to the whole source
            return [(Link(tuple(sources[r]), y),) for (r, _), y in zip(flat, spelled, strict=True)]
        looked = torch.stack([layer.float().mean(dim=1) for layer in weights]).mean(dim=0)
        symbols = (some.lengths - 1).clamp(min=1)  # without the end symbol
        paths = monotone_path(looked, lengths.to(rows.device), symbols).tolist()
        return [
            alignment_links(sources[r], y, path) if sources[r] else ()
            for (r, _), y, path in zip(flat, spelled, paths, strict=True)
        ]

    # --- other --------------------------------------------------------------------------------------------------------

    def together_with(self, other: SequenceModel) -> SequenceModel:
        """Return an ensemble of both models."""
        if (self.source, self.target) != (other.source, other.target):
            raise ConfigError("The networks of an ensemble have different symbols. Train them on the same data.")
        more = [*self.others, other.network, *other.others]
        return SequenceModel(self.network, self.source, self.target, self.settings, more)

    def with_beam(self, beam_size: int) -> SequenceModel:
        """Return the same model with another beam size."""
        search = self.settings.search.model_copy(update={"beam_size": beam_size})
        settings = self.settings.model_copy(update={"search": search})
        return SequenceModel(self.network, self.source, self.target, settings, self.others)

    def describe(self) -> list[str]:
        parameters = sum(p.numel() for p in self.network.parameters())
        more = f", and {len(self.others)} more" if self.others else ""
        return [
            f"an encoder-decoder, {self.settings.network.kind}, of {parameters:,} parameters{more}",
            *self._symbols_line(),
        ]
