"""From data files to tagged sentences: read, drop and count, split, detect the tag scheme, encode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from catena.data.detect import UNKNOWN, DetectedFormat, detect_format
from catena.data.examples import Columns, ConlluRow, ConlluSentence, SourceLocation, Text
from catena.data.readers.table import FORMATS
from catena.data.reading import ReadCounter
from catena.data.schemes import BMES, Span, spans_to_tags
from catena.data.vocabulary import Labels, Vocabulary
from catena.errors import DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.tag.config import NeuralTaggerConfig, TagConfig, TagDataConfig
from catena.tasks.tag.tagging import TagSet, find_tagging
from catena.tasks.unseen import unseen_line
from catena.tasks.words.encoding import EncodedSentences, WordEncoding
from catena.tasks.words.sentences import Sentence, column_values, to_sentence

SENTENCES = ("columns", "conllu")
"""Formats with one word per line."""
_NAMED = (".conll", ".iob", ".bio", ".iob2")
"""File name endings of formats with one word per line, for files whose content does not show it."""


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """A sentence and its tags as in a file; ``example`` is the original, for writing it back."""

    sentence: Sentence
    tags: tuple[str, ...]
    place: SourceLocation
    example: Columns | ConlluSentence | Text


@dataclass(frozen=True, eq=False)
class TagDataset:
    """Everything that training needs.

    Only neural models use ``encoding`` and ``encoded`` (train, dev and test, concatenated).
    """

    tagging: TagSet
    train: list[TaggedSentence]
    dev: list[TaggedSentence]
    test: list[TaggedSentence]
    lines: list[str] = field(default_factory=list)
    tally: ReadCounter = field(default_factory=ReadCounter)
    encoding: WordEncoding | None = None
    encoded: EncodedSentences | None = None

    def learned_ids(self, sentences: Sequence[TaggedSentence]) -> list[np.ndarray]:
        """The model's tags of training sentences as ids; -1 if a tag is not known."""
        tagging = self.tagging
        return [tagging.ids(tagging.learned(s.sentence.words, s.tags, s.place)) for s in sentences]


# --- reading ----------------------------------------------------------------------------------------------------------


def seen_format(path: str | Path, encoding: str | None) -> DetectedFormat:
    """The detected format of a file, by its name if a few lines do not show it."""
    found = detect_format(path, encoding)
    if found.format not in SENTENCES and Path(path).name.removesuffix(".gz").endswith(_NAMED):
        return DetectedFormat("columns", "its name says so")
    return found


def tagging_format(data: TagDataConfig, path: str | Path) -> DetectedFormat:
    """The configured or detected format. Raise FormatError if it has no tagged sentences."""
    found = seen_format(path, data.encoding) if data.format == "auto" else DetectedFormat(data.format, "it was chosen")
    if data.segment and data.format == "auto":
        if found.format in SENTENCES:
            raise FormatError(
                f"{path} has one word per line ({found.why}), but --segment needs text with blanks between words, one "
                f"sentence per line. Remove --segment, or use --format text if it is such text."
            )
        return DetectedFormat("text", "text with blanks between its words")
    if found.format in SENTENCES or (found.format == "text" and data.segment):
        return found
    if found.format == "text":
        raise FormatError(
            f"{path} is plain text, which has no tags ({found.why}). Give a file with a word and its tag in each line, "
            f"or use --segment to learn word boundaries from text with blanks between words."
        )
    if found.format == UNKNOWN:
        raise FormatError(f"{found.why.removesuffix('.')}. Give a file in the format {' or '.join(SENTENCES)}.")
    raise FormatError(
        f"the format of {path} must be {' or '.join(SENTENCES)}, got {found.format!r} ({found.why}). Name the format "
        f"with --format (in train) or --input-format (in other commands) if that is wrong."
    )


def read_examples(data: TagDataConfig, path: str | Path) -> Iterator[Columns | ConlluSentence | Text]:
    """The unchanged sentences of a file."""
    found = tagging_format(data, path)
    options = dict(found.options)
    if data.encoding is not None:
        options["encoding"] = data.encoding
    yield from FORMATS[found.format].read(Path(path), **options)


