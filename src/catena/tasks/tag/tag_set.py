"""The tags of a model: their scheme, detected from the training data, and their conversion from and to those of files.

Files have span schemes, lemmas, for which models have edit scripts, and unknown tags.

The model has its own tags (``names``). :meth:`TagSet.learned` converts the tags of a file and raises an error with file
and line if it cannot; :meth:`TagSet.shown` converts them back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from catena.data.examples import SourceLocation
from catena.data.schemes import (
    BMES,
    Dialect,
    SchemeError,
    Span,
    convert_tags,
    detect_dialect,
    follows,
    marks_spans,
    spans_to_tags,
    split_tag,
    tags_to_spans,
)
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError, DataError
from catena.metrics.spans import conll_spans
from catena.registry import did_you_mean
from catena.tasks.tag.config import TagSchemeConfig
from catena.tasks.tag.lemmas import LemmaLexicon, apply_script, edit_script

LABELS, _TAGGING = "labels.json", "tagging.json"
_UNKNOWN_ID = -1
_MISSING_TAG_MARKS = frozenset(("?", "_", "-", "*"))
"""Common placeholders for unknown tags."""


@dataclass(frozen=True)
class TagSet:
    """The tag set of a model and its relation to the tags of files.

    Args:
        names: the tags of the model.
        files: the span scheme of the files; None if tags do not encode spans.
        own: the span scheme of the model.
        lemmas: whether tags of files are lemmas and those of the model edit scripts.
        unknown: the placeholder for unknown tags in files.
        repair: whether invalid spans are read as conlleval reads them.
        constrain: whether only sequences that the scheme allows are predicted.
        lemma_bonus: added to the scores of scripts that turn a word that is not in train into a lemma of train.
        lexicon: the words and lemmas of train, if tags of files are lemmas.
    """

    names: Labels
    files: Dialect | None
    own: Dialect | None
    lemmas: bool = False
    unknown: str | None = None
    repair: bool = False
    constrain: bool = True
    lemma_bonus: float = 0.0
    lexicon: LemmaLexicon | None = None

    # --- conversion ---------------------------------------------------------------------------------------------------

    def learned(self, words: Sequence[str], tags: Sequence[str], location: SourceLocation | None = None) -> list[str]:
        """The tags of a file as tags of the model; unknown ones stay unchanged."""
        if self.lemmas:
            pairs = zip(words, tags, strict=True)
            return [tag if tag == self.unknown else edit_script(word, tag) for word, tag in pairs]
        if self.files is None or self.own is None:
            return list(tags)
        if self.unknown is not None and self.unknown in tags:
            self._check_known(tags, location)
            return list(tags)
        try:
            return convert_tags(tags, self.files.scheme, self.own)
        except SchemeError as error:
            if self.repair:
                return spans_to_tags(_lenient(tags), len(tags), self.own)
            raise _placed(error, location, self.files.scheme) from None

    def _check_known(self, tags: Sequence[str], location: SourceLocation | None) -> None:
        """Raise DataError for adjacent known tags that the scheme does not allow."""
        assert self.files is not None
        for i, (a, b) in enumerate(pairwise([None, *tags, None])):
            if self.unknown not in (a, b) and not follows(a, b, self.files.scheme):
                word = min(i, len(tags) - 1)
                error = SchemeError(word, f"{tags[word]!r} is not allowed there ({self.files.scheme})")
                raise _placed(error, location, self.files.scheme)

    def shown(self, words: Sequence[str], tags: Sequence[str]) -> list[str]:
        """Tags of the model as those of the files."""
        if self.lemmas:
            return [apply_script(tag, word) for word, tag in zip(words, tags, strict=True)]
        if self.files is None or self.own is None or self.files == self.own:
            return list(tags)
        try:
            return convert_tags(tags, self.own.scheme, self.files)
        except SchemeError:  # an unconstrained model may predict invalid sequences
            return spans_to_tags(_lenient(tags), len(tags), self.files)

    def mended(self, tags: Sequence[str]) -> list[str]:
        """Tags of a file as they are read, with invalid spans rewritten if ``repair`` is set."""
        if not self.repair or self.files is None:
            return list(tags)
        return self.shown(tags, self.learned(tags, tags))

    def ids(self, tags: Sequence[str]) -> np.ndarray:
        """The ids of the model's tags; -1 if a tag is not known."""
        return np.array([_UNKNOWN_ID if tag == self.unknown else self.names.id(tag) for tag in tags], np.int64)

    def spans(self, tags: Sequence[str]) -> frozenset[tuple[int, int, str]]:
        """The spans of tags of a file; empty if tags do not encode spans."""
        return conll_spans(tags) if self.files is not None else frozenset()

    # --- scores and allowed tags ----------------------------------------------------------------------------------

    def bonus(self, sentences: Sequence[Sequence[str]]) -> np.ndarray | None:
        """What is added to the score of each tag at each word, 0 after the ends of sentences; None for nothing."""
        if self.lexicon is None or not self.lemma_bonus:
            return None
        found = np.zeros((len(sentences), max([1, *map(len, sentences)]), len(self.names)))
        for row, words in zip(found, sentences, strict=True):
            row[: len(words)] = self.lemma_bonus * self.lexicon.confirmed(words, self.names.names)
        return found

    def rules(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Masks of the tags that may follow each tag, begin and end a sentence; None if all may."""
        if self.own is None or not self.constrain:
            return None
        scheme, names = self.own.scheme, self.names.names
        after = np.array([[follows(a, b, scheme) for b in names] for a in names], bool)
        begin = np.array([follows(None, tag, scheme) for tag in names], bool)
        return after, begin, np.array([follows(tag, None, scheme) for tag in names], bool)

    def allowed(self, words: Sequence[str], tags: Sequence[str | None]) -> np.ndarray:
        """``[i, q]`` is True if word ``i`` may have the model's tag ``q``, given tags of files; None allows all."""
        mask = np.ones((len(words), len(self.names)), bool)
        for i, (word, tag) in enumerate(zip(words, tags, strict=True)):
            if tag is None or tag == self.unknown:
                continue
            mask[i] = [self._agrees(word, tag, name) for name in self.names.names]
            if not mask[i].any():
                raise DataError(
                    f"the tag {tag!r} of word {i + 1}, {word!r}, is not a tag of this model: "
                    f"{did_you_mean(tag, self.names.names)}"
                )
        return mask

    def _agrees(self, word: str, tag: str, name: str) -> bool:
        """Whether the model's tag can be converted to this tag of a file."""
        if self.lemmas:
            return apply_script(name, word) == tag
        if self.files is None or self.own is None or self.files == self.own:
            return tag == name
        (letter, kind), (own_letter, own_kind) = split_tag(tag), split_tag(name)
        reduced = {"B": "B", "U": "B", "S": "B", "I": "I", "M": "I", "L": "I", "E": "I", "O": "O"}
        ours, theirs = reduced.get(own_letter), reduced.get(letter)
        may_begin = self.files.scheme == "iob1" and theirs == "I" and ours == "B"
        return kind == own_kind and (ours == theirs or may_begin)

    def describe_scheme(self) -> str:
        """How the tags encode spans or lemmas, in words."""
        if self.lemmas:
            return "edits of lemmas"
        if self.files is None or self.own is None:
            return "plain"
        learned = f", learned as {self.own.name}" if self.own.scheme != self.files.scheme else ""
        repaired = ", with invalid spans read as conlleval reads them" if self.repair else ""
        return f"{self.files.name}{learned}{repaired}"

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        self.names.save(folder / LABELS)
        if self.lexicon is not None:
            self.lexicon.save(folder)
        plain = asdict(replace(self, names=Labels(()), lexicon=None))
        kept = {key: value for key, value in plain.items() if key not in ("names", "lexicon")}
        (folder / _TAGGING).write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> TagSet:
        path = folder / _TAGGING
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            files, own = (None if kept[key] is None else Dialect(**kept[key]) for key in ("files", "own"))
            lexicon = LemmaLexicon.load(folder) if kept["lemmas"] else None
            return cls(Labels.load(folder / LABELS), **{**kept, "files": files, "own": own}, lexicon=lexicon)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{path} cannot be read ({error}). Copy the model again.") from None


def _lenient(tags: Sequence[str]) -> list[Span]:
    return sorted(Span(*span) for span in conll_spans(tags))


def _placed(error: SchemeError, location: SourceLocation | None, scheme: str) -> DataError:
    """The error with the file and line of its word."""
    where = f"{SourceLocation(location.file, location.line + error.word)}: " if location is not None else ""
    return DataError(
        f"{where}{error}. Correct it there, use --tags.scheme if the files are not {scheme}, or use --repair to read "
        f"it as conlleval does."
    )


# --- detection from the training data ---------------------------------------------------------------------------------


def detect_scheme(
    sentences: Sequence[tuple[Sequence[str], SourceLocation]], tags: set[str], unknown: str | None
) -> str:
    """The scheme of tagged sentences: the first one that allows all of them; plain if tags do not encode spans.

    It is "mixed" if they have the tags of iob2 and no scheme allows them. With unknown tags, which cannot be repaired,
    the error of both schemes is raised instead, with file and line.
    """
    known = tags - {unknown}
    if not marks_spans(known):
        _refuse_holes(sentences, known)
        return "plain"
    letters = {tag.partition("-")[0] for tag in known}
    if letters & set("LEUSM"):
        return "bilou"
    broken: dict[str, tuple[SchemeError, SourceLocation]] = {}
    for scheme in ("iob2", "iob1"):
        for sentence, location in sentences:
            if unknown is not None and unknown in sentence:
                continue
            try:
                tags_to_spans(sentence, scheme)
            except SchemeError as error:
                broken[scheme] = (error, location)
                break
        else:
            return scheme
    if unknown is None:
        return "mixed"
    (first, at), (second, there) = broken["iob2"], broken["iob1"]
    raise DataError(
        f"{SourceLocation(at.file, at.line + first.word)}: {first}; it is not iob1 either, since at "
        f"{SourceLocation(there.file, there.line + second.word)} {second}. Correct the file."
    )


def _refuse_holes(sentences: Sequence[tuple[Sequence[str], SourceLocation]], tags: set[str]) -> None:
    """Raise DataError if all tags except a placeholder encode spans, since plain tags would lose the spans."""
    holes = tags & _MISSING_TAG_MARKS
    if not holes or not marks_spans(tags - holes):
        return
    for sentence, location in sentences:
        for i, tag in enumerate(sentence):
            if tag in holes:
                raise DataError(
                    f"{SourceLocation(location.file, location.line + i)}: {tag!r} does not encode a span as the other "
                    f"tags do. Use --unknown {tag!r} if it means that the tag is not known, or --scheme plain if it is "
                    f"a normal tag."
                )


def find_tagging(
    settings: TagSchemeConfig, sentences: Sequence[tuple[Sequence[str], SourceLocation]], *, lemmas: bool, segment: bool
) -> TagSet:
    """The tag set of training sentences, with its names still to be counted."""
    plain = TagSet(
        Labels(()), None, None, unknown=settings.unknown, repair=settings.repair, constrain=settings.constrain
    )
    if segment:
        return replace(plain, files=BMES, own=BMES)
    if lemmas:
        return replace(plain, lemmas=True, lemma_bonus=settings.lemma_bonus)
    seen = {tag for tags, _ in sentences for tag in tags}
    scheme: str = settings.scheme
    if scheme == "auto":
        scheme = "iob2" if settings.repair and marks_spans(seen) else detect_scheme(sentences, seen, settings.unknown)
    if scheme == "plain":
        return plain
    if scheme == "mixed":
        scheme, plain = "iob2", replace(plain, repair=True)
    files = detect_dialect(seen, scheme)  # type: ignore[arg-type]
    wanted = settings.training_scheme if settings.training_scheme != "auto" else {"iob1": "iob2"}.get(scheme, scheme)
    own = files if wanted == scheme else Dialect(wanted)  # type: ignore[arg-type]
    if settings.unknown is not None and own != files:
        raise DataError(
            f"tags.unknown = {settings.unknown!r} leaves gaps in sentences, so their tags cannot be converted from "
            f"{scheme} to {own.scheme}. Remove training_scheme, or write the files in iob2."
        )
    return replace(plain, files=files, own=own)
