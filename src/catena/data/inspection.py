"""Inspection of data files: format, statistics and problems, with line numbers.

    report = inspect(["train.tsv", "dev.tsv"])
    report.lines()      # for a terminal
    report.to_dict()    # for JSON

Invalid content never raises: it becomes a finding. Nothing is printed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from catena.data.detect import UNKNOWN, DetectedFormat, detect_format
from catena.data.examples import Columns, ConlluSentence, Example, LabeledText, ParallelText, Tree, get_text
from catena.data.files import open_damaged_text
from catena.data.findings import FEW, CharacterTroubles, Finding, LengthSummary, Lines, Repeats, TagTroubles
from catena.data.readers.datasets import splits
from catena.data.readers.names import NoLabelColumnError
from catena.data.readers.paired import PairKind, find_pair_columns, pair_layout, read_kind
from catena.data.readers.sample import Sample
from catena.data.readers.table import FORMATS
from catena.errors import CatenaError

_IMBALANCE = 10
"""The ratio of the most frequent to the rarest label above which labels are reported as unbalanced."""
_ONE_SENTENCE = 100
"""Number of lines of a column file above which they are probably not a single sentence."""
_NO_LINES = ("parquet", "datasets")
_TABLES = ("csv", "tsv", "jsonl")
_BLANKS_MEAN_NOTHING = ("text", "tsv-label", "kim", "fasttext", "csv", "tsv", "jsonl", "parallel")


# --- the report ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileReport:
    """The report on one file. ``label_kind`` names what ``labels`` counts: labels, tags, …"""

    path: str
    format: str
    why: str
    options: dict[str, Any] = field(default_factory=dict)
    n_bytes: int | None = None
    n_lines: int | None = None
    n_examples: int | None = None
    characters: dict[str, Any] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)
    label_kind: str = ""
    labels: dict[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "findings": [finding.to_dict() for finding in self.findings]}

    def lines(self) -> list[str]:
        said = [f"{self.path}: {self.format}", f"  {self.why}"]
        sizes = [(self.n_examples, "examples"), (self.n_lines, "lines"), (self.n_bytes, "bytes")]
        if any(n is not None for n, _ in sizes):
            said.append("  " + ", ".join(f"{n:,} {unit}" for n, unit in sizes if n is not None))
        for name, summary in (("characters", self.characters), ("words", self.words)):
            if summary:
                said.append(
                    f"  {name}: {summary['min']:,} to {summary['max']:,}, "
                    f"median {summary['median']:,g}, mean {summary['mean']:,.1f}"
                )
        said += [f"    {line}" for line in _bars(_histogram_rows(self.words))]
        if self.labels:
            said.append(f"  {self.label_kind}: {len(self.labels):,} different")
            said += [f"    {line}" for line in _bars(list(self.labels.items())[:12])]
            if len(self.labels) > 12:
                said.append(f"    and {len(self.labels) - 12:,} more")
        said += [f"  {finding}" for finding in self.findings] or ["  no problems found"]
        return said


@dataclass(frozen=True)
class Report:
    """The report on several files, one by one and together."""

    files: tuple[FileReport, ...]
    findings: tuple[Finding, ...] = ()
    """Findings on the files together: texts in two of them, labels missing in the first."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "files": [file.to_dict() for file in self.files],
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def lines(self) -> list[str]:
        """The report as lines for a terminal."""
        said: list[str] = []
        for file in self.files:
            said += [*file.lines(), ""]
        if self.findings:
            said += ["between the files", *(f"  {finding}" for finding in self.findings), ""]
        return said[:-1]


def _histogram_rows(summary: dict[str, Any]) -> list[tuple[str, int]]:
    bins = summary.get("histogram", [])
    return [(str(b["from"]) if b["from"] == b["to"] else f"{b['from']}-{b['to']}", b["count"]) for b in bins]