def read_tagged_sentences(
    data: TagDataConfig,
    columns: Sequence[str],
    path: str | Path,
    tally: ReadCounter | None = None,
    *,
    tagged: bool = True,
) -> Iterator[TaggedSentence]:
    """The sentences of a file with their tags; with ``tagged=False`` tags are not read and may be missing."""
    for example in read_examples(data, path):
        if tally is not None:
            tally.saw()
        one = (
            _from_text(data, example, tagged)
            if isinstance(example, Text)
            else from_rows(data, columns, example, tagged)
        )
        if len(one.sentence):
            yield one
        elif tally is not None:
            tally.drop("empty", example.place, "")
        elif not tagged:
            yield one


_WORD_HEADS = frozenset(("word", "words", "token", "tokens", "form"))
_TAG_HEADS = frozenset(("tag", "tags", "label", "labels", "pos", "ner"))
"""Names of the first and the last column in a header line."""


def _refuse_header(example: Columns) -> None:
    """Raise DataError if the first line is a header, which would be read as a word and its tag."""
    first, last = example.rows[0][0].lower(), example.rows[0][-1].lower()
    if example.place.line == 1 and first in _WORD_HEADS and last in _TAG_HEADS:
        raise DataError(f"{example.place} is a header, which would be read as a word. Delete this line.")


def from_rows(
    data: TagDataConfig, columns: Sequence[str], example: Columns | ConlluSentence, tagged: bool
) -> TaggedSentence:
    """A sentence in rows, with its tags if ``tagged``."""
    sentence = to_sentence(example, columns, None if isinstance(example, ConlluSentence) else data.text_column)
    if not tagged:
        return TaggedSentence(sentence, (), example.place, example)
    if isinstance(example, Columns) and len(example.rows[0]) < 2 and data.label_column is None:
        raise DataError(f"{example.place} must have a word and its tag, got one column. Add a column with the tags.")
    if isinstance(example, Columns):
        _refuse_header(example)
    name = data.label_column or ("upos" if isinstance(example, ConlluSentence) else "-1")
    tags = column_values(example, name)
    _refuse_answers(example, name, columns)
    return TaggedSentence(sentence, tags, example.place, example)


def _refuse_answers(example: Columns | ConlluSentence, name: str, columns: Sequence[str]) -> None:
    """Raise DataError if the model reads the column of the tags it must predict."""
    width = len(example.rows[0])
    for one in columns:
        if one == name if isinstance(example, ConlluSentence) else int(one) % width == int(name) % width:
            raise DataError(
                f"{example.place}: the model reads column {one} of each word, which is also the column of the tags to "
                f"predict. Read another column, or name the column of the tags with --label-column."
            )


def blocks_of_lines(lines: Iterable[str]) -> Iterator[Columns | ConlluSentence]:
    """The sentences of tab-separated lines, separated by blank lines; ten fields mean CoNLL-U."""
    rows: list[tuple[str, ...]] = []
    comments: list[str] = []
    number = 0
    for number, line in enumerate(chain(lines, [""]), start=1):
        if line.startswith("#") and not rows and "\t" not in line:
            comments.append(line)
        elif line.strip():
            rows.append(tuple(line.split("\t")))
            if len(rows[-1]) != len(rows[0]):
                raise FormatError(
                    f"line {number} of standard input must have {len(rows[0])} fields as the lines before it, got "
                    f"{len(rows[-1])}. Add or remove fields."
                )
        elif rows:
            place = SourceLocation("standard input", number - len(rows))
            if len(rows[0]) == len(ConlluRow._fields):
                yield ConlluSentence(tuple(ConlluRow(*row) for row in rows), tuple(comments), place)
            else:
                yield Columns(tuple(rows), place, tuple(comments))
            rows, comments = [], []


def _from_text(data: TagDataConfig, example: Text, tagged: bool) -> TaggedSentence:
    """The characters of a line of words; the blanks are the gold labels, and prediction removes them."""
    words = example.text.split()
    kinds = [""] * len(words)
    if data.tag_separator is not None and tagged:
        parts = [word.rpartition(data.tag_separator) for word in words]
        for i, (word, _, kind) in enumerate(parts):
            if not word:
                raise DataError(
                    f"{example.place}: {words[i]!r} has no {data.tag_separator!r} between a word and its tag. Add it, "
                    f"or remove data.tag_separator."
                )
            words[i], kinds[i] = word, kind
    spans, at = [], 0
    for word, kind in zip(words, kinds, strict=True):
        spans.append(Span(at, at + len(word), kind))
        at += len(word)
    return TaggedSentence(
        Sentence(tuple("".join(words))), tuple(spans_to_tags(spans, at, BMES)), example.place, example
    )


