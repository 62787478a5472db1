"""From sources to translations: batches of like length, steppers, candidates, wishes and a search over them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.data.batches import pad
from catena.data.vocabulary import UNK
from catena.decoding.build import prepared, search
from catena.decoding.combine import Ensemble
from catena.decoding.constrained import Constrained
from catena.decoding.hypothesis import Found, Hypothesis
from catena.decoding.settings import RankingSettings, SearchLimits
from catena.decoding.stepper import Stepper
from catena.decoding.without import Without
from catena.errors import DataError
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.translate.among import Among, Candidates, choosing_among
from catena.tasks.translate.encoding import Coded, Encoding, batch_of
from catena.tasks.translate.settings import WritingSettings
from catena.tasks.translate.wishes import Wishes, acceptor_of

STEP = 32
"""Limits of length are rounded up to a multiple of this, so that sources of like length are searched together."""
MOST = 100_000
"""Tokens of a source that can be translated: the time of attention grows with their square."""
ROOM = {"cpu": 1200, "cuda": 24_000}
"""Source tokens that are searched together, padding included."""


@dataclass(frozen=True, eq=False)
class Member:
    """A model with its encoding; several of them write together."""

    model: EncoderDecoder
    encoding: Encoding

    @property
    def copies(self) -> bool:
        """Whether the model is told which source tokens it may copy."""
        return bool(getattr(self.model, "copies", False))

    def code(self, text: str) -> Coded:
        return self.encoding.code(self.encoding.source.tokeniser.tokens(text))

    def batch(self, sources: Sequence[Coded]) -> Source:
        return batch_of(sources, self.model.device, self.copies)


@dataclass(frozen=True, eq=False)
class Looked:
    """What a model says of a translation that is given.

    Args:
        log_probs: of each target token, the end last.
        attention: for each layer that looks at the source, ``[head, t, s]``.
    """

    log_probs: tuple[float, ...]
    attention: tuple[np.ndarray, ...]


class Searcher:
    """Finds translations.

    Args:
        members: the first one leads: its attention is shown, and its vocabulary is that of the target.
        candidates: what each source chooses among; None for all.
        longest: the longest source and target that the models can take; None where any is.
    """

    def __init__(
        self,
        members: Sequence[Member],
        settings: WritingSettings,
        candidates: Candidates | None = None,
        longest: int | None = None,
    ) -> None:
        self.members, self.settings, self.candidates, self.longest = list(members), settings, candidates, longest

    @property
    def encoding(self) -> Encoding:
        return self.members[0].encoding

    # --- searching ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def find(
        self, sources: Sequence[Sequence[Coded]], how: SearchLimits, wishes: Sequence[Wishes], seed: int = 0
    ) -> Found:
        """The hypotheses of each source, best first; ``sources[i]`` is coded once for each member."""
        found: Found = [[] for _ in sources]
        generator = torch.Generator().manual_seed(seed)
        for rows, limit in self._batches(sources, how, wishes):
            coded = [sources[row] for row in rows]
            listed = self._find(coded, how.model_copy(update={"max_length": limit}), wishes[rows[0]], generator)
            for row, hypotheses in zip(rows, listed, strict=True):
                found[row] = hypotheses
        return found

    def limit(self, length: int, how: SearchLimits) -> int:
        """The most steps for a source of so many tokens, its end among them."""
        wanted = STEP * math.ceil((self.settings.ratio * length + self.settings.extra) / STEP)
        return max(min(wanted, how.max_length, self.longest or wanted), how.min_length + 1)

    def _batches(
        self, sources: Sequence[Sequence[Coded]], how: SearchLimits, wishes: Sequence[Wishes]
    ) -> Iterator[tuple[list[int], int]]:
        """Rows of like length with the same limit and the same wishes, the longest first."""
        room = ROOM.get(self.members[0].model.device.type, ROOM["cuda"])
        lengths = [max(map(len, coded)) for coded in sources]
        most = max(range(len(sources)), key=lengths.__getitem__, default=0)
        if sources and lengths[most] > min(self.longest or MOST, MOST):
            known = f"{MOST:,} can be translated at once"
            if self.longest is not None and self.longest < MOST:
                known = f"this model has learnt positions for {self.longest:,} (model.max_length)"
            begins = " ".join(sources[most][0].tokens[:5])[:60]
            raise DataError(
                f"a text has {lengths[most]:,} tokens, its end counted, and {known}: cut the text, which begins "
                f"{begins!r}, at its sentences"
            )
        limits = [self.limit(length, how) for length in lengths]
        kinds = {wish: number for number, wish in enumerate(dict.fromkeys(wishes))}
        keys = [(kinds[wish], -limit, -length) for wish, limit, length in zip(wishes, limits, lengths, strict=True)]
        rows: list[int] = []
        for row in sorted(range(len(sources)), key=keys.__getitem__):
            if rows and (keys[row][:2] != keys[rows[0]][:2] or (len(rows) + 1) * lengths[rows[0]] > room):
                yield rows, limits[rows[0]]
                rows = []
            rows.append(row)
        if rows:
            yield rows, limits[rows[0]]

    def _find(
        self, sources: Sequence[Sequence[Coded]], how: SearchLimits, wishes: Wishes, generator: torch.Generator
    ) -> Found:
        stepper = prepared(how, self._stepper(sources, wishes))
        state = stepper.start(len(sources))
        if wishes:
            if stepper.v != len(self.encoding.target.vocabulary):
                raise DataError("a model that copies words of the source takes no constraint: ask one of another kind")
            if isinstance(how, RankingSettings):  # ways to the phrases need room beside the likeliest ways
                how = how.model_copy(update={"width": how.width * (1 + len(wishes.must))})
            constrained = Constrained(stepper, acceptor_of(wishes, self.encoding.target), how.max_length)
            return search(how, constrained, constrained.after(state, len(sources)), generator)
        return search(how, stepper, state, generator)

    def _stepper(self, sources: Sequence[Sequence[Coded]], wishes: Wishes) -> Stepper[Any]:
        few = None if wishes else self.candidates
        allowed = None if few is None else few.allowed([coded[0].ids for coded in sources])
        steppers: list[Stepper[Any]] = []
        for k, member in enumerate(self.members):
            with ExitStack() as stack:
                if allowed is not None:
                    ids = allowed.any(dim=0).nonzero()[:, 0].to(member.model.device)
                    stack.enter_context(choosing_among(member.model, ids))
                steppers.append(member.model.stepper(member.batch([coded[k] for coded in sources])))
        stepper = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        if allowed is not None:
            stepper = Among(stepper, allowed.to(self.members[0].model.device))
        if self.settings.unknown == "avoid" and not self.encoding.target.tokeniser.symbols:
            stepper = Without(stepper, [UNK])
        return stepper

    # --- looking at what was found ------------------------------------------------------------------------------------

    @torch.no_grad()
    def look(self, sources: Sequence[Sequence[Coded]], found: Sequence[Hypothesis], attention: bool) -> list[Looked]:
        """The log-probabilities of the tokens of one hypothesis for each source, and where the first model looks."""
        looked: list[Looked] = [Looked((), ()) for _ in found]
        lengths = [len(coded[0]) + len(one.ids) for coded, one in zip(sources, found, strict=True)]
        order = sorted(range(len(found)), key=lambda i: -lengths[i])
        for low in range(0, len(order), 16):
            rows = order[low : low + 16]
            seen = self._look([sources[r] for r in rows], [found[r] for r in rows], attention)
            for row, one in zip(rows, seen, strict=True):
                looked[row] = one
        return looked

    def _look(
        self, sources: Sequence[Sequence[Coded]], found: Sequence[Hypothesis], attention: bool
    ) -> Iterator[Looked]:
        ended = [np.array([*one.ids, self.encoding.end], np.int64) for one in found]
        each: list[Tensor] = []
        layers: list[Tensor] = []
        for k, member in enumerate(self.members):
            source = member.batch([coded[k] for coded in sources])
            targets, lengths = (x.to(member.model.device) for x in pad(ended))
            each.append(member.model.token_log_probs(source, targets, lengths).double().cpu())
            if attention and k == 0:
                layers = [weights.float().cpu() for weights in member.model.attention(source, targets, lengths)]
        log_probs = torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
        for i, (ids, coded) in enumerate(zip(ended, sources, strict=True)):
            seen = tuple(weights[i, :, : len(ids), : len(coded[0])].numpy() for weights in layers)
            yield Looked(tuple(log_probs[i, : len(ids)].tolist()), seen)
