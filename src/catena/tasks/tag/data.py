"""Tagged sentences: reading, and the encoding of words and tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.data.detect import UNKNOWN, DetectedFormat, detect_format
from catena.data.examples import Columns, ConlluSentence, SourceLocation, Text
from catena.data.formats import FORMATS, table_of_texts
from catena.data.readers.brackets import read as read_brackets
from catena.data.readers.brackets import spoken
from catena.data.reading import ReadCounter
from catena.data.records import read_texts
from catena.data.schemes import BMES, Span, spans_to_tags
from catena.data.tables import TABLE_FORMATS
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Labels
from catena.errors import DataError, FormatError
from catena.tasks.base import DataParts
from catena.tasks.sources import unseen_line
from catena.tasks.tag.config import TagConfig, TagDataConfig
from catena.tasks.tag.lemmas import LemmaLexicon
from catena.tasks.tag.tag_set import TagSet, find_tagging
from catena.tasks.word_inputs.sentences import Sentence, column_values, to_sentence

if TYPE_CHECKING:
    from catena.tasks.word_inputs.encoding import EncodedSentences, WordEncoding

COLUMN_FORMATS = ("columns", "conllu")
"""Formats with one word per line."""
_NAMED = (".conll", ".iob", ".bio", ".iob2")
"""File name endings of formats with one word per line, for files whose content does not show it."""


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """A sentence and its tags as in a file; ``example`` is the original, for writing it back."""

    sentence: Sentence
    tags: tuple[str, ...]
    location: SourceLocation
    example: Columns | ConlluSentence | Text | None = None


# --- reading ----------------------------------------------------------------------------------------------------------


def detect_tag_format(path: str | Path, encoding: str | None) -> DetectedFormat:
    """The detected format of a file, by its name if a few lines do not show it."""
    found = detect_format(path, encoding)
    if found.format not in COLUMN_FORMATS and Path(path).name.removesuffix(".gz").endswith(_NAMED):
        return DetectedFormat("columns", "its name says so", task="tag")
    return found


def _check_order(found: DetectedFormat, data: TagDataConfig) -> DetectedFormat:
    """The format of a column file. Raise FormatError if words or tags are in other columns and no option says so."""
    is_set = data.text_column is not None or (data.tags_column is not None and "tag" in found.columns)
    if found.format == "columns" and found.task is None and not is_set and data.input_format == "auto":
        raise FormatError(found.why)
    return found


def training_format(data: TagDataConfig, path: str | Path) -> DetectedFormat:
    """The configured or detected format. Raise FormatError if it has no tagged sentences."""
    if data.input_format == "auto":
        found = detect_tag_format(path, data.encoding)
    else:
        found = DetectedFormat(data.input_format, "it was chosen")
    if data.segment and data.input_format == "auto":
        if found.format in COLUMN_FORMATS:
            raise FormatError(
                f"{path} has one word per line ({found.why}), but --segment needs text with blanks between words, one "
                f"sentence per line. Remove --segment, or use --input-format text if it is such text."
            )
        return DetectedFormat("text", "text with blanks between its words")
    if found.format in COLUMN_FORMATS or (found.format == "text" and data.segment):
        return _check_order(found, data)
    if found.format == "text":
        raise FormatError(
            f"{path} is plain text, which has no tags ({found.why}). Give a file with a word and its tag in each line, "
            f"or use --segment to learn word boundaries from text with blanks between words."
        )
    if found.format == UNKNOWN:
        raise FormatError(f"{found.why.removesuffix('.')}. Give a file in the format {' or '.join(COLUMN_FORMATS)}.")
    raise FormatError(
        f"the format of {path} must be {' or '.join(COLUMN_FORMATS)}, got {found.format!r} ({found.why}). Name the "
        f"format with --input-format if that is wrong."
    )


def read_tagged_sentences(
    config: TagConfig, path: Path, counter: ReadCounter, *, gold: bool = True
) -> Iterator[TaggedSentence]:
    """The sentences of a file with their tags; with ``gold=False`` tags are not read and may be missing."""
    data, columns = config.data, config.model.columns
    found = training_format(data, path) if gold else _input_format(data, path)
    if found.format == "brackets":
        for tree in read_brackets(path, encoding=data.encoding, counter=counter):
            yield TaggedSentence(Sentence(tuple(spoken(tree))), (), tree.location, None)
        return
    own = {"conllu": {"heads": False}, "text": {"keep_empty": not gold}}
    options = {**found.options, **own.get(found.format, {})}
    tokenizer = build_tokenizer(config.tokenizer)
    if found.format in TABLE_FORMATS:
        examples: Iterator[Any] = read_texts(path, encoding=data.encoding, counter=counter, keep_empty=True)
    else:
        examples = FORMATS[found.format].read(path, encoding=data.encoding, counter=counter, **options)
    for example in examples:
        if not isinstance(example, Text):
            yield from_rows(data, columns, example, gold)
        elif data.segment:
            yield _from_text(data, example, gold)
        else:
            yield TaggedSentence(Sentence(tuple(tokenizer.tokens(example.text))), (), example.location, example)


def _input_format(data: TagDataConfig, path: Path) -> DetectedFormat:
    """The format of a file to predict: one word per line, trees, a table of texts, or else lines of text."""
    if data.input_format != "auto":
        if data.input_format not in (*COLUMN_FORMATS, "brackets", "text"):
            raise FormatError(
                f"--input-format must be text, columns, conllu or brackets, got {data.input_format!r}. Use one of them."
            )
        return DetectedFormat(data.input_format, "it was chosen")
    found = detect_tag_format(path, data.encoding)
    if found.format in (*COLUMN_FORMATS, "brackets"):
        return found if "tag" in found.columns else _check_order(found, data)
    return DetectedFormat(table_of_texts(path, data.encoding) or "text", "texts")


def from_rows(
    data: TagDataConfig, columns: Sequence[str], example: Columns | ConlluSentence, tagged: bool
) -> TaggedSentence:
    """A sentence in rows, with its tags if ``tagged``."""
    words = "form" if isinstance(example, ConlluSentence) else data.text_column or str(example.word)
    sentence = to_sentence(example, columns, words)
    if not tagged:
        return TaggedSentence(sentence, (), example.location, example)
    if isinstance(example, Columns) and len(example.rows[0]) < 2 and data.tags_column is None:
        raise DataError(f"{example.location} must have a word and its tag, got one column. Add a column with the tags.")
    name = data.tags_column or ("upos" if isinstance(example, ConlluSentence) else "-1")
    tags = column_values(example, name)
    if tags == sentence.words and _is_same_column(example, name, words):
        raise DataError(
            f"{example.location} must have a word and its tag, got the column of the words as tags. Add a column with "
            f"the tags, or name their columns with --text-column and --tags-column."
        )
    _refuse_answers(example, name, columns)
    return TaggedSentence(sentence, tags, example.location, example)


def _is_same_column(example: Columns | ConlluSentence, one: str, other: str) -> bool:
    """Whether two columns, by name or number, are the same. Words of a sentence may equal their lemmas."""
    if isinstance(example, ConlluSentence):
        return one == other
    width = len(example.rows[0])
    return int(one) % width == int(other) % width


def _refuse_answers(example: Columns | ConlluSentence, name: str, columns: Sequence[str]) -> None:
    """Raise DataError if the model reads the column of the tags it must predict."""
    width = len(example.rows[0])
    for one in columns:
        if one == name if isinstance(example, ConlluSentence) else int(one) % width == int(name) % width:
            raise DataError(
                f"{example.location}: the model reads column {one} of each word, which is also the column of the tags "
                f"to predict. Read another column, or name the column of the tags with --tags-column."
            )


def _from_text(data: TagDataConfig, example: Text, tagged: bool) -> TaggedSentence:
    """The characters of a line, tagged by where its blanks were. Blanks in a text to predict are ignored."""
    words = example.text.split()
    kinds = [""] * len(words)
    if data.tag_separator is not None and tagged:
        parts = [word.rpartition(data.tag_separator) for word in words]
        for i, (word, _, kind) in enumerate(parts):
            if not word:
                raise DataError(
                    f"{example.location}: {words[i]!r} has no {data.tag_separator!r} between a word and its tag. Add "
                    f"it, or remove data.tag_separator."
                )
            words[i], kinds[i] = word, kind
    spans, at = [], 0
    for word, kind in zip(words, kinds, strict=True):
        spans.append(Span(at, at + len(word), kind))
        at += len(word)
    return TaggedSentence(
        Sentence(tuple("".join(words))), tuple(spans_to_tags(spans, at, BMES)), example.location, example
    )


# --- encoding -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TagEncoding:
    """The tags of a model, and for neural models the vocabularies of words and characters."""

    tags: TagSet
    words: WordEncoding

    def save(self, folder: Path) -> None:
        self.tags.save(folder)
        self.words.save(folder)


@dataclass(frozen=True, eq=False)
class TagRows:
    """Encoded sentences with their tags as ids of the model, -1 if a tag is not known."""

    examples: Sequence[TaggedSentence]
    words: EncodedSentences
    tags: list[np.ndarray]

    @property
    def lengths(self) -> np.ndarray:
        return self.words.lengths

    def __len__(self) -> int:
        return len(self.examples)


def tag_ids(tags: TagSet, examples: Sequence[TaggedSentence]) -> list[np.ndarray]:
    """The model's tags of sentences as ids; -1 if a tag is not known."""
    return [tags.ids(tags.learned(one.sentence.words, one.tags, one.location)) for one in examples]


