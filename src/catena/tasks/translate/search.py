"""Search for translations: batches of similar length, steppers, candidates and constraints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.data.batches import pad
from catena.data.vocabulary import UNK
from catena.errors import DataError
from catena.search.build import search, wrap_stepper
from catena.search.combine import Ensemble
from catena.search.config import BaseSearchConfig, RankingConfig
from catena.search.constrained import Constrained
from catena.search.hypothesis import Hypotheses, Hypothesis
from catena.search.stepper import Stepper
from catena.search.without import ForbidIds
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.translate.candidate_vocabulary import Candidates, CandidateStepper, restrict_output
from catena.tasks.translate.config import OutputTextConfig
from catena.tasks.translate.encoding import PairEncoding, TranslationSource, build_batch
from catena.tasks.translate.text_constraints import TranslationConstraints, build_acceptor

STEP = 32
"""Length limits are rounded up to a multiple of this, so that sources of similar length are in one batch."""
MOST = 100_000
"""Largest number of source tokens; the time of attention grows with its square."""
ROOM = {"cpu": 1200, "cuda": 24_000}
"""Number of source tokens in a batch by device type, with padding."""


@dataclass(frozen=True, eq=False)
class EnsembleModel:
    """A model with its encoding, one of an ensemble."""

    model: EncoderDecoder
    encoding: PairEncoding

    @property
    def copies(self) -> bool:
        """Whether the model can copy source tokens."""
        return bool(getattr(self.model, "copies", False))

    def code(self, text: str) -> TranslationSource:
        return self.encoding.code(self.encoding.source.tokenizer.tokens(text))

    def batch(self, sources: Sequence[TranslationSource]) -> Source:
        return build_batch(sources, self.model.device, self.copies)


@dataclass(frozen=True, eq=False)
class HypothesisAttention:
    """Token log-probabilities and attention weights of a given translation.

    Args:
        log_probs: log-probability of each target token; the end symbol is last.
        attention: weights ``[head, t, s]`` of each layer that attends to the source.
    """

    log_probs: tuple[float, ...]
    attention: tuple[np.ndarray, ...]


class TranslationSearch:
    """Searches for translations with one or more models.

    Args:
        models: the models; the first one provides the attention weights and the target vocabulary.
        settings: length limits and output vocabulary.
        candidates: candidate target tokens of each source; None for the full vocabulary.
        longest: the longest source and target of the models; None if there is no limit.
    """

    def __init__(
        self,
        models: Sequence[EnsembleModel],
        settings: OutputTextConfig,
        candidates: Candidates | None = None,
        longest: int | None = None,
    ) -> None:
        self.members, self.settings, self.candidates, self.longest = list(models), settings, candidates, longest

    @property
    def encoding(self) -> PairEncoding:
        return self.members[0].encoding

    # --- searching ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def find(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        how: BaseSearchConfig,
        constraints: Sequence[TranslationConstraints],
        seed: int = 0,
    ) -> Hypotheses:
        """The hypotheses of each source, best first; ``sources[i][k]`` is source ``i`` encoded for model ``k``."""
        found: Hypotheses = [[] for _ in sources]
        generator = torch.Generator().manual_seed(seed)
        for rows, limit in self._batches(sources, how, constraints):
            coded = [sources[row] for row in rows]
            listed = self._find(coded, how.model_copy(update={"max_length": limit}), constraints[rows[0]], generator)
            for row, hypotheses in zip(rows, listed, strict=True):
                found[row] = hypotheses
        return found

    def limit(self, length: int, how: BaseSearchConfig) -> int:
        """The largest number of steps for a source of ``length`` tokens, with its end symbol."""
        wanted = STEP * math.ceil((self.settings.ratio * length + self.settings.extra) / STEP)
        return max(min(wanted, how.max_length, self.longest or wanted), how.min_length + 1)

    def _batches(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        how: BaseSearchConfig,
        constraints: Sequence[TranslationConstraints],
    ) -> Iterator[tuple[list[int], int]]:
        """Batches of rows of similar length with the same limit and constraints, longest first."""
        capacity = ROOM.get(self.members[0].model.device.type, ROOM["cuda"])
        lengths = [max(map(len, coded)) for coded in sources]
        most = max(range(len(sources)), key=lengths.__getitem__, default=0)
        if sources and lengths[most] > min(self.longest or MOST, MOST):
            limit = f"at most {MOST:,} tokens"
            if self.longest is not None and self.longest < MOST:
                limit = f"at most {self.longest:,} tokens (model.max_length)"
            begins = " ".join(sources[most][0].tokens[:5])[:60]
            raise DataError(
                f"A text must have {limit}, got {lengths[most]:,}. Split the text that starts with {begins!r} into "
                f"sentences."
            )
        limits = [self.limit(length, how) for length in lengths]
        kinds = {constraint: number for number, constraint in enumerate(dict.fromkeys(constraints))}
        keys = [
            (kinds[constraint], -limit, -length)
            for constraint, limit, length in zip(constraints, limits, lengths, strict=True)
        ]
        rows: list[int] = []
        for row in sorted(range(len(sources)), key=keys.__getitem__):
            if rows and (keys[row][:2] != keys[rows[0]][:2] or (len(rows) + 1) * lengths[rows[0]] > capacity):
                yield rows, limits[rows[0]]
                rows = []
            rows.append(row)
        if rows:
            yield rows, limits[rows[0]]

    def _find(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        how: BaseSearchConfig,
        constraints: TranslationConstraints,
        generator: torch.Generator,
    ) -> Hypotheses:
        stepper = wrap_stepper(how, self._stepper(sources, bool(constraints)))
        state = stepper.start(len(sources))
        if constraints:
            if stepper.v != len(self.encoding.target.vocabulary):
                raise DataError("A copy model does not support constraints. Use a model of another kind.")
            if isinstance(how, RankingConfig):  # a beam slot for every number of satisfied phrases
                how = how.model_copy(update={"width": max(how.width, how.width * (1 + len(constraints.must)) // 2)})
            constrained = Constrained(stepper, build_acceptor(constraints, self.encoding.target), how.max_length)
            return search(how, constrained, constrained.after(state, len(sources)), generator)
        return search(how, stepper, state, generator)

    @property
    def _avoids_unknown(self) -> bool:
        return self.settings.unknown == "avoid" and not self.encoding.target.tokenizer.symbols

    def _stepper(self, sources: Sequence[Sequence[TranslationSource]], bound: bool) -> Stepper[Any]:
        """The stepper to search; with constraints (``bound``) it uses the full vocabulary."""
        few = None if bound else self.candidates
        allowed = None if few is None else few.allowed([coded[0].ids for coded in sources])
        steppers: list[Stepper[Any]] = []
        for k, member in enumerate(self.members):
            with ExitStack() as stack:
                if allowed is not None:
                    ids = allowed.any(dim=0).nonzero()[:, 0].to(member.model.device)
                    stack.enter_context(restrict_output(member.model, ids))
                stepper = member.model.stepper(member.batch([coded[k] for coded in sources]))
            # Restrict each model separately: probabilities normalized over a batch's candidates cannot be averaged.
            steppers.append(stepper if allowed is None else CandidateStepper(stepper, allowed.to(member.model.device)))
        stepper = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        return ForbidIds(stepper, [UNK]) if self._avoids_unknown else stepper

    # --- scores and attention of hypotheses ---------------------------------------------------------------------------

    @torch.no_grad()
    def look(
        self,
        sources: Sequence[Sequence[TranslationSource]],
        found: Sequence[Hypothesis],
        constraints: Sequence[TranslationConstraints],
        attention: bool,
    ) -> list[HypothesisAttention]:
        """Token log-probabilities of one hypothesis per source, and the attention of the first model."""
        looked: list[HypothesisAttention] = [HypothesisAttention((), ()) for _ in found]
        lengths = [len(coded[0]) + len(one.ids) for coded, one in zip(sources, found, strict=True)]
        for bound in (False, True):
            rows = [row for row, constraint in enumerate(constraints) if bool(constraint) == bound]
            rows.sort(key=lambda row: -lengths[row])
            for low in range(0, len(rows), 16):
                some = rows[low : low + 16]
                seen = self._look([sources[row] for row in some], [found[row] for row in some], bound, attention)
                for row, one in zip(some, seen, strict=True):
                    looked[row] = one
        return looked

    def _look(
        self, sources: Sequence[Sequence[TranslationSource]], found: Sequence[Hypothesis], bound: bool, attention: bool
    ) -> Iterator[HypothesisAttention]:
        ended = [np.array([*one.ids, self.encoding.end], np.int64) for one in found]
        leading = self.members[0].model
        targets, lengths = (x.to(leading.device) for x in pad(ended))
        log_probs = self._log_probs(sources, targets, lengths, bound).double().cpu()
        layers: list[Tensor] = []
        if attention:
            source = self.members[0].batch([coded[0] for coded in sources])
            layers = [weights.float().cpu() for weights in leading.attention(source, targets, lengths)]
        for i, (ids, coded) in enumerate(zip(ended, sources, strict=True)):
            seen = tuple(weights[i, :, : len(ids), : len(coded[0])].numpy() for weights in layers)
            yield HypothesisAttention(tuple(log_probs[i, : len(ids)].tolist()), seen)

    def _log_probs(
        self, sources: Sequence[Sequence[TranslationSource]], targets: Tensor, lengths: Tensor, bound: bool
    ) -> Float[Tensor, "b t"]:
        """Log-probability of each token as in the search, normalized over the allowed tokens."""
        if self._avoids_unknown or (self.candidates is not None and not bound):
            return self._stepper(sources, bound).token_log_probs(targets, lengths)
        each: list[Tensor] = []
        for k, member in enumerate(self.members):
            source = member.batch([coded[k] for coded in sources])
            own = targets.to(member.model.device), lengths.to(member.model.device)
            each.append(member.model.token_log_probs(source, *own).to(targets.device))
        return torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