def _bars(rows: Sequence[tuple[str, int]], width: int = 40) -> Iterator[str]:
    most = max((count for _, count in rows), default=0)
    names = [name if len(name) <= 24 else name[:23] + "…" for name, _ in rows]
    names = ["".join(c if c.isprintable() else "?" for c in name) for name in names]
    pad = max(map(len, names), default=0)
    for name, (_, count) in zip(names, rows, strict=True):
        bar = "#" * max(1 if count else 0, round(width * count / max(most, 1)))
        yield f"{name:>{pad}} {count:>9,} {bar}".rstrip()


# --- inspection ---------------------------------------------------------------------------------------------


def inspect(paths: Iterable[Path | str], encoding: str | None = None) -> Report:
    """Inspect files one by one and against each other. The first is the training set.

    Args:
        paths: the files, or Hugging Face datasets folders.
        encoding: encoding of the files. UTF-8 if omitted.
    """
    examined = [_Examination(path, encoding) for path in _opened(paths)]
    for examination in examined:
        examination.run()
    together = [*_overlaps(examined), *_missing_labels(examined), *_uneven_pairs(examined)]
    return Report(tuple(examination.report() for examination in examined), tuple(together))


def _opened(paths: Iterable[Path | str]) -> Iterator[Path]:
    """The paths. A datasets folder with several splits gives one for each."""
    for path in map(Path, paths):
        try:
            names = splits(path)
        except CatenaError:
            names = []
        yield from [path / name for name in names] or [path]


