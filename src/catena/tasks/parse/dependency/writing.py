"""Parses as CoNLL-U and JSON: HEAD and DEPREL are predicted, other columns are copied from the input."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from catena.data.examples import ConlluRow, ConlluSentence, SourceLocation
from catena.data.readers.conllu import to_text
from catena.tasks.parse.dependency.decode import Parse


@dataclass(frozen=True)
class DependencyPrediction:
    """The parses of a sentence, best first, or samples. ``heads`` and ``relations`` belong to the first."""

    sentence: ConlluSentence
    parses: tuple[Parse, ...]
    drawn: bool = False
    scored: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word.form for word in self.sentence.words)

    @property
    def best(self) -> Parse:
        """The first parse; empty for a sentence without words."""
        return self.parses[0] if self.parses else Parse((), ())

    @property
    def heads(self) -> tuple[int, ...]:
        """For each word, the number of its head, counted from 1; 0 for the root."""
        return self.best.heads

    @property
    def relations(self) -> tuple[str, ...]:
        """For each word, its relation to its head."""
        return self.best.relations

    @property
    def probability(self) -> float | None:
        """The probability of the first parse, if scores are set."""
        return None if self.best.log_prob is None else math.exp(self.best.log_prob)


def sentence_of_words(words: Sequence[str], text: str | None) -> ConlluSentence:
    """A CoNLL-U sentence with only its words and, if given, its text."""
    rows = tuple(ConlluRow(str(i), word, *"________") for i, word in enumerate(words, start=1))
    comments = () if text is None else (f"# text = {' '.join(text.split())}",)
    return ConlluSentence(rows, comments, SourceLocation("text", 1))


def to_conllu(prediction: DependencyPrediction) -> str:
    """A CoNLL-U block for each parse, separated by blank lines; "" for a sentence without words.

    If they are set, the probability is in a comment, and the confidence in each word is in MISC.
    """
    if not prediction.words:
        return ""
    return "".join(to_text(sentence) for sentence in _sentences(prediction))[:-1]


def _sentences(prediction: DependencyPrediction) -> Iterator[ConlluSentence]:
    several = len(prediction.parses) > 1 or prediction.drawn
    for number, parse in enumerate(prediction.parses, start=1):
        comments = list(prediction.sentence.comments)
        if several:
            comments.append(f"# {'sample' if prediction.drawn else 'parse'} = {number}")
        if parse.log_prob is not None:
            comments.append(f"# probability = {math.exp(parse.log_prob):.6g}")
            comments.append(f"# log_probability = {parse.log_prob:.6f}")
        yield replace(prediction.sentence, rows=tuple(_rows(prediction.sentence, parse)), comments=tuple(comments))


def _rows(sentence: ConlluSentence, parse: Parse) -> Iterator[ConlluRow]:
    word = 0
    for row in sentence.rows:
        if not row.id.isdecimal():
            yield row
            continue
        misc = row.misc
        if parse.confidence is not None:
            kept = [] if misc == "_" else [part for part in misc.split("|") if not part.startswith("Confidence=")]
            misc = "|".join([*kept, f"Confidence={parse.confidence[word]:.4f}"])
        yield row._replace(head=str(parse.heads[word]), deprel=parse.relations[word], misc=misc)
        word += 1


def to_json(prediction: DependencyPrediction) -> str:
    """One line of JSON: the words, and heads and relations of the parses.

    A sentence without words has one empty parse, with probability null if scores are set.
    """
    parses = [_as_dict(parse, prediction.scored) for parse in prediction.parses or (prediction.best,)]
    row: dict[str, object] = {"words": list(prediction.words)}
    if len(parses) == 1 and not prediction.drawn:
        row.update(parses[0])
    else:
        row["samples" if prediction.drawn else "parses"] = parses
    return json.dumps(row, ensure_ascii=False)


def _as_dict(parse: Parse, scored: bool) -> dict[str, object]:
    found: dict[str, object] = {"heads": list(parse.heads), "relations": list(parse.relations)}
    if parse.log_prob is not None:
        found["probability"] = math.exp(parse.log_prob)
        found["log_probability"] = parse.log_prob
    elif scored:
        found["probability"] = found["log_probability"] = None
    if parse.confidence is not None:
        found["confidence"] = [round(p, 6) for p in parse.confidence]
    return found