# --- the whole --------------------------------------------------------------------------------------------------------


def prepare(
    config: TagConfig,
    randomness: Randomness,
    *,
    sources: Mapping[str, Iterable[TaggedSentence]] | None = None,
    tagging: TagSet | None = None,
    encoding: WordEncoding | None = None,
    words: Vocabulary | None = None,
) -> TagDataset:
    """Read the files of a config, or the given sentences, into a dataset.

    ``tagging`` and ``encoding`` come from a trained model if training starts from it; ``words`` is the vocabulary of a
    pretrained language model.
    """
    tally = ReadCounter()
    lines = [] if sources is not None else _describe_files(config.data)
    parts = _gathered(config, tally, sources)
    train, dev, test = _split(config, parts, randomness)
    if tagging is None:
        tagging = _tagging(config, train)
    train = _usable(config, tagging, train, tally)
    used = len(train) + len(dev) + len(test)
    lines.append(tally.counts(used).sentence())
    data = TagDataset(tagging, train, dev, test, lines, tally)
    if isinstance(config.model, NeuralTaggerConfig):
        if encoding is None:
            encoding = WordEncoding.count(config.model.words, (one.sentence for one in train), words)
        encoded = encoding.encode(one.sentence for one in (*train, *dev, *test))
        data = replace(data, encoding=encoding, encoded=encoded)
    lines += _describe(data)
    return data


def has_lemmas(config: TagConfig) -> bool:
    """Whether the tags of the files are lemmas."""
    named = config.data.label_column == "lemma" and not config.data.segment
    return config.tags.lemmas or named


def _describe_files(data: TagDataConfig) -> list[str]:
    lines = []
    for part, path in data.files().items():
        found = tagging_format(data, path)
        lines.append(f"{part}: {path.name} is {found.format}: {found.why}")
    return lines


def _gathered(
    config: TagConfig, tally: ReadCounter, sources: Mapping[str, Iterable[TaggedSentence]] | None
) -> dict[str, list[TaggedSentence]]:
    if sources is not None:
        parts = {}
        for part, examples in sources.items():
            parts[part] = list(examples)
            tally.saw(len(parts[part]))
        return parts
    if not config.data.train:
        raise DataError("there is nothing to train on: name a file, as in 'catena train tag FILE'")
    parts = {"train": []}
    for part, path in config.data.files().items():
        name = "train" if part.startswith("train") else part
        parts.setdefault(name, []).extend(read_tagged_sentences(config.data, config.model.columns, path, tally))
    return parts


def _split(
    config: TagConfig, parts: Mapping[str, list[TaggedSentence]], randomness: Randomness
) -> tuple[list[TaggedSentence], list[TaggedSentence], list[TaggedSentence]]:
    """Sentences of train, dev and test; missing sets are split from train with the seed."""
    data, train = config.data, parts["train"]
    test = parts.get("test", [])
    if data.folds is not None:
        if len(train) < data.folds:
            raise DataError(
                f"data.folds must be at most the number of sentences, {len(train)}, got {data.folds}. Lower data.folds."
            )
        order = randomness.numpy("folds").permutation(len(train))
        inside = set(np.array_split(order, data.folds)[data.fold or 0].tolist())
        test = [one for i, one in enumerate(train) if i in inside]
        train = [one for i, one in enumerate(train) if i not in inside]
    if "dev" in parts:
        return _not_empty(train, "train"), _not_empty(parts["dev"], "dev"), test
    if len(train) < 2:
        one = (
            f"one sentence, of {len(train[0].sentence):,} words,"
            if train
            else f"{', '.join(data.train)}, without a sentence,"
        )
        mark = "each sentence has a line of its own" if data.segment else "a blank line follows each sentence"
        raise DataError(f"{one} cannot be split into train and dev. Check that {mark}, or give a dev file with --dev.")
    count = min(max(1, round(data.dev_fraction * len(train))), len(train) - 1)
    held = set(randomness.numpy("dev", data.fold or 0).permutation(len(train))[:count].tolist())
    dev = [one for i, one in enumerate(train) if i in held]
    return [one for i, one in enumerate(train) if i not in held], dev, test


