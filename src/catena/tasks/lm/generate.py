"""Generate text with a language model: continue prompts by any search, under constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from catena.data.vocabulary import UNK
from catena.errors import ConfigError
from catena.niche.verse.form import VerseForm, verse_acceptor
from catena.niche.verse.poem import PoemGenerator
from catena.niche.verse.prosody import Dictionary
from catena.search.acceptor import Intersection
from catena.search.build import search, stream, wrap_stepper
from catena.search.combine import shallow_fusion
from catena.search.config import BaseSearchConfig
from catena.search.constrained import Constrained
from catena.search.cost import KEEPING, ConstraintCost, estimate_cost
from catena.search.forbid_ids import ForbidIds
from catena.search.hypothesis import Hypothesis
from catena.search.sampling import sample
from catena.search.stepper import Stepper
from catena.search.text_constraints import TextConstraints
from catena.tasks.lm.task import LmTask
from catena.vectors.table import VectorTable


@dataclass(frozen=True)
class Continuation:
    """A generated continuation of a prompt; the whole text is ``prompt + text``."""

    prompt: str
    text: str
    tokens: tuple[str, ...]
    hypothesis: Hypothesis


@dataclass(frozen=True)
class FusionModel:
    """A second model for shallow fusion, whose log-probabilities are multiplied by ``weight``."""

    model: LmTask
    weight: float


class TextGenerator:
    """Generates continuations of prompts with a language model and one search.

    Args:
        model: the language model.
        settings: the search, such as beam search or sampling.
        constraints: constraints on the generated texts; the prompt is not part of the text.
        fused: a second model over the same vocabulary.
        form: a verse form that every text must fill.
        unknown: allow ``<unk>`` in the output.
    """

    def __init__(
        self,
        model: LmTask,
        settings: BaseSearchConfig,
        constraints: TextConstraints | None = None,
        fused: FusionModel | None = None,
        *,
        form: VerseForm | None = None,
        unknown: bool = False,
    ) -> None:
        self.model, self.settings = model, settings
        stepper: Stepper[Any] = model.stepper
        if fused is not None:
            _check_same_vocabulary(model, fused.model)
            stepper = shallow_fusion(stepper, fused.model.stepper, fused.weight)
        self._reader = wrap_stepper(settings, ForbidIds(stepper, [] if unknown else [UNK]))
        encoding = model.encoding
        parts = [constraints.acceptor(encoding.tokenizer, encoding.vocabulary)] if constraints else []
        if form is not None:
            parts.append(verse_acceptor(form, encoding.tokenizer, encoding.vocabulary))
        self._acceptor = Intersection(parts) if len(parts) > 1 else next(iter(parts), None)

    def write(self, prompts: Sequence[str], generator: torch.Generator) -> list[list[Continuation]]:
        """The continuations of each prompt, best first, or in sampling order."""
        if not prompts:
            return []
        stepper, state = self._begun(prompts)
        found = search(self.settings, stepper, state, generator)
        return [[self._written(prompt, one) for one in row] for prompt, row in zip(prompts, found, strict=True)]

    def cost(self, prompts: Sequence[str], n: int, generator: torch.Generator) -> ConstraintCost:
        """Estimate of the probability that the constraints remove, from ``n`` constrained samples per prompt."""
        stepper, state = self._begun(prompts)
        samples = sample(stepper, state, generator, self.settings.max_length, KEEPING, n=n)
        return estimate_cost([one for row in samples for one in row])

    def stream(self, prompt: str, generator: torch.Generator) -> Iterator[str]:
        """The continuation of one prompt, yielded in pieces while it is generated."""
        stepper, state = self._begun([prompt])
        ids: list[int] = []
        shown = ""
        for (id,) in stream(self.settings, stepper, state, generator):
            if id is None or id == self.model.encoding.end:
                return
            ids.append(id)
            text = self._continuation(prompt, ids)
            if text.startswith(shown) and not text.endswith(
                "\N{REPLACEMENT CHARACTER}"
            ):  # an incomplete UTF-8 character
                yield text[len(shown) :]
                shown = text

    def _written(self, prompt: str, one: Hypothesis) -> Continuation:
        encoding = self.model.encoding
        tokens = tuple(map(encoding.tokenizer.shown, encoding.vocabulary.tokens(one.ids)))
        return Continuation(prompt, self._continuation(prompt, one.ids), tokens, one)

    def _continuation(self, prompt: str, ids: Sequence[int]) -> str:
        """The text that ids add to a prompt, with the space before a word."""
        encoding = self.model.encoding
        read = encoding.ids(prompt)
        before = encoding.text(read)
        whole = encoding.text([*read, *ids])
        text = whole[len(before) :] if whole.startswith(before) else encoding.text(ids)
        return text.removeprefix(" ") if prompt[-1:].isspace() and encoding.unit != "file" else text

    def _begun(self, prompts: Sequence[str]) -> tuple[Stepper[Any], Any]:
        """The stepper and its state after the prompts."""
        encoding, device = self.model.encoding, self.model.stepper_device
        listed = [encoding.ids(prompt) for prompt in prompts]
        lengths = torch.tensor([len(ids) for ids in listed], dtype=torch.long, device=device)
        ids = torch.full((len(listed), max(map(len, listed))), encoding.end, device=device)
        for row, own in zip(ids, listed, strict=True):
            row[: len(own)] = torch.tensor(own, dtype=torch.long)
        state = self._reader.extend(self._reader.start(len(listed)), ids, lengths)
        if self._acceptor is None:
            return self._reader, state
        constrained = Constrained(self._reader, self._acceptor, self.settings.max_length)
        return constrained, constrained.after(state, len(listed))


def _check_same_vocabulary(model: LmTask, other: LmTask) -> None:
    a, b = model.encoding.vocabulary, other.encoding.vocabulary
    if a.symbols != b.symbols:
        raise ConfigError(
            f"Fused models need the same vocabulary; theirs have {len(a):,} and {len(b):,} symbols and differ. Train "
            f"the second model on the same text with the same tokenizer and vocabulary options."
        )


def poem_generator(
    model: LmTask,
    dictionary: Dictionary,
    vectors: VectorTable | None = None,
    *,
    width: int = 40,
    no_repeat: int = 2,
) -> PoemGenerator:
    """A generator of verse with a trained language model. Arguments as in :class:`PoemGenerator`."""
    encoding = model.encoding
    if encoding.unit != "line":
        raise ConfigError(
            f"The language model must have data.unit = 'line' for verse, got {encoding.unit!r}. Train one with --unit "
            f"line."
        )
    return PoemGenerator(
        model.stepper,
        encoding.tokenizer,
        encoding.vocabulary,
        dictionary,
        vectors,
        width=width,
        no_repeat=no_repeat,
        reads_previous_lines=model.config.is_neural and model.config.order != "sentences",
    )
