"""Search for texts given encoded sources: batches of similar length, ensembles, constraints, and their details.

Every task that generates a text from a source (a sentence, a picture) uses it; the models are encoder-decoders.
Tested in tests/tasks/translate/test_translate.py and tests/tasks/caption/test_task.py.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.data.batches import pad
from catena.data.vocabulary import UNK
from catena.errors import DataError
from catena.search.build import search, wrap_stepper
from catena.search.combine import Ensemble
from catena.search.config import BaseSearchConfig, GreedyConfig, RankingConfig
from catena.search.constrained import Constrained
from catena.search.forbid_ids import ForbidIds
from catena.search.hypothesis import Hypotheses, Hypothesis
from catena.search.overrides import best_search, drawn_search
from catena.search.stepper import Stepper
from catena.search.text_constraints import TextConstraints
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.options import BeamOptions
from catena.tasks.translate.config import OutputTextConfig
from catena.tasks.translate.encoding import TextEncoding

STEP = 32
"""Length limits are rounded up to a multiple of this, so that sources of similar length are in one batch."""
BATCH_TOKENS = {"cpu": 1200, "cuda": 24_000}
"""Number of source tokens in a batch by device type, with padding."""
_SCORED_TOGETHER = 16
"""Number of hypotheses whose token log-probabilities and attention weights are computed together."""

S = TypeVar("S", bound=Sized)
"""An encoded source, whose length is its number of positions."""


class SearchModel(ABC, Generic[S]):
    """Abstract network that reads encoded sources, one of an ensemble."""

    network: EncoderDecoder

    @abstractmethod
    def batch(self, sources: Sequence[S]) -> Source:
        """Padded sources on the device of the network."""


@dataclass(frozen=True, eq=False)
class HypothesisDetails:
    """Token log-probabilities and attention weights of a generated text.

    Args:
        log_probs: log-probability of each target token; the end symbol is last.
        attention: weights ``[head, t, s]`` of each layer that attends to the source.
    """

    log_probs: tuple[float, ...]
    attention: tuple[np.ndarray, ...]


def choose_search(own: BaseSearchConfig, options: BeamOptions) -> BaseSearchConfig:
    """The search of a config, changed by the options of ``predict``."""
    if options.samples:
        return drawn_search(own, options.samples)
    if options.beam_size == 1 and options.n_best == 1 and options.length_penalty is None:
        return GreedyConfig.model_validate(own.limits())
    is_own = options.beam_size is None and options.length_penalty is None
    if is_own and options.n_best == getattr(own, "n_best", 1):
        return own
    config = best_search(own, options.n_best, options.beam_size)
    if not isinstance(own, RankingConfig):
        config = config.model_copy(update={"normalize": "gnmt"})
    if options.length_penalty is not None:
        config = config.model_copy(update={"normalize": "gnmt", "length_penalty": options.length_penalty})
    return config


class TextSearch(Generic[S]):
    """Searches for texts with one or more models.

    Args:
        models: the models; the first one provides the attention weights.
        target: the tokenizer and vocabulary of the generated texts, the same for all models.
        settings: length limits and output vocabulary.
        longest: the longest source and target of the models; None if there is no limit.
    """

    def __init__(
        self,
        models: Sequence[SearchModel[S]],
        target: TextEncoding,
        settings: OutputTextConfig,
        longest: int | None = None,
    ) -> None:
        self.models, self.target, self.settings, self.longest = list(models), target, settings, longest

    def check_lengths(self, sources: Sequence[Sequence[S]], lengths: Sequence[int]) -> None:
        """Raise DataError if a source is too long. By default all are allowed."""

    @torch.no_grad()
    def search(
        self,
        sources: Sequence[Sequence[S]],
        config: BaseSearchConfig,
        constraints: Sequence[TextConstraints],
        seed: int = 0,
    ) -> Hypotheses:
        """The hypotheses of each source, best first; ``sources[i][k]`` is source ``i`` encoded for model ``k``."""
        found: Hypotheses = [[] for _ in sources]
        generator = torch.Generator().manual_seed(seed)
        for rows, limit in self._batches(sources, config, constraints):
            coded = [sources[row] for row in rows]
            limited = config.model_copy(update={"max_length": limit})
            listed = self._search(coded, limited, constraints[rows[0]], generator)
            for row, hypotheses in zip(rows, listed, strict=True):
                found[row] = hypotheses
        return found

    def limit(self, length: int, config: BaseSearchConfig) -> int:
        """The largest number of steps for a source of ``length`` tokens, with its end symbol."""
        wanted = STEP * math.ceil((self.settings.ratio * length + self.settings.extra) / STEP)
        return max(min(wanted, config.max_length, self.longest or wanted), config.min_length + 1)

    def _batches(
        self,
        sources: Sequence[Sequence[S]],
        config: BaseSearchConfig,
        constraints: Sequence[TextConstraints],
    ) -> Iterator[tuple[list[int], int]]:
        """Batches of rows of similar length with the same limit and constraints, longest first."""
        capacity = BATCH_TOKENS.get(self.models[0].network.device.type, BATCH_TOKENS["cuda"])
        lengths = [max(map(len, coded)) for coded in sources]
        self.check_lengths(sources, lengths)
        limits = [self.limit(length, config) for length in lengths]
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

    def _search(
        self,
        sources: Sequence[Sequence[S]],
        config: BaseSearchConfig,
        constraints: TextConstraints,
        generator: torch.Generator,
    ) -> Hypotheses:
        stepper = wrap_stepper(config, self.stepper(sources, bool(constraints)))
        state = stepper.start(len(sources))
        if not constraints:
            return search(config, stepper, state, generator)
        target = self.target
        if stepper.v != len(target.vocabulary):
            raise DataError("A copy model does not support constraints. Use a model of another kind.")
        if isinstance(config, RankingConfig):  # a beam slot for every number of satisfied phrases
            size = max(config.beam_size, config.beam_size * (1 + len(constraints.include)) // 2)
            config = config.model_copy(update={"beam_size": size})
        acceptor = constraints.acceptor(target.tokenizer, target.vocabulary)
        constrained = Constrained(stepper, acceptor, config.max_length)
        return search(config, constrained, constrained.after(state, len(sources)), generator)

    @property
    def _avoids_unknown(self) -> bool:
        return self.settings.unknown == "avoid" and not self.target.tokenizer.symbols

    def stepper(self, sources: Sequence[Sequence[S]], is_constrained: bool) -> Stepper[Any]:
        """The stepper to search."""
        steppers = [
            model.network.stepper(model.batch([coded[k] for coded in sources])) for k, model in enumerate(self.models)
        ]
        return self.combine(steppers)

    def combine(self, steppers: Sequence[Stepper[Any]]) -> Stepper[Any]:
        """The mean of the models' probabilities, without the unknown token if it is avoided."""
        stepper = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        return ForbidIds(stepper, [UNK]) if self._avoids_unknown else stepper

    def restricts(self, is_constrained: bool) -> bool:
        """Whether some tokens are excluded, so that log-probabilities come from :meth:`stepper`."""
        return self._avoids_unknown

    # --- scores and attention of hypotheses ---------------------------------------------------------------------------

    @torch.no_grad()
    def details(
        self,
        sources: Sequence[Sequence[S]],
        hypotheses: Sequence[Hypothesis],
        constraints: Sequence[TextConstraints],
        attention: bool,
    ) -> list[HypothesisDetails]:
        """Token log-probabilities of one hypothesis per source, and the attention of the first model."""
        details: list[HypothesisDetails] = [HypothesisDetails((), ()) for _ in hypotheses]
        lengths = [len(coded[0]) + len(one.ids) for coded, one in zip(sources, hypotheses, strict=True)]
        for is_constrained in (False, True):
            rows = [row for row, constraint in enumerate(constraints) if bool(constraint) == is_constrained]
            rows.sort(key=lambda row: -lengths[row])
            for low in range(0, len(rows), _SCORED_TOGETHER):
                some = rows[low : low + _SCORED_TOGETHER]
                coded, own = [sources[row] for row in some], [hypotheses[row] for row in some]
                for row, one in zip(some, self._details(coded, own, is_constrained, attention), strict=True):
                    details[row] = one
        return details

    def _details(
        self,
        sources: Sequence[Sequence[S]],
        hypotheses: Sequence[Hypothesis],
        is_constrained: bool,
        attention: bool,
    ) -> Iterator[HypothesisDetails]:
        ended = [np.array([*one.ids, self.target.end], np.int64) for one in hypotheses]
        first = self.models[0]
        targets, lengths = (x.to(first.network.device) for x in pad(ended))
        log_probs = self._log_probs(sources, targets, lengths, is_constrained).double().cpu()
        layers: list[Tensor] = []
        if attention:
            source = first.batch([coded[0] for coded in sources])
            layers = [weights.float().cpu() for weights in first.network.attention(source, targets, lengths)]
        for i, (ids, coded) in enumerate(zip(ended, sources, strict=True)):
            own = tuple(weights[i, :, : len(ids), : len(coded[0])].numpy() for weights in layers)
            yield HypothesisDetails(tuple(log_probs[i, : len(ids)].tolist()), own)

    def _log_probs(
        self, sources: Sequence[Sequence[S]], targets: Tensor, lengths: Tensor, is_constrained: bool
    ) -> Float[Tensor, "b t"]:
        """Log-probability of each token as in the search, normalized over the allowed tokens."""
        if self.restricts(is_constrained):
            return self.stepper(sources, is_constrained).token_log_probs(targets, lengths)
        each: list[Tensor] = []
        for k, model in enumerate(self.models):
            source, device = model.batch([coded[k] for coded in sources]), model.network.device
            own = model.network.token_log_probs(source, targets.to(device), lengths.to(device))
            each.append(own.to(targets.device))
        return torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
