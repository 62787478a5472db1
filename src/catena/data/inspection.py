"""Inspection of data files: what a task would read from them, statistics, and problems with line numbers.

    report = inspect(["train.tsv", "dev.tsv"])
    report.lines()      # for a terminal
    report.to_dict()    # for JSON

A file is read as the task reads it, so that counts agree. Invalid content never raises: it becomes a finding, and
everything is reported in one run. An error is a finding for which training would fail. Nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from catena.data.examination import Examination, ReadSettings
from catena.data.findings import Finding
from catena.data.readers.arrow import splits
from catena.errors import CatenaError
from catena.files import escape_controls

_SHOWN = 5
"""How many pairs of lines and labels a finding about two files shows."""


@dataclass(frozen=True)
class FileReport:
    """The report on one file. ``label_kind`` names what ``labels`` counts: labels, tags, …"""

    path: str
    format: str
    why: str
    task: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    n_bytes: int | None = None
    n_lines: int | None = None
    n_read: int | None = None
    n_examples: int | None = None
    """The number of examples that can be used."""
    n_words: int | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    characters: dict[str, Any] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)
    label_kind: str = ""
    labels: dict[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether training on the file would not fail because of the file."""
        return all(finding.level != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "findings": [finding.to_dict() for finding in self.findings]}

    def lines(self) -> list[str]:
        """The report as lines for a terminal, with control characters of the data escaped."""
        said = [f"{self.path}: {self.format}", f"  {self.why}"]
        if self.task is not None:
            said.append(f"  task: {self.task}")
        sizes = [(self.n_examples, "examples"), (self.n_lines, "lines"), (self.n_bytes, "bytes")]
        if any(n is not None for n, _ in sizes):
            said.append("  " + ", ".join(f"{n:,} {unit}" for n, unit in sizes if n is not None))
        if self.dropped:
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.dropped.items())
            said.append(
                f"  read {self.n_read:,}, used {self.n_examples:,}, dropped {sum(self.dropped.values()):,} ({reasons})"
            )
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
        return [escape_controls(line.replace("\n", "\\n").replace("\t", "\\t")) for line in said]


@dataclass(frozen=True)
class Report:
    """The report on several files, one by one and together."""

    files: tuple[FileReport, ...]
    findings: tuple[Finding, ...] = ()
    """Findings on the files together: texts in two of them, labels missing in the first."""

    @property
    def is_usable(self) -> bool:
        """Whether training on the files would not fail because of them."""
        return all(file.is_usable for file in self.files) and all(f.level != "error" for f in self.findings)

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
            said += ["between the files", *(escape_controls(f"  {finding}") for finding in self.findings), ""]
        return said[:-1]


def _histogram_rows(summary: dict[str, Any]) -> list[tuple[str, int]]:
    bins = summary.get("histogram", [])
    return [(str(b["from"]) if b["from"] == b["to"] else f"{b['from']}-{b['to']}", b["count"]) for b in bins]


def _bars(rows: Sequence[tuple[str, int]], width: int = 40) -> Iterator[str]:
    most = max((count for _, count in rows), default=0)
    names = [escape_controls(name).replace("\n", "\\n").replace("\t", "\\t") for name, _ in rows]
    names = [name if len(name) <= 24 else name[:23] + "…" for name in names]
    pad = max(map(len, names), default=0)
    for name, (_, count) in zip(names, rows, strict=True):
        bar = "#" * max(1 if count else 0, round(width * count / max(most, 1)))
        yield f"{name:>{pad}} {count:>9,} {bar}".rstrip()


# --- inspection -------------------------------------------------------------------------------------------------------


def inspect(
    paths: Iterable[Path | str],
    encoding: str | None = None,
    *,
    task: str | None = None,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    target: Path | str | None = None,
    multilabel: bool = False,
    label_separator: str | None = None,
    paragraphs: bool = False,
    max_length: int | None = None,
) -> Report:
    """Inspect files one by one and against each other. The first is the training set, the second the dev set.

    Args:
        paths: the files, or folders that hold data.
        encoding: encoding of the files. UTF-8 if omitted.
        task: the task that reads the files, such as "classify". Detected for each file if omitted.
        format: format of the files. Detected if omitted.
        columns: the column of a role ("text", "label", "source", "target", "context", "response", …).
        target: a file with the targets of the first file, line by line.
        multilabel: whether texts may have several labels.
        label_separator: what separates several labels in one cell.
        paragraphs: whether the lines between blank lines of plain text are one text (``--unit paragraph``).
        max_length: maximum number of tokens of a training text. By default that of the task.
    """
    opened = list(_opened(paths))
    settings = ReadSettings(
        encoding=encoding,
        task=task,
        format=format,
        columns={role: column for role, column in (columns or {}).items() if column is not None},
        target=None if target is None else Path(target),
        multilabel=multilabel or label_separator is not None,
        label_separator=label_separator,
        paragraphs=paragraphs,
        max_length=max_length,
        splits=len(opened) < 2,
    )
    examined = [Examination(path, settings, is_train=i == 0) for i, path in enumerate(opened)]
    for examination in examined:
        examination.run()
    together = [*_same_files(examined), *_overlaps(examined), *_missing_labels(examined), *_uneven_pairs(examined)]
    return Report(tuple(_report(examination) for examination in examined), tuple(together))