def _not_empty(sentences: list[TaggedSentence], part: str) -> list[TaggedSentence]:
    if not sentences:
        raise DataError(f"No sentence of {part} is left. See dropped.tsv for the dropped ones and the reasons.")
    return sentences


def _tagging(config: TagConfig, train: Sequence[TaggedSentence]) -> TagSet:
    """The tag scheme, with the model's tags counted in train."""
    placed = [(one.tags, one.place) for one in train]
    found = find_tagging(config.tags, placed, lemmas=has_lemmas(config), segment=config.data.segment)
    if found.own is None and isinstance(config.model, NeuralTaggerConfig) and config.model.structure == "semimarkov":
        raise DataError(
            "model.structure = 'semimarkov' needs tags that encode spans, which the training data does not have. Use "
            "model.structure = 'crf'."
        )
    counts: Counter[str] = Counter()
    for one in train:
        counts.update(found.learned(one.sentence.words, one.tags, one.place))
    counts.pop(found.unknown or "", None)
    if len(counts) < 2:
        only = f"only the tag {next(iter(counts))!r}" if counts else "no tag that is known"
        raise DataError(f"Training data must have at least two tags, got {only}. Check --label-column.")
    names = sorted(counts)
    return replace(found, names=Labels(names, [counts[name] for name in names]))


def _usable(
    config: TagConfig, tagging: TagSet, train: list[TaggedSentence], tally: ReadCounter
) -> list[TaggedSentence]:
    """The training sentences that the model can learn from; the others are counted as dropped."""
    limit, kept = config.data.max_length, []
    longest = None
    if isinstance(config.model, NeuralTaggerConfig) and config.model.structure == "semimarkov":
        longest = config.model.max_segment
    for one in train:
        if len(one.sentence) > limit:
            if config.data.too_long == "drop":
                tally.drop(f"longer than max_length={limit}", one.place, " ".join(one.sentence.words))
                continue
            one = _cut(one, limit)
        spans = tagging.spans(one.tags) if longest is not None else ()
        if longest is not None and any(end - begin > longest for begin, end, _ in spans):
            tally.drop(f"with a span longer than max_segment={longest}", one.place, " ".join(one.sentence.words))
            continue
        kept.append(one)
    return _not_empty(kept, "train")


def _cut(one: TaggedSentence, limit: int) -> TaggedSentence:
    sentence = one.sentence
    shorter = Sentence(sentence.words[:limit], tuple(values[:limit] for values in sentence.columns))
    return replace(one, sentence=shorter, tags=one.tags[:limit])


def _describe(data: TagDataset) -> list[str]:
    lines, at = [], 0
    for part, sentences in (("train", data.train), ("dev", data.dev), ("test", data.test)):
        if sentences:
            lengths = [len(one.sentence) for one in sentences]
            unit = "characters" if isinstance(sentences[0].example, Text) else "words"
            words = f"{part}: {len(sentences):,} sentences, {sum(lengths):,} {unit}, {max(lengths):,} at most"
            if data.encoding is not None and data.encoded is not None and part != "train":
                share = data.encoding.unknown_fraction(data.encoded, range(at, at + len(sentences)))
                words += f", {100 * share:.1f} % unknown"
            lines.append(words)
        at += len(sentences)
    names, tagging = data.tagging.names, data.tagging
    most = sorted(zip(names.counts, names.names, strict=True), reverse=True)
    shown = ", ".join(f"{name} {count:,}" for count, name in most[:8]) + (", …" if len(most) > 8 else "")
    how: str = "plain" if tagging.files is None or tagging.own is None else tagging.files.scheme
    if tagging.files is not None and tagging.own is not None and tagging.own.scheme != tagging.files.scheme:
        how += f", learned as {tagging.own.scheme}"
    lines.append(f"{len(names)} tags ({'edits of lemmas' if tagging.lemmas else how}): {shown}")
    new = unseen(data)
    return [*lines, new] if new else lines


def unseen(data: TagDataset) -> str | None:
    """A line about tags of dev and test that do not occur in train, so that no model predicts them."""
    tagging = data.tagging
    if tagging.lemmas:
        return None
    known = {tag for one in data.train for tag in one.tags} | {tagging.unknown}
    counts = Counter(tag for one in (*data.dev, *data.test) for tag in one.tags if tag not in known)
    return unseen_line(counts, "dev and test", "words have a tag")
