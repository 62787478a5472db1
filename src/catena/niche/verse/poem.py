"""Verse on a topic: sonnets and other forms, after Hafez (Ghazvininejad et al. 2016).

Word vectors give rhyme words near the topic, and a pronouncing dictionary gives stress and rhyme. A form sets the
number of lines, their meter and their rhymes. A language model over words fills each line by a beam search constrained
to the form. It reads the previous lines if it was trained on consecutive lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from catena.data.special_tokens import END_SYMBOL
from catena.data.tokenize import Tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import ConfigError, DataError, ImpossibleError
from catena.lm.base import AutoregressiveLM
from catena.niche.verse.acceptor import ANY, Line, Verse
from catena.niche.verse.form import PART
from catena.niche.verse.prosody import Dictionary
from catena.registry import did_you_mean
from catena.search.beam_search import beam
from catena.search.constrained import Constrained
from catena.search.forbid_ids import ForbidIds
from catena.search.hypothesis import Hypothesis
from catena.search.repeats import NgramHistory, NoRepeatNgram
from catena.search.stepper import Stepper
from catena.vectors.table import VectorTable

_IAMBS = "0101010101"


def _iambic(rhymes: str, together: int = 4) -> str:
    """Lines of iambic pentameter, with a blank line after every ``together`` lines."""
    lines = [_IAMBS + letter for letter in rhymes]
    return "//".join("/".join(lines[low : low + together]) for low in range(0, len(lines), together))


FORMS = {
    "sonnet": _iambic("ababcdcdefefgg"),
    "quatrain-abab": _iambic("abab"),
    "quatrain-aaba": _iambic("aaba").replace("b", ""),
    "couplet": _iambic("aa"),
}
"""Named forms, all in iambic pentameter. 0 is a weak syllable, 1 a strong one."""

_Rhyme = tuple[str, ...]
"""The phonemes of a rhyme."""

_COMMON = 50
"""Number of the most frequent words, at most a tenth of all, that may occur in a poem more than once."""
_SPARE = 2
"""Number of words of a rhyme, in addition to the needed ones, that the model chooses from."""
_CHOICE = 3
"""Rhymes are sampled from the ones nearest to the topic, this factor times the number that a form needs."""


@dataclass(frozen=True)
class Poem:
    """Lines of verse in stanzas. ``str()`` adds punctuation at the ends of lines.

    Args:
        stanzas: the lines of each stanza.
        topic: the topic, or None.
        rhymes: the rhyme letter of each line.
        log_prob: its log-probability under the language model.
    """

    stanzas: tuple[tuple[str, ...], ...]
    topic: str | None
    rhymes: tuple[str, ...]
    """The rhyme letter of each line."""
    log_prob: float

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for stanza in self.stanzas for line in stanza)

    def __str__(self) -> str:
        shown = [
            "\n".join(_shown(line, "." if i == len(stanza) - 1 else ",") for i, line in enumerate(stanza))
            for stanza in self.stanzas
        ]
        return "\n\n".join(shown)


def _shown(line: str, mark: str) -> str:
    words = ["I" if word == "i" else word for word in line.split(" ")]
    return " ".join(words)[:1].upper() + " ".join(words)[1:] + mark


def parse_form(written: str) -> list[list[Line]]:
    """The lines of each stanza of a form.

    A form is a name in :data:`FORMS`, or lines of syllable signs, each with a letter if it rhymes, separated by ``/``;
    ``//`` separates stanzas.
    """
    form = FORMS.get(written, written)
    stanzas = []
    for stanza in form.split("//"):
        parts = PART.findall(stanza)
        again = "".join(signs + letter + marks for signs, letter, marks in parts)
        if not parts or again != stanza or any(marks != "/" for _, _, marks in parts[:-1]) or parts[-1][2]:
            raise ConfigError(
                f"Unknown verse form {written!r}: {did_you_mean(written, FORMS)}. Or write lines of syllable signs (0 "
                f"weak, 1 strong, ? any), each with a letter where it rhymes, separated by /, such as "
                f"{FORMS['couplet']!r}."
            )
        stanzas.append([Line(signs, letter) for signs, letter, _ in parts])
    return stanzas


@dataclass(frozen=True, eq=False)
class PartialPoem:
    """An unfinished poem: the model state at the start of a line, the text so far, and its rare words."""

    state: Any
    ids: tuple[int, ...] = ()
    used: frozenset[int] = frozenset()


class PoemGenerator:
    """Generates verse with a language model.

    Args:
        stepper: a language model over words, such as ``task.stepper`` of a run. Its texts are lines.
        tokenizer: how the model splits texts into words.
        vocabulary: the words of the model's ids.
        dictionary: stress and rhyme of words.
        vectors: word vectors, for words near the topic.
        width: beam size.
        no_repeat: avoid repeating n-grams of this length in a poem; 0 allows repetition. Rare words are also used only
            once if possible.
        reads_previous_lines: whether the model was trained on consecutive lines, so that each line continues the
            poem; otherwise it starts each line from its initial state.
    """

    def __init__(
        self,
        stepper: AutoregressiveLM[Any],
        tokenizer: Tokenizer,
        vocabulary: Vocabulary,
        dictionary: Dictionary,
        vectors: VectorTable | None = None,
        *,
        width: int = 40,
        no_repeat: int = 2,
        reads_previous_lines: bool = False,
    ) -> None:
        self.stepper, self.tokenizer, self.vocabulary = stepper, tokenizer, vocabulary
        self.dictionary, self.vectors = dictionary, vectors
        self.width, self.no_repeat, self.reads_previous_lines = width, no_repeat, reads_previous_lines
        self._device = getattr(stepper, "device", None) or torch.device("cpu")
        if tokenizer.settings.kind not in ("words", "whitespace"):
            raise ConfigError(
                f"The language model must have word tokens for verse, got tokenizer {tokenizer.settings.kind!r}. Train "
                f"one with --tokenizer words."
            )
        names, first = vocabulary.symbols, len(vocabulary.specials)
        self._meters = {
            id: dictionary.meters(names[id])
            for id in range(first, len(names))
            if _is_word(names[id]) and names[id] in dictionary
        }
        if not self._meters:
            raise DataError("The dictionary has no words of the model. Pass a dictionary of its language.")
        order = sorted(self._meters, key=lambda id: -vocabulary.counts[id])
        self._common = frozenset(order[: min(_COMMON, len(order) // 10)])

    @cached_property
    def _ids(self) -> dict[str, list[int]]:
        """The ids of each lowercase word."""
        names, found = self.vocabulary.symbols, dict[str, list[int]]()
        for id in self._meters:
            found.setdefault(names[id].lower(), []).append(id)
        return found

    # --- rhymes -------------------------------------------------------------------------------------------------------

    def nearness(self, topic: str | None) -> dict[str, float]:
        """The similarity to the topic of each word that may end a line; equal for all without a topic."""
        if topic is None:
            return {word: 0.0 for word, ids in self._ids.items() if not self._common.intersection(ids)}
        if self.vectors is None:
            raise ConfigError(f"The topic {topic!r} needs word vectors to find rhyme words. Pass --vectors.")
        near = self.vectors.most_similar(self._named(topic), k=len(self.vectors))
        found: dict[str, float] = {topic.lower(): 1.0} if topic.lower() in self._ids else {}
        for word, cosine in near:
            if word.lower() in self._ids:
                found.setdefault(word.lower(), float(cosine))
        return found

    def _named(self, topic: str) -> str:
        """The topic as a word of the vectors, in its own case or another."""
        assert self.vectors is not None
        ways = (topic, topic.lower(), topic.capitalize(), topic.title(), topic.upper())
        return next((name for name in ways if name in self.vectors), topic)

    def rhymes(self, stanzas: Sequence[Sequence[Line]], topic: str | None, seed: int) -> dict[str, list[str]]:
        """Rhyme words for each letter of a form, nearest to the topic first; each letter has a different rhyme."""
        letters: dict[str, list[str]] = {}
        for line in (line for stanza in stanzas for line in stanza if line.rhyme):
            letters.setdefault(line.rhyme, []).append(line.meter)
        free, chosen = self._classes(self.nearness(topic)), dict[str, list[str]]()
        rng = np.random.default_rng(seed)
        for letter, meters in sorted(letters.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            n, usable = len(meters), dict[_Rhyme, list[tuple[str, float]]]()
            for rhyme, words in free.items():
                ends = [pair for pair in words if all(self._ends(pair[0], meter) for meter in set(meters))]
                fitting = self._distinct(ends)
                if len(fitting) >= n:
                    usable[rhyme] = fitting
            if not usable:
                raise ImpossibleError(
                    f"No rhyme with {n} words is left for the lines {letter!r}. Use a model or vectors with more "
                    f"words, or a form with fewer rhymes."
                )
            rhyme = _drawn(usable, n, _CHOICE * len(letters), rng)
            del free[rhyme]
            chosen[letter] = [word for word, _ in usable[rhyme][: n + _SPARE]]
        return chosen

    def _ends(self, word: str, meter: str) -> bool:
        """Whether a word may end a line."""
        return any(
            len(signs) <= len(meter)
            and all(a == b or ANY in (a, b) for a, b in zip(reversed(signs), reversed(meter), strict=False))
            for signs in self.dictionary.meters(word)
        )

    def _classes(self, nearness: Mapping[str, float]) -> dict[_Rhyme, list[tuple[str, float]]]:
        """Words by rhyme, nearest first."""
        found: dict[_Rhyme, list[tuple[str, float]]] = {}
        for word, near in sorted(nearness.items(), key=lambda pair: (-pair[1], pair[0])):
            rhyme = self.dictionary.rhyme(word)
            if rhyme is not None:
                found.setdefault(rhyme, []).append((word, near))
        return found

    def _distinct(self, words: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """Words whose consonants before the rhyme differ from those of every nearer word, so that each two rhyme."""
        kept, onsets = [], set[tuple[str, ...]]()
        for word, near in words:
            before = {known.onset for known in self.dictionary[word]}
            if not before & onsets:
                onsets |= before
                kept.append((word, near))
        return kept

    # --- lines --------------------------------------------------------------------------------------------------------

    def write(self, form: str = "sonnet", topic: str | None = None, seed: int = 0) -> Poem:
        """A poem with sampled rhymes and beam-searched lines.

        Args:
            form: a name in :data:`FORMS`, or a form as in :func:`parse_form`.
            topic: a word that the rhyme words are near to; None for any rhymes.
            seed: seed of the choice of rhymes.
        """
        stanzas = parse_form(form)
        left = self.rhymes(stanzas, topic, seed)
        begun, lines = PartialPoem(self.stepper.start(1)), list[Hypothesis]()
        for line in (line for stanza in stanzas for line in stanza):
            ends = [id for word in left.get(line.rhyme, ()) for id in self._ids[word]]
            best = self._line(line, begun, ends)
            lines.append(best)
            if line.rhyme:
                left[line.rhyme].remove(self._words(best)[-1].lower())
            begun = self._after(begun, best)
        texts = iter(self.tokenizer.join(self._words(line)) for line in lines)
        letters = tuple(line.rhyme for stanza in stanzas for line in stanza)
        written = tuple(tuple(next(texts) for _ in stanza) for stanza in stanzas)
        return Poem(written, topic, letters, sum(line.log_prob for line in lines))

    def _words(self, line: Hypothesis) -> list[str]:
        return self.vocabulary.tokens(line.ids)

    def _line(self, line: Line, begun: PartialPoem, ends: Sequence[int]) -> Hypothesis:
        """The best next line of a poem, with as little repetition as possible."""
        for repeat, used in ((self.no_repeat, begun.used), (self.no_repeat, frozenset()), (0, frozenset())):
            found = self._found(line, begun, ends, used, repeat)
            if found is not None:
                return found
        raise ImpossibleError(
            f"No words of the model fill a line of the meter {line.meter}"
            + (f" that ends with one of {', '.join(self.vocabulary.tokens(ends))}" if ends else "")
            + ". Use another form, or a model with more words."
        )

    @torch.no_grad()
    def _found(
        self, line: Line, begun: PartialPoem, ends: Sequence[int], used: frozenset[int], repeat: int
    ) -> Hypothesis | None:
        meters = {id: signs for id, signs in self._meters.items() if id not in used}
        meters |= {id: self._meters[id] for id in ends}
        stepper: Stepper[Any] = ForbidIds(self.stepper, [UNK])
        state = begun.state
        if repeat:
            stepper = NoRepeatNgram(stepper, repeat)
            state = NgramHistory(state, torch.tensor([begun.ids], dtype=torch.int64, device=self._device))
        try:
            verse = Verse([line], meters, stepper.v, dict.fromkeys(ends, line.rhyme) if line.rhyme else {})
            constrained = Constrained(stepper, verse, len(line.meter) + 1)
        except ImpossibleError:
            return None
        found = beam(constrained, constrained.after(state, 1), self.width, len(line.meter) + 1)[0]
        return found[0] if found and found[0].finished else None

    @torch.no_grad()
    def _after(self, begun: PartialPoem, line: Hypothesis) -> PartialPoem:
        """The poem after a line. A model trained on single lines restarts from its initial state."""
        stepper, end = self.stepper, self.vocabulary.special(END_SYMBOL)
        state = stepper.start(1)
        if self.reads_previous_lines:
            ids = torch.tensor([[*line.ids, end]], device=self._device)
            state = stepper.extend(begun.state, ids, torch.tensor([ids.shape[1]], device=self._device))
        rare = {id for word in self._words(line) for id in self._ids[word.lower()]} - self._common
        return PartialPoem(state, (*begun.ids, *line.ids, end), begun.used | rare)


def _is_word(symbol: str) -> bool:
    """Whether a symbol is a whole word, not a clitic or a single letter."""
    return symbol.replace("-", "").isalpha() and (len(symbol) > 1 or symbol.lower() in ("a", "i", "o"))


def _drawn(
    usable: Mapping[_Rhyme, Sequence[tuple[str, float]]], n: int, choice: int, rng: np.random.Generator
) -> _Rhyme:
    """A sampled rhyme among those whose ``n`` nearest words are nearest on average; nearer ones are more probable."""
    near = {rhyme: float(np.mean([score for _, score in words[:n]])) for rhyme, words in usable.items()}
    best = sorted(near, key=lambda rhyme: (-near[rhyme], rhyme))[:choice]
    weights = np.exp(10.0 * np.array([near[rhyme] for rhyme in best]))
    return best[int(rng.choice(len(best), p=weights / weights.sum()))]