def _opened(paths: Iterable[Path | str]) -> Iterator[Path]:
    """The paths. A datasets folder with several splits gives one for each."""
    for path in map(Path, paths):
        try:
            names = splits(path)
        except CatenaError:
            names = []
        yield from [path / name for name in names] or [path]


def _report(found: Examination) -> FileReport:
    layout = found.detected.options.get("layout")
    options = {**found.detected.options, **({"layout": layout.to_dict()} if layout is not None else {})}
    return FileReport(
        path=str(found.path),
        format=found.detected.format,
        why=found.detected.why,
        task=found.task,
        options=options,
        columns={role: str(choice) for role, choice in found.choices.items()},
        n_bytes=found.path.stat().st_size if found.path.is_file() else None,
        n_lines=found.n_lines,
        n_read=found.counter.read if found.n_examples is not None else None,
        n_examples=found.n_examples,
        n_words=found.n_words,
        dropped=found.dropped(),
        characters=found.characters.summary(),
        words=found.words.summary(),
        label_kind=found.label_kind if found.labels.counts else "",
        labels=dict(found.labels.counts.most_common()),
        findings=tuple(found.findings),
    )


# --- files against each other -----------------------------------------------------------------------------------------


def _same_files(examined: Sequence[Examination]) -> Iterator[Finding]:
    for a, b in combinations(examined, 2):
        if a.path.exists() and b.path.exists() and a.path.samefile(b.path):
            message = f"{b.path} is the same file as {a.path}: scores on it are scores on what was learned"
            yield Finding("same-file", "warning", message)


def _overlaps(examined: Sequence[Examination]) -> Iterator[Finding]:
    for a, b in combinations(examined, 2):
        lines_a, lines_b = a.repeats.first_line, b.repeats.first_line
        common = [key for key in lines_b if key in lines_a]
        if common:
            pairs = ", ".join(f"{lines_a[key]:,} and {lines_b[key]:,}" for key in common[:_SHOWN])
            fraction = len(common) / len(lines_b)
            yield Finding(
                "overlap",
                "warning",
                f"{_counted(len(common), 'text')} of {b.path} ({fraction:.1%} of its distinct texts) also occur in "
                f"{a.path}: the pairs of lines are {pairs}" + (", …" if len(common) > _SHOWN else ""),
                len(common),
            )


def _counted(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def _missing_labels(examined: Sequence[Examination]) -> Iterator[Finding]:
    first = examined[0] if examined else None
    for other in examined[1:]:
        if first is None or not first.labels.counts or first.label_kind != other.label_kind:
            continue
        missing = [label for label in other.labels.counts if label not in first.labels.counts]
        if missing:
            lines = other.labels.first_line
            names = ", ".join(f"{label!r} (line {lines[label]:,})" for label in missing[:_SHOWN])
            yield Finding(
                "unseen-label",
                "warning",
                f"{_counted(len(missing), other.label_kind[:-1])} of {other.path} not in {first.path}: "
                f"{names}" + (", …" if len(missing) > _SHOWN else ""),
                len(missing),
            )


def _uneven_pairs(examined: Sequence[Examination]) -> Iterator[Finding]:
    """Two plain texts whose names differ only in the extension, such as train.en and train.de, should be parallel."""
    for a, b in combinations(examined, 2):
        is_pair = a.path.stem == b.path.stem and a.path.parent == b.path.parent and a.path != b.path
        if not is_pair or {a.detected.format, b.detected.format} != {"text"} or None in (a.n_lines, b.n_lines):
            continue
        same = a.n_lines == b.n_lines
        yield Finding(
            "parallel",
            "note" if same else "warning",
            f"{a.path} and {b.path} have {a.n_lines:,} and {b.n_lines:,} lines: "
            + ("they can be read as parallel text" if same else "they cannot be read as parallel text")
            + f" (catena train {a.path} --target {b.path})" * same,
        )
