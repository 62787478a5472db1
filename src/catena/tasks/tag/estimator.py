"""The tagger as an estimator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.data.examples import SourceLocation
from catena.errors import DataError
from catena.tasks.estimator import Estimator
from catena.tasks.tag.data import TaggedSentence
from catena.tasks.targets import Classes, Targets, check_same_length, is_missing
from catena.tasks.word_inputs.sentences import Sentence

if TYPE_CHECKING:
    pass


class Tagger(Estimator, task="tag"):
    """Tagger: sentences as lists of words or texts in, tags out.

    tagger = Tagger(structure="crf").fit([["Anna", "sleeps"]] * 20, [["B-PER", "O"]] * 20)
    [p.tags for p in tagger.predict(["Bob sleeps"])]

    Tags are strings or integers; ``classes_`` has them in the type that was given.
    """

    def _examples(self, x: Iterable[Iterable[str]], y: Iterable[Iterable[Any]]) -> list[TaggedSentence]:
        sentences, targets = _paired(x, y)
        if not hasattr(self, "_classes"):
            self._classes = Classes.of(targets)
        return [
            TaggedSentence(Sentence(tuple(words)), tuple(tags), SourceLocation("fit", i))
            for i, (words, tags) in enumerate(zip(sentences, self._classes.named(targets), strict=True), start=1)
        ]

    def _state(self) -> Mapping[str, Any]:
        return {"classes": self._classes.to_json()}

    def _set_state(self, state: Mapping[str, Any] | None) -> None:
        if state is not None:
            self._classes = Classes.from_json(state["classes"])
        elif not hasattr(self, "_classes"):
            self._classes = Classes.of_names(self.task_.tags.names.names, several=False)  # type: ignore[attr-defined]
        self.classes_ = self._classes.array()


def _paired(x: Iterable[Iterable[str]], y: Iterable[Iterable[Any]]) -> tuple[list[list[str]], Targets]:
    """Sentences and the tags of their words. Raise DataError if the numbers differ."""
    given, rows = list(x), [list(tags) for tags in y]
    for i, words in enumerate(given):
        if isinstance(words, str):
            raise DataError(f"sentence {i} must be a list of words, got {words!r:.60}. Split it into words.")
    sentences = [list(words) for words in given]
    check_same_length(sentences, rows, "sentence", "list of tags")
    for i, (words, tags) in enumerate(zip(sentences, rows, strict=True)):
        if not words:
            raise DataError(f"sentence {i} must have at least one word, got none. Leave it out.")
        if len(words) != len(tags):
            raise DataError(
                f"sentence {i} must have one tag per word ({len(words)}), got {len(tags)}. Pass as many tags as words."
            )
        _check_values(i, words, tags)
    return sentences, Targets(rows, "sets")


def _check_values(i: int, words: Sequence[Any], tags: Sequence[Any]) -> None:
    for value in (*words, *(str(tag) if _is_integer(tag) else tag for tag in tags)):
        if is_missing(value) or not isinstance(value, str) or any(sign in value for sign in "\t\n\r"):
            raise DataError(
                f"words and tags of sentence {i} must be strings without tabs and line ends (tags may be integers), "
                f"got {value!r}. Replace it."
            )


def _is_integer(tag: object) -> bool:
    return isinstance(tag, int | np.integer) and not isinstance(tag, bool)