def fit_tags(config: TagConfig, train: Sequence[TaggedSentence]) -> TagSet:
    """The tag scheme, with the model's tags counted in train."""
    placed = [(one.tags, one.location) for one in train]
    found = find_tagging(config.tags, placed, lemmas=config.predicts_lemmas, segment=config.data.segment)
    if found.own is None and getattr(config.model, "structure", None) == "semimarkov":
        raise DataError(
            "model.structure = 'semimarkov' needs tags that encode spans, which the training data does not have. Use "
            "model.structure = 'crf'."
        )
    counts: Counter[str] = Counter()
    for one in train:
        counts.update(found.learned(one.sentence.words, one.tags, one.location))
    counts.pop(found.unknown or "", None)
    if len(counts) < 2:
        only = f"only the tag {next(iter(counts))!r}" if counts else "no tag that is known"
        raise DataError(f"Training data must have at least two tags, got {only}. Check --tags-column.")
    names = sorted(counts)
    lexicon = _count_lemmas(train, found.unknown) if found.lemmas else None
    return replace(found, names=Labels(names, [counts[name] for name in names]), lexicon=lexicon)


def _count_lemmas(train: Sequence[TaggedSentence], unknown: str | None) -> LemmaLexicon:
    """The lexicon of the words whose lemmas are known."""
    pairs = (pair for one in train for pair in zip(one.sentence.words, one.tags, strict=True))
    return LemmaLexicon.count((word, lemma) for word, lemma in pairs if lemma != unknown)


