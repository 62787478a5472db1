"""Write text with a language model: go on with prompts by any search, under wishes that every text fulfills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from catena.data.vocabulary import UNK
from catena.errors import ConfigError, DataError
from catena.search.acceptor import Acceptor, Intersection
from catena.search.automaton_acceptor import AutomatonAcceptor
from catena.search.build import search, stream, wrap_stepper
from catena.search.combine import shallow_fusion
from catena.search.config import BaseSearchConfig
from catena.search.constrained import Constrained
from catena.search.cost import KEEPING, ConstraintCost, estimate_cost
from catena.search.hypothesis import Hypothesis
from catena.search.phrases import with_phrase, without_phrases
from catena.search.pieces import PieceAcceptor
from catena.search.sampling import sample
from catena.search.stepper import Stepper
from catena.search.without import ForbidIds
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.predictor import LmPredictor
from catena.tasks.lm.verse import VerseForm, verse_acceptor
from catena.tasks.spelling import build_phrase_acceptors


@dataclass(frozen=True)
class TextConstraints:
    """What every text that is written must be like, without its prompt.

    Args:
        words: phrases that must each occur.
        without: phrases that must not occur.
        pattern: a regular expression that must match the whole text.
        form: a form of verse that it must fill.
    """

    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    pattern: str | None = None
    form: VerseForm | None = None

    def __bool__(self) -> bool:
        return bool(self.words or self.without or self.pattern is not None or self.form is not None)


@dataclass(frozen=True)
class Continuation:
    """A text that goes on from a prompt: ``prompt + text`` is the whole."""

    prompt: str
    text: str
    tokens: tuple[str, ...]
    hypothesis: Hypothesis


@dataclass(frozen=True)
class FusionModel:
    """Another model that has a say in what is written: its log-probabilities count ``weight`` times."""

    model: LmPredictor
    weight: float


class TextGenerator:
    """A language model that writes, by one search.

    Args:
        wishes: what all that is written must be like.
        fused: a second model over the same vocabulary.
        unknown: write ``<unk>`` where the model would; otherwise known symbols alone are written.
    """

    def __init__(
        self,
        model: LmPredictor,
        settings: BaseSearchConfig,
        wishes: TextConstraints | None = None,
        fused: FusionModel | None = None,
        *,
        unknown: bool = False,
    ) -> None:
        self.model, self.settings = model, settings
        stepper: Stepper[Any] = model.stepper
        if fused is not None:
            _check_same_vocabulary(model, fused.model)
            stepper = shallow_fusion(stepper, fused.model.stepper, fused.weight)
        self._reader = wrap_stepper(settings, ForbidIds(stepper, [] if unknown else [UNK]))
        self._acceptor = build_acceptor(wishes, model.encoding) if wishes else None

    def write(self, prompts: Sequence[str], generator: torch.Generator) -> list[list[Continuation]]:
        """The texts for each prompt, best first, or in the order they were drawn."""
        if not prompts:
            return []
        stepper, state = self._begun(prompts)
        found = search(self.settings, stepper, state, generator)
        return [[self._written(prompt, one) for one in row] for prompt, row in zip(prompts, found, strict=True)]

    def cost(self, prompts: Sequence[str], n: int, generator: torch.Generator) -> ConstraintCost:
        """What the wishes cost, from ``n`` texts for each prompt, drawn freely but for the wishes."""
        stepper, state = self._begun(prompts)
        drawn = sample(stepper, state, generator, self.settings.max_length, KEEPING, n=n)
        return estimate_cost([one for row in drawn for one in row])

    def stream(self, prompt: str, generator: torch.Generator) -> Iterator[str]:
        """The text for one prompt, piece by piece as it is chosen."""
        stepper, state = self._begun([prompt])
        ids: list[int] = []
        shown = ""
        for (id,) in stream(self.settings, stepper, state, generator):
            if id is None or id == self.model.encoding.end:
                return
            ids.append(id)
            text = self._continuation(prompt, ids)
            if text.startswith(shown) and not text.endswith("\N{REPLACEMENT CHARACTER}"):  # half a character of bytes
                yield text[len(shown) :]
                shown = text

    def _written(self, prompt: str, one: Hypothesis) -> Continuation:
        tokens = tuple(self.model.encoding.vocabulary.tokens(one.ids))
        return Continuation(prompt, self._continuation(prompt, one.ids), tokens, one)

    def _continuation(self, prompt: str, ids: Sequence[int]) -> str:
        """What ids add to a prompt, with the blank that stands before a word."""
        encoding = self.model.encoding
        read = encoding.ids(prompt)
        before = encoding.text(read)
        whole = encoding.text([*read, *ids])
        text = whole[len(before) :] if whole.startswith(before) else encoding.text(ids)
        return text.removeprefix(" ") if prompt[-1:].isspace() and encoding.unit == "line" else text

    def _begun(self, prompts: Sequence[str]) -> tuple[Stepper[Any], Any]:
        """The stepper and its state after the prompts."""
        encoding, device = self.model.encoding, self.model.device
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


def build_acceptor(wishes: TextConstraints, encoding: LmEncoding) -> Acceptor:
    """The set of sequences that fulfill the wishes."""
    _check_together(wishes)
    cut_in_words = encoding.tokenizer.settings.kind in ("words", "whitespace")
    parts = _phrases_of_words(wishes, encoding) if cut_in_words else _phrases_of_pieces(wishes, encoding)
    if wishes.pattern is not None:
        from catena.structure.automaton.regex import from_regex  # seconds to import, and seldom wanted

        first, later = token_strings(encoding)
        alphabet = sorted(set().union(*first, *later))
        parts.append(PieceAcceptor(from_regex(wishes.pattern, alphabet), later, first))
    if wishes.form is not None:
        parts.append(verse_acceptor(wishes.form, encoding))
    return parts[0] if len(parts) == 1 else Intersection(parts)


def _phrases_of_words(wishes: TextConstraints, encoding: LmEncoding) -> list[Acceptor]:
    v = len(encoding.vocabulary)
    parts: list[Acceptor] = []
    if wishes.words:
        wanted = [AutomatonAcceptor(with_phrase(_phrase(text, encoding), v), v) for text in wishes.words]
        parts.append(Intersection(wanted, in_turn=True))
    if wishes.without:
        unwanted = [_phrase(text, encoding) for text in wishes.without]
        parts.append(AutomatonAcceptor(without_phrases(unwanted, v), v))
    return parts


def _phrases_of_pieces(wishes: TextConstraints, encoding: LmEncoding) -> list[Acceptor]:
    """Pieces are read by their characters: a phrase is made of whole words, however it is cut."""
    if not all(encoding.tokenizer.tokens(text) for text in (*wishes.words, *wishes.without)):
        raise DataError("a phrase must be of known words, and '' is empty")
    return build_phrase_acceptors(wishes.words, wishes.without, "", encoding.tokenizer, encoding.vocabulary)


def _check_together(wishes: TextConstraints) -> None:
    """Refuse what must not be written within what must: nothing could be written."""
    for bad in wishes.without:
        for good in wishes.words:
            if bad.strip() and f" {' '.join(bad.split())} " in f" {' '.join(good.split())} ":
                raise DataError(
                    f"a text with {good!r} and without {bad!r} cannot be written: drop one of the two wishes"
                )


def token_strings(encoding: LmEncoding) -> tuple[list[str], list[str]]:
    """What each id adds to a text, where it is the first and where others stand before it.

    Specials add nothing, nor do parts of characters: they are never written where a pattern is asked for.
    """
    vocabulary, join = encoding.vocabulary, encoding.tokenizer.join
    names = vocabulary.symbols
    if encoding.tokenizer.settings.kind == "bytes":
        raise ConfigError("a pattern is made of characters, and this model writes bytes: train one on characters")
    ordinary = range(len(vocabulary.specials), len(vocabulary))
    filler = names[max(ordinary, key=lambda id: (names[id].isalnum(), vocabulary.counts[id]))] if ordinary else ""
    before = join([filler])
    first, later = [""] * len(names), [""] * len(names)
    for id in ordinary:
        both = join([filler, names[id]])
        first[id] = _readable(join([names[id]]))
        later[id] = _readable(both[len(before) :]) if both.startswith(before) else ""
    return first, later


def _readable(piece: str) -> str:
    return "" if {"\N{REPLACEMENT CHARACTER}", "\0"} & set(piece) else piece


def _phrase(text: str, encoding: LmEncoding) -> list[int]:
    ids = encoding.ids(text)
    if not ids or UNK in ids:
        unknown = [token for token, id in zip(encoding.tokenizer.tokens(text), ids, strict=True) if id == UNK]
        raise DataError(
            f"a phrase must be of known words, and {text!r} "
            + (f"has {', '.join(map(repr, unknown))}, which the model does not know" if unknown else "is empty")
        )
    return ids


def _check_same_vocabulary(model: LmPredictor, other: LmPredictor) -> None:
    a, b = model.encoding.vocabulary, other.encoding.vocabulary
    if a.symbols != b.symbols:
        raise ConfigError(
            f"two models that write together need the same vocabulary, and these have {len(a):,} and {len(b):,} "
            f"symbols, not all alike: train the second on the same text with the same tokenizer and vocabulary settings"
        )
