"""Verse on a topic: sonnets and other forms, as Hafez writes them (Ghazvininejad et al. 2016).

A topic gives rhyme words through word vectors; a pronouncing dictionary gives stress and rhyme; a form says how many
lines there are, their meter and which of them rhyme; and a language model fills each line in by a beam search that
cannot leave the form. The model is one of words whose texts are lines. It reads the lines before, if it was trained to
read on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from catena.data.vocabulary import UNK
from catena.errors import ConfigError, DataError, ImpossibleError
from catena.registry import did_you_mean
from catena.search.beam_search import beam
from catena.search.constrained import Constrained
from catena.search.hypothesis import Hypothesis
from catena.search.repeats import NgramHistory, NoRepeatNgram
from catena.search.stepper import Stepper
from catena.search.verse import ANY, Line, Verse
from catena.search.without import ForbidIds
from catena.tasks.compose.prosody import Dictionary
from catena.tasks.lm.predictor import LmPredictor
from catena.tasks.lm.verse import PART
from catena.vectors.table import WordVectors

_IAMBS = "0101010101"


def _iambic(rhymes: str, together: int = 4) -> str:
    """Lines of iambic pentameter; a blank line after so many."""
    lines = [_IAMBS + letter for letter in rhymes]
    return "//".join("/".join(lines[low : low + together]) for low in range(0, len(lines), together))


FORMS = {
    "sonnet": _iambic("ababcdcdefefgg"),
    "quatrain-abab": _iambic("abab"),
    "quatrain-aaba": _iambic("aaba").replace("b", ""),
    "couplet": _iambic("aa"),
}
"""Names for common forms, all in iambic pentameter: 0 is a weak syllable, 1 a strong one."""

_Rhyme = tuple[str, ...]
"""The sounds that a rhyme has in common."""

_COMMON = 50
"""So many of the most frequent words, at most a tenth of all, may stand in a poem more than once."""
_SPARE = 2
"""So many more words of a rhyme than lines need are left for the model to choose from."""
_CHOICE = 3
"""Rhymes are drawn from so many times as many as a form needs, the nearest to the topic."""


@dataclass(frozen=True)
class Poem:
    """Lines of verse, in stanzas. Prints with marks at the ends of lines."""

    stanzas: tuple[tuple[str, ...], ...]
    topic: str | None
    rhymes: tuple[str, ...]
    """The letter of each line."""
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
    """The lines of each stanza of a form: a name, or signs, a letter where a line rhymes, / and // between lines and
    stanzas."""
    form = FORMS.get(written, written)
    stanzas = []
    for stanza in form.split("//"):
        parts = PART.findall(stanza)
        again = "".join(signs + letter + marks for signs, letter, marks in parts)
        if not parts or again != stanza or any(marks != "/" for _, _, marks in parts[:-1]) or parts[-1][2]:
            raise ConfigError(
                f"a form is lines of signs (0 weak, 1 strong, ? any), each with a letter where it rhymes and / between "
                f"them, such as {FORMS['couplet']!r}, or a name, and {written!r} is neither: "
                f"{did_you_mean(written, FORMS)}"
            )
        stanzas.append([Line(signs, letter) for signs, letter, _ in parts])
    return stanzas


@dataclass(frozen=True, eq=False)
class PartialPoem:
    """A poem on its way: the state of the model at the beginning of a line, what is written, and the rare words of
    it."""

    state: Any
    ids: tuple[int, ...] = ()
    used: frozenset[int] = frozenset()


class PoemGenerator:
    """A language model that writes verse.

    Args:
        dictionary: stress and rhyme of words.
        vectors: what is near to a topic.
        width: of the beam.
        no_repeat: no so many words in a row stand in a poem twice, where that can be; 0 allows it. Words that are not
            common are written once, where that can be.
    """

    def __init__(
        self,
        model: LmPredictor,
        dictionary: Dictionary,
        vectors: WordVectors | None = None,
        width: int = 40,
        no_repeat: int = 2,
    ) -> None:
        self.model, self.dictionary, self.vectors = model, dictionary, vectors
        self.width, self.no_repeat = width, no_repeat
        encoding = model.encoding
        if encoding.unit != "line" or encoding.tokenizer.settings.kind not in ("words", "whitespace"):
            raise ConfigError(
                f"verse is written by a language model of words whose texts are lines, and this one is of "
                f"{encoding.tokenizer.settings.kind} with data.unit = {encoding.unit!r}: train one with --tokenizer "
                f"words"
            )
        names, first = encoding.vocabulary.symbols, len(encoding.vocabulary.specials)
        self._meters = {
            id: dictionary.meters(names[id])
            for id in range(first, len(names))
            if _is_word(names[id]) and names[id] in dictionary
        }
        if not self._meters:
            raise DataError("the dictionary has none of the words that the model knows: give one of its language")
        order = sorted(self._meters, key=lambda id: -encoding.vocabulary.counts[id])
        self._common = frozenset(order[: min(_COMMON, len(order) // 10)])

    @cached_property
    def _ids(self) -> dict[str, list[int]]:
        """The ids of each word in lower case."""
        names, found = self.model.encoding.vocabulary.symbols, dict[str, list[int]]()
        for id in self._meters:
            found.setdefault(names[id].lower(), []).append(id)
        return found

    # --- rhymes -------------------------------------------------------------------------------------------------------

    def nearness(self, topic: str | None) -> dict[str, float]:
        """The words that may end a line, and how near to a topic they are; without one, all are alike."""
        if topic is None:
            return {word: 0.0 for word, ids in self._ids.items() if not self._common.intersection(ids)}
        if self.vectors is None:
            raise ConfigError(f"the topic {topic!r} finds its rhyme words by word vectors: give --vectors")
        near = self.vectors.most_similar(self._named(topic), k=len(self.vectors))
        found: dict[str, float] = {topic.lower(): 1.0} if topic.lower() in self._ids else {}
        for word, cosine in near:
            if word.lower() in self._ids:
                found.setdefault(word.lower(), float(cosine))
        return found

    def _named(self, topic: str) -> str:
        """The topic as the vectors write it: in its own case, or else in another that they have."""
        assert self.vectors is not None
        ways = (topic, topic.lower(), topic.capitalize(), topic.title(), topic.upper())
        return next((name for name in ways if name in self.vectors), topic)

    def rhymes(self, stanzas: Sequence[Sequence[Line]], topic: str | None, seed: int) -> dict[str, list[str]]:
        """Words for each letter of a form, of a rhyme of its own, the nearest to the topic first."""
        letters: dict[str, list[str]] = {}
        for line in (line for stanza in stanzas for line in stanza if line.rhyme):
            letters.setdefault(line.rhyme, []).append(line.meter)
        free, chosen = self._classes(self.nearness(topic)), dict[str, list[str]]()
        rng = np.random.default_rng(seed)
        for letter, meters in sorted(letters.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            n, usable = len(meters), dict[_Rhyme, list[tuple[str, float]]]()
            for rhyme, words in free.items():
                fitting = [pair for pair in words if all(self._ends(pair[0], meter) for meter in set(meters))]
                if len(fitting) >= n:
                    usable[rhyme] = fitting
            if not usable:
                raise ImpossibleError(
                    f"no rhyme is left that has {n} words for the lines {letter!r}: take a model or vectors with more "
                    f"words, or a form with fewer rhymes"
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
        """Words by rhyme, the nearest first; of words that sound alike, the nearest alone."""
        found: dict[_Rhyme, list[tuple[str, float]]] = {}
        sounds: set[tuple[str, ...]] = set()
        for word, near in sorted(nearness.items(), key=lambda pair: (-pair[1], pair[0])):
            rhyme = self.dictionary.rhyme(word)
            same = {known.sounds for known in self.dictionary[word]}
            if rhyme is not None and not same & sounds:
                sounds |= same
                found.setdefault(rhyme, []).append((word, near))
        return found

    # --- lines --------------------------------------------------------------------------------------------------------

    def write(self, form: str = "sonnet", topic: str | None = None, seed: int = 0) -> Poem:
        """A poem: its rhymes are drawn by the seed, its lines are the best that a beam finds."""
        stanzas = parse_form(form)
        left = self.rhymes(stanzas, topic, seed)
        begun, lines = PartialPoem(self.model.stepper.start(1)), list[Hypothesis]()
        for line in (line for stanza in stanzas for line in stanza):
            ends = [id for word in left.get(line.rhyme, ()) for id in self._ids[word]]
            best = self._line(line, begun, ends)
            lines.append(best)
            if line.rhyme:
                left[line.rhyme].remove(self._words(best)[-1].lower())
            begun = self._after(begun, best)
        texts = iter(self.model.encoding.tokenizer.join(self._words(line)) for line in lines)
        letters = tuple(line.rhyme for stanza in stanzas for line in stanza)
        written = tuple(tuple(next(texts) for _ in stanza) for stanza in stanzas)
        return Poem(written, topic, letters, sum(line.log_prob for line in lines))

    def _words(self, line: Hypothesis) -> list[str]:
        return self.model.encoding.vocabulary.tokens(line.ids)

    def _line(self, line: Line, begun: PartialPoem, ends: Sequence[int]) -> Hypothesis:
        """The best line that goes on with a poem, and repeats as little of it as can be."""
        for repeat, used in ((self.no_repeat, begun.used), (self.no_repeat, frozenset()), (0, frozenset())):
            found = self._found(line, begun, ends, used, repeat)
            if found is not None:
                return found
        raise ImpossibleError(
            f"no words of the model fill a line of the meter {line.meter}"
            + (f" that ends in one of {', '.join(self.model.encoding.vocabulary.tokens(ends))}" if ends else "")
        )

    @torch.no_grad()
    def _found(
        self, line: Line, begun: PartialPoem, ends: Sequence[int], used: frozenset[int], repeat: int
    ) -> Hypothesis | None:
        meters = {id: signs for id, signs in self._meters.items() if id not in used}
        meters |= {id: self._meters[id] for id in ends}
        stepper: Stepper[Any] = ForbidIds(self.model.stepper, [UNK])
        state = begun.state
        if repeat:
            stepper = NoRepeatNgram(stepper, repeat)
            state = NgramHistory(state, torch.tensor([begun.ids], dtype=torch.int64, device=self.model.device))
        try:
            verse = Verse([line], meters, stepper.v, dict.fromkeys(ends, line.rhyme) if line.rhyme else {})
            constrained = Constrained(stepper, verse, len(line.meter) + 1)
        except ImpossibleError:
            return None
        found = beam(constrained, constrained.after(state, 1), self.width, len(line.meter) + 1)[0]
        return found[0] if found and found[0].finished else None

    @torch.no_grad()
    def _after(self, begun: PartialPoem, line: Hypothesis) -> PartialPoem:
        """What the next line goes on from. A model that was trained on lines by themselves begins anew."""
        stepper, end = self.model.stepper, self.model.encoding.end
        state = stepper.start(1)
        if self._reads_on:
            ids = torch.tensor([[*line.ids, end]], device=self.model.device)
            state = stepper.extend(begun.state, ids, torch.tensor([ids.shape[1]], device=self.model.device))
        rare = {id for word in self._words(line) for id in self._ids[word.lower()]} - self._common
        return PartialPoem(state, (*begun.ids, *line.ids, end), begun.used | rare)

    @cached_property
    def _reads_on(self) -> bool:
        """Whether the model has learned what comes after a line's end."""
        return self.model.config.is_neural and self.model.config.order != "sentences"


def _is_word(symbol: str) -> bool:
    """Whether a symbol is a whole word, not a clitic or a letter by itself."""
    return symbol.replace("-", "").isalpha() and (len(symbol) > 1 or symbol.lower() in ("a", "i", "o"))


def _drawn(
    usable: Mapping[_Rhyme, Sequence[tuple[str, float]]], n: int, choice: int, rng: np.random.Generator
) -> _Rhyme:
    """One of the rhymes whose ``n`` nearest words are nearest in the mean; nearer ones are likelier."""
    near = {rhyme: float(np.mean([score for _, score in words[:n]])) for rhyme, words in usable.items()}
    best = sorted(near, key=lambda rhyme: (-near[rhyme], rhyme))[:choice]
    weights = np.exp(10.0 * np.array([near[rhyme] for rhyme in best]))
    return best[int(rng.choice(len(best), p=weights / weights.sum()))]
