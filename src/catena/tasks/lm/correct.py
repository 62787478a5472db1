"""Correct text with a language model and a channel of errors: what was meant, given what was written."""

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
    """How probable each error is at a symbol, and how much of a substitution stays among the symbol's confusions."""

    insert: float = 0.001
    delete: float = 0.001
    substitute: float = 0.05
    transpose: float = 0.001
    near: float = 0.9


@dataclass(frozen=True)
class CorrectionResult:
    """A text, what was probably meant, and how sure that is.

    Args:
        probability: the share of the samples that are the corrected text: an estimate of its posterior probability.
        alternatives: other texts that were met, with their shares, the most frequent first.
        accepted: the share of proposed changes that the chains took.
        effective: how many independent samples the chains are worth.
        unknown: symbols that the model does not know; a text with such is left as it is, with probability 0.
    """

    text: str
    corrected: str
    probability: float
    alternatives: tuple[tuple[str, float], ...]
    accepted: float
    effective: float
    unknown: tuple[str, ...] = ()


class Corrector:
    """A language model with a channel.

    Args:
        confusions: for a symbol, those that are likely to be written in its place.
        sharpness: a power of the language model; above 1 it is trusted more.
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
        """Correct one text; ``number`` tells texts apart that are corrected with the same seed."""
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
    """Read lines of a symbol, a tab, and the symbols that are confused with it, with spaces between."""
    found: dict[str, list[str]] = {}
    with open_text(path) as lines:
        for number, line in lines:
            symbol, tab, near = line.partition("\t")
            if not line.strip():
                continue
            if not tab or not symbol or not near.split():
                raise FormatError(
                    f"{path}:{number} must be a symbol, a tab, and the symbols that are confused with it with spaces "
                    f"between, and is {line[:60]!r}"
                )
            found.setdefault(symbol, []).extend(near.split())
    return found