class _Examination:
    """The inspection of one file: one pass over its lines and one over its examples."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self.path = path
        self.encoding = encoding
        self.recognized = DetectedFormat(UNKNOWN, "it could not be read")
        self.pairs: PairKind | None = None
        self.findings: list[Finding] = []
        self.n_lines: int | None = None
        self.n_examples: int | None = None
        self.blank, self.no_text, self.no_counterpart = Lines(), Lines(), Lines()
        self.troubles = CharacterTroubles()
        self.characters, self.words = LengthSummary(), LengthSummary()
        self.label_kind = ""
        self.labels: Counter[str] = Counter()
        self.label_lines: dict[str, int] = {}
        self.repeats = Repeats()
        self.tags: dict[int, TagTroubles] = {}

    def run(self) -> None:
        try:
            self.recognized = self._recognized()
            if self.recognized.format not in _NO_LINES and self.path.is_file():
                self._scan_lines()
        except CatenaError as error:
            self.findings.append(Finding("unreadable", "error", str(error)))
        if self.recognized.format == UNKNOWN:
            self._give_up()
            return
        self.findings += self.troubles.findings()
        try:
            self._read_examples()
        except CatenaError as error:
            self.findings.append(Finding("format", "error", f"reading stopped: {error}"))
        self._conclude()

    def _recognized(self) -> DetectedFormat:
        """The format, with the two columns of a table that are pairs of texts, if any."""
        found = detect_format(self.path, self.encoding)
        if found.format not in _TABLES and not (found.format == "text" and Sample(self.path).is_named(".csv")):
            return found
        try:
            told = find_pair_columns(self.path, found.options, self.encoding)
            self.pairs = None if told is None else pair_layout(self.path, self.encoding)
        except CatenaError:  # its lines are inspected, and their problems are reported
            return found
        if told is None or self.pairs is None:
            return found
        by = f", by their names {told.source!r} and {told.target!r}" if told.named else ""
        return DetectedFormat(self.pairs if found.format == "text" else found.format, f"it has pairs of texts{by}")

    def _give_up(self) -> None:
        if not self.findings:
            self.findings.append(Finding("format", "error", f"unknown format: {self.recognized.why}"))
        if self.troubles.nul.count:
            self.n_lines = None  # it is not text, so lines and characters are meaningless
        else:
            self.findings += self.troubles.findings()

    def _scan_lines(self) -> None:
        self.n_lines = 0
        with open_damaged_text(self.path, self.encoding) as lines:
            for self.n_lines, line in lines:
                if not line.strip():
                    self.blank.add(self.n_lines)
                self.troubles.add(self.n_lines, line)

    # --- examples ---

    def _read_examples(self) -> None:
        options = dict(self.recognized.options)
        if self.recognized.format not in _NO_LINES:
            # Latin-1 can decode anything, so that the rest of a file with invalid bytes is inspected too.
            options["encoding"] = self.encoding or ("latin-1" if self.troubles.undecoded.count else None)
        try:
            self._add_all(options)
        except NoLabelColumnError:
            self.findings.append(Finding("unlabeled", "note", "no column has a common name for labels"))
            self._add_all({**options, "labeled": False})

    def _add_all(self, options: dict[str, Any]) -> None:
        self.n_examples = 0
        if self.pairs is not None:
            examples: Iterable[Example] = read_kind(self.path, self.pairs, encoding=options["encoding"])[1]
        else:
            examples = FORMATS[self.recognized.format].read(self.path, **options)
        for example in examples:
            self.n_examples += 1
            self._add(example)

    def _add(self, example: Example) -> None:
        text, line = get_text(example), example.place.line
        labels = self._labels_of(example)
        if not text.strip():
            if labels:
                self.no_text.add(line)
            return
        if isinstance(example, ParallelText) and not example.target.strip():
            self.no_counterpart.add(line)
        self.characters.add(len(text))
        self.words.add(len(text.split()))
        self.repeats.add(line, text, labels)
        for i, label in enumerate(labels):
            self.labels[label] += 1
            self.label_lines.setdefault(label, line + i if isinstance(example, Columns) else line)

    def _labels_of(self, example: Example) -> tuple[str, ...]:
        if isinstance(example, LabeledText):
            self.label_kind = "labels"
            return example.labels
        if isinstance(example, Columns):
            self.label_kind = "tags"
            self._check_tags(example)
            return example.column(-1) if len(example.rows[0]) > 1 else ()
        if isinstance(example, ConlluSentence):
            self.label_kind = "universal tags"
            return tuple(word.upos for word in example.words)
        if isinstance(example, Tree):
            self.label_kind = "root labels"
            return (example.label,)
        return ()

    def _check_tags(self, example: Columns) -> None:
        for j in range(1, len(example.rows[0])):
            troubles = self.tags.setdefault(j, TagTroubles())
            if troubles.is_bio:
                troubles.add(example.place.line, example.column(j))

    # --- conclusions ---

    def _conclude(self) -> None:
        if self.recognized.format in _BLANKS_MEAN_NOTHING:
            self.findings += self.blank.finding("blank", "note", "a line is blank", "{} lines are blank")
        self.findings += self.no_text.finding("no-text", "warning", "a label has no text", "{} labels have no text")
        self.findings += self.no_counterpart.finding(
            "no-target", "warning", "a source has no target", "{} sources have no target"
        )
        if self.recognized.format == "columns" and self.n_examples == 1 and (self.n_lines or 0) > _ONE_SENTENCE:
            message = "there is no blank line between sentences, so all lines are read as one sentence"
            self.findings.append(Finding("one-sentence", "warning", message))
        for j, troubles in self.tags.items():
            self.findings += troubles.findings(j + 1)
        if self.label_kind == "labels" and self.labels:
            self.findings += self._label_findings()
        self.findings += self.repeats.findings("note" if self.recognized.format == "text" else "warning")
        if not self.characters and not any(finding.level == "error" for finding in self.findings):
            self.findings.append(Finding("empty", "error", "the file has no text"))

    def _label_findings(self) -> Iterator[Finding]:
        ranked = self.labels.most_common()
        (top, most), (rare, least) = ranked[0], ranked[-1]
        if len(ranked) == 1:
            yield Finding("one-label", "warning", f"every text has the same label, {top!r}")
        elif most > _IMBALANCE * least:
            yield Finding(
                "imbalance",
                "warning",
                f"the labels are unbalanced: {top!r} has {most:,} texts and {rare!r} has {least:,}, 1 to "
                f"{most / least:,.0f}",
            )
        single = [label for label, count in ranked if count == 1]
        if single and len(ranked) > 1:
            lines = tuple(self.label_lines[label] for label in single[:FEW])
            names = ", ".join(map(repr, single[:FEW])) + (", …" if len(single) > FEW else "")
            yield Finding(
                "rare",
                "warning",
                f"{_counted(len(single), 'label')} with one text only ({names})",
                len(single),
                lines,
            )
        by_fold: dict[str, list[str]] = {}
        for label in self.labels:
            by_fold.setdefault(label.casefold().replace(" ", "_").replace("-", "_"), []).append(label)
        for alike in (names for names in by_fold.values() if len(names) > 1):
            lines = tuple(self.label_lines[label] for label in alike[:FEW])
            message = f"the labels {' and '.join(map(repr, alike))} differ only in case or punctuation"
            yield Finding("alike", "warning", message, len(alike), lines)  # style: name in the JSON report

    def report(self) -> FileReport:
        return FileReport(
            path=str(self.path),
            format=self.recognized.format,
            why=self.recognized.why,
            options=dict(self.recognized.options),
            n_bytes=self.path.stat().st_size if self.path.is_file() else None,
            n_lines=self.n_lines,
            n_examples=self.n_examples,
            characters=self.characters.summary(),
            words=self.words.summary(),
            label_kind=self.label_kind if self.labels else "",
            labels=dict(self.labels.most_common()),
            findings=tuple(self.findings),
        )


# --- files against each other -------------------------------------------------------------------------------


def _overlaps(examined: Sequence[_Examination]) -> Iterator[Finding]:
    for a, b in combinations(examined, 2):
        lines_a, lines_b = a.repeats.first_line, b.repeats.first_line
        common = [key for key in lines_b if key in lines_a]
        if common:
            pairs = ", ".join(f"{lines_a[key]:,} and {lines_b[key]:,}" for key in common[:FEW])
            share = len(common) / len(lines_b)
            yield Finding(
                "overlap",
                "warning",
                f"{_counted(len(common), 'text')} of {b.path} ({share:.1%} of its distinct texts) also occur in "
                f"{a.path}: "
                f"the pairs of lines are {pairs}" + (", …" if len(common) > FEW else ""),
                len(common),
            )


def _counted(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def _missing_labels(examined: Sequence[_Examination]) -> Iterator[Finding]:
    first = examined[0] if examined else None
    for other in examined[1:]:
        if first is None or not first.labels or not other.labels or first.label_kind != other.label_kind:
            continue
        missing = [label for label in other.labels if label not in first.labels]
        if missing:
            names = ", ".join(f"{label!r} (line {other.label_lines[label]:,})" for label in missing[:FEW])
            yield Finding(
                "unseen-label",
                "warning",
                f"{_counted(len(missing), other.label_kind[:-1])} of {other.path} not in {first.path}: "
                f"{names}" + (", …" if len(missing) > FEW else ""),
                len(missing),
            )


def _uneven_pairs(examined: Sequence[_Examination]) -> Iterator[Finding]:
    """Two plain texts whose names differ only in the extension, such as train.en and train.de, should be parallel."""
    for a, b in combinations(examined, 2):
        is_pair = a.path.stem == b.path.stem and a.path.parent == b.path.parent and a.path != b.path
        if not is_pair or {a.recognized.format, b.recognized.format} != {"text"} or None in (a.n_lines, b.n_lines):
            continue
        same = a.n_lines == b.n_lines
        yield Finding(
            "parallel",
            "note" if same else "warning",
            f"{a.path} and {b.path} have {a.n_lines:,} and {b.n_lines:,} lines: "
            + ("they can be read as parallel text" if same else "they cannot be read as parallel text"),
        )
