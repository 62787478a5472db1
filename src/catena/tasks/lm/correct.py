"""Correct text with a noisy-channel model: a language model and a model of edit errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from catena.data.files import open_text
from catena.data.vocabulary import UNK
from catena.errors import FormatError
from catena.randomness import Randomness
from catena.search.channel import EditChannel
from catena.search.correct import correct
from catena.search.mcmc import AnnealingSchedule
from catena.tasks.lm.predictor import LmPredictor


@dataclass(frozen=True)
class EditRates:
    """Probability of each edit error at a symbol, and of a substitution within the symbol's confusions."""

    insert: float = 0.001
    delete: float = 0.001
    substitute: float = 0.05
    transpose: float = 0.001
    near: float = 0.9


@dataclass(frozen=True)
class CorrectionResult:
    """A text, its most probable correction and its posterior probability.

    Args:
        probability: the fraction of samples equal to the corrected text, an estimate of its posterior probability.
        alternatives: other sampled texts with their fractions, most frequent first.
        accepted: the acceptance rate of the proposed changes.
        effective: the effective number of independent samples of the chains.
        unknown: symbols outside the vocabulary; a text with such symbols is not corrected and has probability 0.
    """

    text: str
    corrected: str
    probability: float
    alternatives: tuple[tuple[str, float], ...]
    accepted: float
    effective: float
    unknown: tuple[str, ...] = ()


class Corrector:
    """Noisy-channel corrector: a language model and a model of edit errors.

    Args:
        model: the language model.
        rates: probabilities of the edit errors.
        confusions: for each symbol, the symbols that are often written instead of it.
        schedule: steps, chains and temperatures of the sampler.
        sharpness: exponent of the language model probability; values above 1 give it more weight.
        seed: seed of the sampler.
    """

    def __init__(
        self,
        model: LmPredictor,
        rates: EditRates | None = None,
        confusions: Mapping[str, Sequence[str]] | None = None,
        *,
        schedule: AnnealingSchedule | None = None,
        sharpness: float = 1.0,
        seed: int = 0,
    ) -> None:
        rates = rates or EditRates()
        self.model, self.sharpness, self.randomness = model, sharpness, Randomness(seed)
        self.schedule = schedule or AnnealingSchedule(steps=1000, burn_in=500, thin=2, chains=8)
        vocabulary = model.encoding.vocabulary
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
        encoding = self.model.encoding
        ids = encoding.ids(text)
        if UNK in ids:
            unknown = sorted({t for t, id in zip(encoding.tokenizer.tokens(text), ids, strict=True) if id == UNK})
            return CorrectionResult(text, text, 0.0, (), 0.0, 0.0, tuple(unknown))
        if not ids:
            return CorrectionResult(text, text, 1.0, (), 0.0, 0.0)
        generator = self.randomness.numpy("correct", number)
        with torch.no_grad():
            found = correct(self.model.stepper, self.channel, ids, self.schedule, generator, self.sharpness)
        others = tuple((encoding.text(other), share) for other, share in list(found.alternatives().items())[1:6])
        samples = found.samples
        return CorrectionResult(
            text, encoding.text(found.ids), found.probability, others, samples.accepted["all"], samples.effective
        )


def read_confusions(path: Path) -> dict[str, list[str]]:
    """Read lines of a symbol, a tab and the symbols confused with it, separated by spaces."""
    found: dict[str, list[str]] = {}
    with open_text(path) as lines:
        for number, line in lines:
            symbol, tab, near = line.partition("\t")
            if not line.strip():
                continue
            if not tab or not symbol or not near.split():
                raise FormatError(
                    f"{path}:{number} must be a symbol, a tab and the symbols confused with it, got {line[:60]!r}. "
                    f"Separate the confused symbols by spaces."
                )
            found.setdefault(symbol, []).extend(near.split())
    return found
