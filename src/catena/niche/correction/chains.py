"""Correction of any symbols of texts by Markov chains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from catena.data.tokenize import Tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.niche.correction.config import EditRates
from catena.niche.correction.error_model import Confusions
from catena.niche.correction.result import CorrectionResult
from catena.randomness import Randomness
from catena.search.channel import EditChannel
from catena.search.correct import correct
from catena.search.mcmc import AnnealingSchedule
from catena.search.stepper import Stepper


class McmcCorrector:
    """Corrects any symbols of texts by Markov chains over the posterior of the intended text.

    Args:
        stepper: the language model.
        tokenizer: how the model splits texts.
        vocabulary: the tokens of the model's ids.
        rates: probabilities of the edit errors.
        confusions: for each symbol, the symbols that are often written instead of it.
        schedule: steps, chains and temperatures of the sampler.
        lm_weight: exponent of the language model probability; values above 1 give it more weight.
        seed: seed of the sampler.
    """

    def __init__(
        self,
        stepper: Stepper[Any],
        tokenizer: Tokenizer,
        vocabulary: Vocabulary,
        rates: EditRates | None = None,
        confusions: Confusions | None = None,
        *,
        schedule: AnnealingSchedule | None = None,
        lm_weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        rates = rates or EditRates()
        self.stepper, self.tokenizer, self.vocabulary = stepper, tokenizer, vocabulary
        self.lm_weight, self.randomness = lm_weight, Randomness(seed)
        self.schedule = schedule or AnnealingSchedule(steps=1000, burn_in=500, thin=2, chains=8)
        symbols = range(len(vocabulary.specials), len(vocabulary))
        known = {
            vocabulary.ids([symbol])[0]: vocabulary.ids(other for other in near if other in vocabulary)
            for symbol, near in (confusions or {}).items()
            if symbol in vocabulary
        }
        self.channel = EditChannel(
            symbols, len(vocabulary), rates.insert, rates.delete, rates.substitute, rates.transpose, known, rates.near
        )

    def correct(self, text: str, number: int = 0) -> CorrectionResult:
        """Correct one text.

        Args:
            text: the text to correct.
            number: index of the text, which selects its random stream under the same seed.
        """
        tokens = self.tokenizer.tokens(text)
        ids = self.vocabulary.ids(tokens)
        if UNK in ids:
            unknown = sorted({token for token, id in zip(tokens, ids, strict=True) if id == UNK})
            return CorrectionResult(text, text, 0.0, accepted=0.0, effective_samples=0.0, unknown=tuple(unknown))
        if not ids:
            return CorrectionResult(text, text, 1.0, accepted=0.0, effective_samples=0.0)
        generator = self.randomness.numpy("correct", number)
        with torch.no_grad():
            found = correct(self.stepper, self.channel, ids, self.schedule, generator, self.lm_weight)
        others = tuple((self._text(other), p) for other, p in list(found.alternatives().items())[1:6])
        samples = found.samples
        return CorrectionResult(
            text,
            self._text(found.ids),
            found.probability,
            alternatives=others,
            accepted=samples.accepted["all"],
            effective_samples=samples.effective,
        )

    def _text(self, ids: Iterable[int]) -> str:
        return self.tokenizer.join(self.vocabulary.tokens(ids))
