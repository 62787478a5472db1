"""The inspection of one file: one pass over its lines, and one over the examples that a task reads from it.

Tested in tests/data/test_inspection.py.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from catena.data.config import WordTokenizerConfig
from catena.data.conversations import read_exchanges
from catena.data.detect import DetectedFormat, detect_format
from catena.data.encodings import encoding_advice
from catena.data.examples import SourceLocation
from catena.data.files import open_bytes, open_damaged_text
from catena.data.findings import (
    CharacterTroubles,
    Finding,
    LengthSummary,
    Level,
    Lines,
    Repeats,
    TagTroubles,
    TextTroubles,
)
from catena.data.formats import text_format
from catena.data.label_findings import LabelTroubles
from catena.data.media import decode_images, decode_sounds, list_files, list_labeled_files
from catena.data.media_config import ImageConfig
from catena.data.media_files import common_kind
from catena.data.quantities import find_style, parse_number
from catena.data.readers import brackets, conllu
from catena.data.readers.format_rules import slash_rule
from catena.data.readers.questions import QuestionCounter, read_questions
from catena.data.readers.sample import UNKNOWN, take_sample
from catena.data.readers.vectors import read_vectors
from catena.data.reading import LONGEST_DOCUMENT, NOT_DECODED, ReadCounter
from catena.data.records import RecordFile, no_value, open_records, read_pairs, read_texts
from catena.data.roles import COMPOSED, ITEMS, LABEL, MISSING, TEXT, TITLE, ColumnChoice, Role
from catena.data.splits import find_split_column
from catena.data.tables import RECORD_FORMATS, TABLE_FORMATS, open_table
from catena.data.token_tables import read_columns
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.data.values import lookup, strip_label
from catena.errors import CatenaError, FormatError

_MAX_LENGTH = {"classify": LONGEST_DOCUMENT, "tag": 1000, "parse": 200}
"""The maximum number of tokens of a training text, by task."""
_MAX_NETWORK_LENGTH = 1000
"""The same for texts that are classified by networks."""
_ONE_SENTENCE = 100
"""Number of words of a column file above which they are probably not a single sentence."""
_MEDIA = ("pictures", "sounds")
_SOUND_RATE = 8000
"""The sampling rate in Hz at which sounds are decoded to find damaged ones."""
_NO_LINES = ("parquet", "datasets", "xlsx", "folders")
_TEXT_TASKS = ("lm", "embed")
_PAIR_TASKS = ("translate", "transduce")


@dataclass(frozen=True)
class ReadSettings:
    """How the files of an inspection are read. See :func:`catena.data.inspection.inspect`."""

    encoding: str | None = None
    task: str | None = None
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    target: Path | None = None
    multilabel: bool = False
    label_separator: str | None = None
    paragraphs: bool = False
    max_length: int | None = None
    splits: bool = True
    """Whether a dev set is split off the training file."""


class _Seen(NamedTuple):
    """One example: its line, its text, and its labels or tags."""

    line: int
    text: str
    labels: tuple[str, ...] = ()


class Examination:
    """What is found in one file."""

    def __init__(self, path: Path, settings: ReadSettings, is_train: bool = True) -> None:
        self.path, self.settings, self.is_train = path, settings, is_train
        self.encoding = settings.encoding
        self.detected = DetectedFormat(UNKNOWN, "it could not be read")
        self.task: str | None = settings.task
        self.choices: Mapping[str, ColumnChoice] = {}
        self.counter = ReadCounter()
        self.findings: list[Finding] = []
        self.n_lines: int | None = None
        self.n_examples: int | None = None
        self.n_words: int | None = None
        self.n_pairs: int | None = None
        """The number of pairs of a context and a response in dialogues, which are split into train and dev."""
        self.blank = Lines()
        self.troubles, self.texts, self.labels = CharacterTroubles(), TextTroubles(), LabelTroubles()
        self.characters, self.words = LengthSummary(), LengthSummary()
        self.label_kind = ""
        self.repeats = Repeats()
        self.tags: dict[int, TagTroubles] = {}

    def run(self) -> None:
        """Examine the file. Invalid content becomes a finding."""
        try:
            self._detect()
            self._scan_lines()
            if self.detected.format != UNKNOWN:
                self._read()
        except CatenaError as error:
            self.findings.append(Finding("format", "error", str(error)))
        self._conclude()

    def _detect(self) -> None:
        found = detect_format(self.path, self.encoding)
        if self.settings.format is not None:
            found = DetectedFormat(self.settings.format, "the format was set", {}, found.task)
        if self.settings.target is not None and self.task is None:
            found = DetectedFormat(found.format, "sources, with their targets in another file", {}, "translate")
        if self.task == "lm" and self.path.is_dir() and common_kind(list_files(self.path)) == "sound":
            found = DetectedFormat("sounds", "a folder of sounds", task="lm")
        self.detected = found
        self.task = self.task or ("classify" if "label" in self.settings.columns else found.task)
        if not found.is_known:
            raise FormatError(found.why)
        if self.task is None:
            self.findings.append(Finding("task", "error", f"no task reads this file by itself: {found.why}"))

    def _scan_lines(self) -> None:
        if self.detected.format in _NO_LINES or self.path.is_dir():
            return
        self.n_lines = 0
        with open_damaged_text(self.path, self.encoding) as lines:
            for self.n_lines, line in lines:
                if not line.strip():
                    self.blank.add(self.n_lines)
                self.troubles.add(self.n_lines, line)
                if self.detected.format == "text" and not self.settings.paragraphs:
                    self.texts.add_line(line)
        if self.troubles.undecoded.count:
            self._report_encoding()

    def _report_encoding(self) -> None:
        """Report the lines that cannot be decoded, and read the rest of the file nevertheless."""
        lines = self.troubles.undecoded
        with open_bytes(self.path) as stream:
            advice = encoding_advice(stream, self.encoding)
        many = "1 line is" if lines.count == 1 else f"{lines.count:,} lines are"
        message = f"{many} not {self.encoding or 'UTF-8'}. {advice}"
        self.findings.append(Finding("encoding", "error", message, lines.count, tuple(lines.first)))
        self.encoding = "latin-1"  # decodes anything

    # --- examples -----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        readers: dict[str, Callable[[], Iterator[_Seen]]] = {
            "classify": self._labeled_texts,
            "regress": self._values,
            "tag": self._tagged_sentences,
            "parse": self._trees,
            "converse": self._exchanges,
            "compose": self._compositions,
            "read": self._questions,
            **dict.fromkeys(_PAIR_TASKS, self._pairs),
            **dict.fromkeys(_TEXT_TASKS, self._plain_texts),
        }
        limit = self.settings.max_length or _MAX_LENGTH.get(self.task or "")
        noted = _MAX_NETWORK_LENGTH if self.task == "classify" and not self.settings.max_length else limit
        self.n_examples, long = 0, Lines()
        is_media = self.path.is_dir() and self.detected.format in _MEDIA
        for seen in self._media() if is_media else readers.get(self.task or "", self._rows)():
            if limit and noted and self.is_train and self._is_longer(seen.text, noted):
                if self._is_longer(seen.text, limit):
                    self.counter.drop(f"longer than max_length={limit}", self._place(seen.line), seen.text)
                    continue
                long.add(seen.line)
            self.n_examples += 1
            if not is_media:
                self._add(seen)
        message = f"[a text is|# texts are] longer than max_length={noted}, which networks drop or cut (--too-long)"
        self.findings += long.finding("long-text", "note", message)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return build_tokenizer(WordTokenizerConfig())

    def _is_longer(self, text: str, limit: int) -> bool:
        """Whether a text has more tokens than ``limit``. Few texts are tokenized, as a token has a character."""
        if self.task in ("tag", "parse"):  # their words are given
            return len(text) > limit and len(text.split()) > limit
        return len(text) > limit and len(self._tokenizer.tokens(text)) > limit

    def _place(self, line: int) -> SourceLocation:
        return SourceLocation(str(self.path), line)

    def _add(self, seen: _Seen) -> None:
        self.characters.add(len(seen.text))
        self.words.add(len(seen.text.split()))
        self.texts.add(seen.line, seen.text)
        self.repeats.add(seen.line, seen.text, seen.labels)
        if self.label_kind == "labels":
            is_path = "file" in self.detected.columns  # the name of a file may have its label
            self.labels.add(seen.line, "" if is_path else seen.text, seen.labels)
        else:
            for label in seen.labels:
                self.labels.counts[label] += 1
                self.labels.first_line.setdefault(label, seen.line)
        if self.detected.format in _NO_LINES:
            self.troubles.add(seen.line, seen.text)

    def _media(self) -> Iterator[_Seen]:
        """The pictures or sounds of a folder. All are decoded, because damaged ones are dropped."""
        is_labeled = self.task == "classify"
        files = list_labeled_files(self.path) if is_labeled else []
        paths = [file.path for file in files] if is_labeled else list_files(self.path)
        if self.detected.format == "pictures":
            decoded = decode_images(paths, ImageConfig(height=8, width=8), self.counter).files
        else:
            decoded = decode_sounds(paths, _SOUND_RATE, self.counter, max_seconds=None).files
        self.label_kind = "labels" if is_labeled else ""
        for i in decoded.tolist():
            if is_labeled:
                self.labels.add(i + 1, "", files[i].labels)
            yield _Seen(i + 1, "")

    def _given(self, *roles: str) -> dict[str, str]:
        """The columns of these roles that the user sets."""
        return {role: column for role, column in self.settings.columns.items() if role in roles}

    def _open(self, *roles: Role) -> RecordFile:
        """The file as records of these roles, whose columns are remembered."""
        given = self._given(*(role.name for role in roles))
        file = open_records(self.path, roles, format=self.settings.format, columns=given, encoding=self.encoding)
        self.choices = file.choices
        return file

    def _labeled_texts(self) -> Iterator[_Seen]:
        self.label_kind = "labels"
        if self.detected.format == "brackets":
            for tree in brackets.read(self.path, encoding=self.encoding, counter=self.counter):
                yield _Seen(tree.location.line, " ".join(tree.words()), (tree.label,))
            return
        separator = self.settings.label_separator
        file = self._open(TEXT, replace(LABEL, separator=separator, required=not self.settings.multilabel))
        if (label := file.choices.get(LABEL.name)) is None:
            raise FormatError(f"{self.path} has no labels: it is {file.detected.why}. Pass a file with labels.")
        if not label.one_hot and file.detected.format in TABLE_FORMATS:
            self._check_cells(file, label)
        for record in file.read(self.counter):
            yield _Seen(record.location.line, record["text"], record["label"] or ())

    def _values(self) -> Iterator[_Seen]:
        """Texts with numbers, if their columns were detected."""
        columns = self.detected.columns
        if self.settings.columns or not columns.keys() >= {"text", "value"}:
            yield from self._rows()
            return
        file = self._open()
        self.choices = columns
        roles = (replace(TEXT, required=False), Role("value", (), missing=MISSING))
        file, values = replace(file, roles=roles, choices=columns), set[str]()
        style = find_style(lookup(row, columns["value"].columns[0]) for row in file.table.sample)
        for record in file.read(self.counter):
            problem = parse_number(record["value"], style)[1]
            if problem is not None:
                self.counter.drop(f"with a value that is {problem}", record.location, record["value"])
                continue
            values.add(record["value"])
            yield _Seen(record.location.line, record["text"] or "")
        shown = columns["value"] if file.table.has_header else f"column {columns['value'].columns[0]}"
        message = f"{shown} has {len(values):,} different numbers: a quantity, not classes; 'catena train"
        self.findings.append(Finding("quantity", "note", f"{message} classify' reads them as labels"))

    def _check_cells(self, file: RecordFile, label: ColumnChoice) -> None:
        """Look for cells with lists or invisible characters."""
        cells = [cell for row in file.table.sample if isinstance(cell := lookup(row, label.columns[0]), str)]
        lists = sum(cell.strip().startswith("[") for cell in cells)
        if lists:
            message = f"the cells of {label} spell lists, which are read as several labels: {cells[0][:40]!r}"
            self.findings.append(Finding("lists-in-cells", "warning", message, lists))
        if not self.troubles.lines["invisible"].count and not any("\xa0" in cell for cell in cells):
            return
        for row in file.table.rows(None):
            cell = lookup(row.values, label.columns[0]) if row.problem is None else None
            if isinstance(cell, str):
                self.labels.add_raw(row.location.line, cell, strip_label(cell))

    def _tagged_sentences(self) -> Iterator[_Seen]:
        self.label_kind = "tags"
        encoding, n_words, spaced = self.encoding, 0, Lines()
        if self.detected.format == "conllu":
            self.label_kind = "universal tags"
            for sentence in conllu.read(self.path, encoding=encoding, counter=self.counter, heads=False):
                n_words += len(sentence.words)
                tags = tuple(word.upos for word in sentence.words)
                yield _Seen(sentence.location.line, " ".join(word.form for word in sentence.words), tags)
        elif self.detected.format == "columns":
            for rows in read_columns(self.path, encoding=encoding, counter=self.counter, **self.detected.options):
                n_words += len(rows.rows)
                self._check_tags(rows.location.line, rows.rows)
                for i, word in enumerate(rows.words):
                    if " " in word:
                        spaced.add(rows.location.line + i)
                yield _Seen(rows.location.line, " ".join(rows.words), rows.column(-1) if len(rows.rows[0]) > 1 else ())
        else:
            raise FormatError(f"{self.path} has no words with tags: it is {self.detected.why}. Pass another file.")
        self.n_words = n_words
        self.findings += spaced.finding("spaced", "note", "[a word has|# words have] a blank inside")

    def _check_tags(self, line: int, rows: tuple[tuple[str, ...], ...]) -> None:
        for j in range(1, len(rows[0])):
            troubles = self.tags.setdefault(j, TagTroubles())
            if troubles.is_bio:
                troubles.add(line, [row[j] for row in rows])

    def _trees(self) -> Iterator[_Seen]:
        encoding, self.n_words = self.encoding, 0
        if self.detected.format == "brackets":
            self.label_kind = "root labels"
            for tree in brackets.read(self.path, encoding=encoding, counter=self.counter):
                words = brackets.spoken(tree)
                self.n_words += len(words)
                if words:
                    yield _Seen(tree.location.line, " ".join(words), (tree.label,))
                else:
                    self.counter.drop("without a word", tree.location, " ".join(tree.words()))
        elif self.detected.format == "conllu":
            self.label_kind = "universal tags"
            yield from self._dependency_trees()
        else:
            raise FormatError(f"{self.path} has no trees: it is {self.detected.why}. Pass another file.")

    def _dependency_trees(self) -> Iterator[_Seen]:
        unknown, headless, n = Lines(), 0, 0
        for sentence in conllu.read(self.path, encoding=self.encoding, counter=self.counter):
            n += 1
            problem = conllu.find_head_problem(sentence)
            text = " ".join(word.form for word in sentence.words)
            headless += all(word.head == "_" for word in sentence.words)
            if problem is not None and problem[1] != conllu.NO_HEAD:
                self.counter.drop(problem[1], self._place(problem[0]), text)
                continue
            if problem is not None:
                unknown.add(problem[0])
            self.n_words = (self.n_words or 0) + len(sentence.words)
            yield _Seen(sentence.location.line, text, tuple(word.upos for word in sentence.words))
        if n and headless == n:
            message = "no word has a head, so there are no trees to learn; 'catena train tag' learns the tags"
            self.findings.append(Finding("heads", "error", message))
        else:
            message = "[a sentence has|# sentences have] a word without a head"
            self.findings += unknown.finding("heads", "warning", message)

    def _exchanges(self) -> Iterator[_Seen]:
        """One example for each dialogue, with its turns as text."""
        before = None
        self.n_pairs = 0
        found = read_exchanges(
            self.path,
            kind="dialogue" if self.detected.format == "text" else None,
            columns=self._given("context", "response"),
            encoding=self.encoding,
            counter=self.counter,
        )
        for exchange in found:
            self.n_pairs += 1
            if exchange.location == before:
                continue
            before = exchange.location
            self.counter.saw()
            yield _Seen(exchange.location.line, " / ".join((*exchange.context, *exchange.responses[:1])))

    def _questions(self) -> Iterator[_Seen]:
        """Questions on texts. Those whose answers are not in their text cannot be learned from."""
        counter = QuestionCounter(questions=self.counter)
        examples = read_questions(self.path, counter, encoding=self.encoding)
        if not any(example.answers for example in examples):
            self.findings.append(Finding("no-answers", "error", "no question has an answer; add answers"))
        for moved in counter.moved:
            self.counter.note("questions with a corrected start or id", moved.location, moved.text)
        for example in examples:
            if example.answers and all(answer.start is None for answer in example.answers):
                self.counter.drop("whose answers are not in the context", example.location, example.question)
            else:
                yield _Seen(example.location.line, example.question)

    def _compositions(self) -> Iterator[_Seen]:
        file = self._open(replace(TITLE, required=False), replace(ITEMS, required=False), COMPOSED)
        for record in file.read(self.counter):
            if record["title"] or record["items"]:
                yield _Seen(record.location.line, record["text"])
            else:
                self.counter.drop("without a title and items", record.location, record["text"])

    def _pairs(self) -> Iterator[_Seen]:
        target = self.settings.target if self.is_train else None
        joined, n = Lines(), 0
        pairs = read_pairs(
            self.path,
            target,
            format=None if target is not None else self.settings.format,
            columns=self._given("source", "target"),
            encoding=self.encoding,
            counter=self.counter,
        )
        for pair in pairs:
            n += 1
            if any(mark in pair.target for mark in (", ", "; ", " / ")):
                joined.add(pair.location.line)
            yield _Seen(pair.location.line, pair.source)
        if self.task == "transduce" and n >= 10 and joined.count > 0.5 * n:
            message = (
                "[1 target seems|# targets seem] to hold several, separated by a comma, such as two pronunciations"
            )
            self.findings += joined.finding("joined-targets", "warning", message)

    def _plain_texts(self) -> Iterator[_Seen]:
        format = self.settings.format or text_format(self.path)
        found = read_texts(
            self.path,
            format=format,
            text_column=self.settings.columns.get("text"),
            paragraphs=self.settings.paragraphs,
            encoding=self.encoding,
            counter=self.counter,
        )
        for example in found:
            yield _Seen(example.location.line, example.text)
        if format == "text" and (slashed := slash_rule(take_sample(self.path, self.encoding))) is not None:
            self.findings.append(Finding("slashed", "warning", f"the lines are {slashed.why}, not plain text"))

    def _rows(self) -> Iterator[_Seen]:
        """The records of a file that no task reads by itself, or the words of a file of vectors."""
        if self.detected.format == "vectors":
            yield from self._vectors()
        if self.detected.format not in RECORD_FORMATS:
            return
        table = open_table(self.path, self.detected.format, self.detected.options, self.encoding)
        for row in table.rows(None):
            self.counter.saw()
            if row.problem is None:
                yield _Seen(row.location.line, row.raw)
            else:
                self.counter.drop(row.problem, row.location, row.raw)

    def _vectors(self) -> Iterator[_Seen]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = read_vectors(self.path)
        self.findings += [Finding("duplicate", "warning", str(warning.message)) for warning in caught]
        for line, word in enumerate(found.words, start=1):
            self.counter.saw()
            yield _Seen(line, word)

    # --- conclusions --------------------------------------------------------------------------------------------------

    def dropped(self) -> dict[str, int]:
        """The number of dropped examples for each reason, the most frequent first."""
        return dict(Counter(dropped.reason for dropped in self.counter.dropped).most_common())

    def _conclude(self) -> None:
        self.findings += self._split_finding()
        self.findings += self._dropped_findings()
        for note in self.counter.notes():
            self.findings.append(Finding("unusual", "warning", note))
        self.findings += self.troubles.findings()
        self.findings += self.texts.findings()
        if self.detected.format == "columns" and self.n_examples == 1 and (self.n_words or 0) > _ONE_SENTENCE:
            message = f"there is no blank line between sentences, so all {self.n_words:,} words are one sentence"
            self.findings.append(Finding("one-sentence", "warning", message))
        for j, troubles in self.tags.items():
            self.findings += troubles.findings(j + 1)
        if self.label_kind == "labels":
            splits = self.settings.splits and self.is_train
            self.findings += self.labels.findings(multilabel=self.settings.multilabel, splits=splits)
        self.findings += self.repeats.findings("note" if self.task in _TEXT_TASKS else "warning")
        if self.is_train and not any(finding.level == "error" for finding in self.findings):
            self.findings += self._too_few()

    def _split_finding(self) -> Iterator[Finding]:
        """A note about a column that assigns the records to train, dev and test."""
        if self.detected.format == UNKNOWN or not self.n_examples:
            return
        column = find_split_column(self.path, self.settings.format, self.encoding)
        if column is not None:
            yield Finding("splits", "note", f"{column}, which train and evaluate use")

    def _dropped_findings(self) -> Iterator[Finding]:
        by_reason: dict[str, Lines] = {}
        damaged = [dropped for dropped in self.counter.dropped if dropped.reason == NOT_DECODED]
        if damaged:
            first = damaged[0].text.removesuffix(".")
            yield Finding("dropped", "warning", f"{len(damaged):,} dropped, {NOT_DECODED}; {first}", len(damaged))
        for dropped in (one for one in self.counter.dropped if one.reason != NOT_DECODED):
            by_reason.setdefault(dropped.reason, Lines()).add(dropped.location.line)
        for reason, lines in by_reason.items():
            level: Level = "note" if reason in (no_value(TEXT), "comments") else "warning"
            kind = {"without a label": "no-label", "empty": "empty"}.get(reason, "dropped")
            yield Finding(kind, level, f"{lines.count:,} dropped, {reason}", lines.count, tuple(lines.first))

    def _too_few(self) -> Iterator[Finding]:
        if not self.n_examples:
            yield Finding("nothing", "error", "nothing is left to learn from; add data")
        elif (self.n_pairs or self.n_examples) == 1 and self.settings.splits and self.task is not None:
            yield Finding("too-few", "error", "one example cannot be split into train and dev; add data or a dev file")