def limit_length(data: TagDataConfig, example: TaggedSentence) -> TaggedSentence | str:
    """A training sentence, or its first words; the reason if it is dropped because of its length."""
    sentence, limit = example.sentence, data.max_length
    if len(sentence) <= limit:
        return example
    if data.too_long == "drop":
        return f"longer than max_length={limit}"
    shorter = Sentence(sentence.words[:limit], tuple(values[:limit] for values in sentence.columns))
    return replace(example, sentence=shorter, tags=example.tags[:limit])


def describe_parts(
    tags: TagSet, parts: DataParts[TaggedSentence], unknown: Mapping[str, float] | None = None
) -> list[str]:
    """Lines about the data: sizes, the fraction of ``unknown`` words in dev and test, and the tags."""
    lines = []
    for part in ("train", "dev", "test"):
        if not (sentences := getattr(parts, part)):
            continue
        lengths = [len(one.sentence) for one in sentences]
        unit = "characters" if isinstance(sentences[0].example, Text) else "words"
        line = f"{part}: {len(sentences):,} sentences, {sum(lengths):,} {unit}, {max(lengths):,} at most"
        lines.append(line + (f", {100 * unknown[part]:.1f} % unknown" if unknown and part in unknown else ""))
    lines.append(f"{len(tags.names)} tags ({tags.describe_scheme()}): {tags.names.describe(8)}")
    return [*lines, *_describe_unseen(tags, parts)]


def _describe_unseen(tags: TagSet, parts: DataParts[TaggedSentence]) -> list[str]:
    """A line about tags of dev and test that do not occur in train, so that no model predicts them."""
    if tags.lemmas:
        return []
    known = {tag for one in parts.train for tag in one.tags} | {tags.unknown}
    counts = Counter(tag for one in (*parts.dev, *parts.test) for tag in one.tags if tag not in known)
    line = unseen_line(counts, "dev and test", "words have a tag")
    return [line] if line else []
