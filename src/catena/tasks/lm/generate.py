"""Generate text with a language model: continue prompts by any search, under constraints."""

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
    """Constraints that every generated text satisfies; the prompt is not part of the text.

    Args:
        words: phrases that must occur.
        without: phrases that must not occur.
        pattern: a regular expression that must match the whole text.
        form: a verse form that the text must fill.
    """

    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    pattern: str | None = None
    form: VerseForm | None = None

    def __bool__(self) -> bool:
        return bool(self.words or self.without or self.pattern is not None or self.form is not None)


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

    model: LmPredictor
    weight: float


class TextGenerator:
    """Generates continuations of prompts with a language model and one search.

    Args:
        model: the language model.
        settings: the search, such as beam search or sampling.
        constraints: constraints on the generated texts.
        fused: a second model over the same vocabulary.
        unknown: allow ``<unk>`` in the output.
    """

    def __init__(
        self,
        model: LmPredictor,
        settings: BaseSearchConfig,
        constraints: TextConstraints | None = None,
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
        self._acceptor = build_acceptor(constraints, model.encoding) if constraints else None

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
        tokens = tuple(self.model.encoding.vocabulary.tokens(one.ids))
        return Continuation(prompt, self._continuation(prompt, one.ids), tokens, one)

    def _continuation(self, prompt: str, ids: Sequence[int]) -> str:
        """The text that ids add to a prompt, with the space before a word."""
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


def build_acceptor(constraints: TextConstraints, encoding: LmEncoding) -> Acceptor:
    """The acceptor of the sequences that satisfy the constraints."""
    _check_together(constraints)
    cut_in_words = encoding.tokenizer.settings.kind in ("words", "whitespace")
    parts = _phrases_of_words(constraints, encoding) if cut_in_words else _phrases_of_pieces(constraints, encoding)
    if constraints.pattern is not None:
        from catena.structure.automaton.regex import from_regex  # takes seconds to import, and is rarely needed

        first, later = token_strings(encoding)
        alphabet = sorted(set().union(*first, *later))
        parts.append(PieceAcceptor(from_regex(constraints.pattern, alphabet), later, first))
    if constraints.form is not None:
        parts.append(verse_acceptor(constraints.form, encoding))
    return parts[0] if len(parts) == 1 else Intersection(parts)


def _phrases_of_words(constraints: TextConstraints, encoding: LmEncoding) -> list[Acceptor]:
    v = len(encoding.vocabulary)
    parts: list[Acceptor] = []
    if constraints.words:
        wanted = [AutomatonAcceptor(with_phrase(_phrase(text, encoding), v), v) for text in constraints.words]
        parts.append(Intersection(wanted, in_turn=True))
    if constraints.without:
        unwanted = [_phrase(text, encoding) for text in constraints.without]
        parts.append(AutomatonAcceptor(without_phrases(unwanted, v), v))
    return parts


def _phrases_of_pieces(constraints: TextConstraints, encoding: LmEncoding) -> list[Acceptor]:
    """Acceptors of phrases over subwords or characters; phrases match at word boundaries in any segmentation."""
    if not all(encoding.tokenizer.tokens(text) for text in (*constraints.words, *constraints.without)):
        raise DataError("A phrase must have at least one word, got ''. Remove the empty phrase.")
    return build_phrase_acceptors(constraints.words, constraints.without, "", encoding.tokenizer, encoding.vocabulary)


def _check_together(constraints: TextConstraints) -> None:
    """Raise DataError if a forbidden phrase occurs in a required one."""
    for bad in constraints.without:
        for good in constraints.words:
            if bad.strip() and f" {' '.join(bad.split())} " in f" {' '.join(good.split())} ":
                raise DataError(
                    f"--without must not occur in --word, got {bad!r} and {good!r}. Remove one of the two phrases."
                )


def token_strings(encoding: LmEncoding) -> tuple[list[str], list[str]]:
    """The string that each id adds to a text, as the first token and after other tokens.

    The string is empty for special tokens and incomplete characters, which are never generated under a pattern.
    """
    vocabulary, join = encoding.vocabulary, encoding.tokenizer.join
    names = vocabulary.symbols
    if encoding.tokenizer.settings.kind == "bytes":
        raise ConfigError(
            "A pattern needs characters, and this model generates bytes. Train a model with --tokenizer characters."
        )
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
            (
                f"The phrase {text!r} has words outside the vocabulary: {', '.join(map(repr, unknown))}. "
                if unknown
                else f"A phrase must have at least one word, got {text!r}. "
            )
            + "Remove or rephrase it."
        )
    return ids


def _check_same_vocabulary(model: LmPredictor, other: LmPredictor) -> None:
    a, b = model.encoding.vocabulary, other.encoding.vocabulary
    if a.symbols != b.symbols:
        raise ConfigError(
            f"Fused models need the same vocabulary; theirs have {len(a):,} and {len(b):,} symbols and differ. Train "
            f"the second model on the same text with the same tokenizer and vocabulary options."
        )
