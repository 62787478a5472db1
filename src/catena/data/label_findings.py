"""Findings about the labels of texts: rare, unbalanced, misspelled, several in one cell, quantities, and leaks.

Tested in tests/data/test_inspection.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from catena.data.findings import FEW, Finding, Lines
from catena.data.splits import Splits
from catena.data.values import is_quantity

_IMBALANCE = 10
"""The ratio of the most frequent to the rarest label above which labels are reported as unbalanced."""
_SEPARATORS = (";", "|", ",", "#", "/", "+", "&")
_LIST_SEPARATORS = (";", "|", ",", "#")
"""Separators after which a part that is also a label of its own shows several labels."""
_PLACEHOLDERS = frozenset(
    ("-", "--", "?", ".", "none", "nil", "undefined", "missing", "unknown", "unlabeled", "tbd", "todo")
)
"""Labels, in lower case, that often mean that the label is missing."""
_LEAK = 0.5
"""Fraction of texts that contain their label from which it is reported."""
_ENOUGH = 10
_INVISIBLE = re.compile("[\u200b\u200c\u2060\ufeff\u00ad\xa0]")


class LabelTroubles:
    """Counts labels, text by text."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first_line: dict[str, int] = {}
        self.sets: list[str] = []
        """The labels of each text, joined, to see what a split would do."""
        self.several, self.none = Lines(), Lines()
        self.invisible: Counter[str] = Counter()
        self.invisible_lines = Lines()
        self._leaks = Lines()
        self._n_words = 0

    def add(self, number: int, text: str, labels: Sequence[str]) -> None:
        for label in labels:
            self.counts[label] += 1
            self.first_line.setdefault(label, number)
        self.sets.append("\t".join(labels))
        if len(labels) > 1:
            self.several.add(number)
        elif not labels:
            self.none.add(number)
        names = [label for label in labels if len(label) > 2 and any(map(str.isalpha, label))]
        self._n_words += bool(names)
        if any(_contains(text, label) for label in names):
            self._leaks.add(number)

    def add_raw(self, number: int, cell: str, label: str) -> None:
        """Compare a label with its cell, which may have invisible characters around it."""
        if cell.strip() != label and _INVISIBLE.search(cell):
            self.invisible[label] += 1
            self.invisible_lines.add(number)

    def findings(self, *, multilabel: bool, splits: bool) -> Iterator[Finding]:
        """The findings.

        Args:
            multilabel: whether texts may have several labels.
            splits: whether a dev set is split off.
        """
        if not self.counts:
            return
        yield from self._numbers(multilabel)
        yield from self._rarity()
        yield from self._spelling()
        yield from self._placeholders()
        yield from self._cells(multilabel)
        if self._n_words >= _ENOUGH and self._leaks.count >= _LEAK * self._n_words:
            message = f"{self._leaks.count:,} of {self._n_words:,} texts contain their own label, so it may be leaked"
            yield from self._leaks.finding("leak", "warning", message)
        if splits:
            yield from self._dev_set(multilabel)

    def _numbers(self, multilabel: bool) -> Iterator[Finding]:
        if self.several.count and not multilabel:
            message = "[a text has|# texts have] several labels; pass --multilabel if that is meant"
            yield from self.several.finding("several-labels", "error", message)
        if len(self.counts) == 1:
            only = next(iter(self.counts))
            message = f"every text has the same label, {only!r}, which is nothing to learn; add texts of other labels"
            yield Finding("one-label", "error", message)
        if is_quantity(list(self.counts.elements())):
            message = (
                f"the labels are {len(self.counts):,} different numbers, which hardly repeat: a quantity, not classes; "
                f"use 'catena train regress', or group them into ranges first"
            )
            yield Finding("quantity", "warning", message)

    def _rarity(self) -> Iterator[Finding]:
        ranked = self.counts.most_common()
        (top, most), (rare, least) = ranked[0], ranked[-1]
        if len(ranked) > 1 and most > _IMBALANCE * least:
            message = f"the labels are unbalanced: {top!r} has {most:,} texts and {rare!r} has {least:,}"
            yield Finding("imbalance", "warning", f"{message}, 1 to {most / least:,.0f}")
        single = [label for label, count in ranked if count == 1]
        if single and len(ranked) > 1:
            names = ", ".join(map(repr, single[:5])) + (", …" if len(single) > 5 else "")
            labels = "label" if len(single) == 1 else "labels"
            yield self._of_labels("rare", f"{len(single):,} {labels} with one text only ({names})", single)
        middle = ranked[len(ranked) // 2][1]
        if len(ranked) > 20 and 1 < middle < 5:
            message = f"the labels are rare: half of the {len(ranked):,} labels have at most {middle} texts"
            yield Finding("rare-labels", "warning", message)

    def _spelling(self) -> Iterator[Finding]:
        by_fold: dict[str, list[str]] = {}
        for label in self.counts:
            folded = re.sub(r"^([-+]?\d+)\.0+$", r"\1", label.casefold())
            by_fold.setdefault(re.sub(r"[\s_-]+", "_", folded), []).append(label)
        for names in (names for names in by_fold.values() if len(names) > 1):
            are_numbers = all(re.fullmatch(r"[-+]?\d+(\.0+)?", name) for name in names)
            differ = "are the same number" if are_numbers else "differ only in case or punctuation"
            message = f"the labels {' and '.join(map(repr, names))} {differ}"
            yield self._of_labels("similar-labels", message, names)
        if self.invisible:
            listed = ", ".join(repr(label) for label, _ in self.invisible.most_common(5))
            message = f"the labels {listed} have invisible characters around them in some lines, which are removed"
            lines = self.invisible_lines
            yield Finding("invisible-labels", "warning", message, lines.count, tuple(lines.first))

    def _of_labels(self, kind: str, message: str, labels: Sequence[str]) -> Finding:
        """A warning about labels, with the lines where they first occur."""
        lines = tuple(self.first_line[label] for label in labels[:FEW])
        return Finding(kind, "warning", message, len(labels), lines)

    def _placeholders(self) -> Iterator[Finding]:
        names = [label for label in self.counts if label.casefold() in _PLACEHOLDERS]
        if names and len(names) < len(self.counts):
            listed = " and ".join(map(repr, names))
            message = (
                f"{sum(self.counts[name] for name in names):,} texts have the label {listed}, which is learned as a"
            )
            message += " class; if it means that the label is missing, leave these cells empty"
            yield self._of_labels("placeholder-label", message, names)

    def _cells(self, multilabel: bool) -> Iterator[Finding]:
        """Labels that are several labels with a separator between them."""
        if multilabel:
            return
        for separator in _SEPARATORS:
            joined = [label for label in self.counts if separator in label.strip(separator)]
            parts = Counter(part for label in joined for part in set(_split(label, separator)))
            single = {label.strip(separator) for label in self.counts}
            repeated = [part for part, n in parts.items() if part in single or n > 1]
            is_list = len(repeated) == len(parts) < len(self.counts)
            extended = separator in _LIST_SEPARATORS and not single.isdisjoint(parts)
            if joined and (is_list or extended):
                n_cells = sum(self.counts[label] for label in joined)
                every = {part for label in self.counts for part in _split(label, separator)}
                message = (
                    f"{n_cells:,} cells seem to have several labels, such as {joined[0]!r}; pass --multilabel "
                    f"--label-separator '{separator}' to read the labels as {len(every)}"
                )
                yield self._of_labels("joined-labels", message, joined)
                return

    def _dev_set(self, multilabel: bool) -> Iterator[Finding]:
        if len(self.sets) < 2 or len(self.counts) < 2 or multilabel:
            return
        rows = Splits(by="stratified").rows([str(i) for i in range(len(self.sets))], self.sets)
        labels = {self.sets[i] for i in rows.dev}
        if len(labels) == 1 and len(rows.dev) > 1:
            message = (
                f"the dev set of {len(rows.dev):,} texts that is split off would have only the label "
                f"{next(iter(labels))!r}; pass a dev file, or add texts of the other labels"
            )
            yield Finding("dev-one-label", "warning", message)


def _split(label: str, separator: str) -> list[str]:
    return [part.strip() for part in label.strip(separator).split(separator)]


def _contains(text: str, label: str) -> bool:
    """Whether a text contains a label as whole words, ignoring case."""
    wanted = re.sub(r"[\s_-]+", " ", label.casefold())
    words = " ".join(re.findall(r"\w+", text.casefold().replace("_", " ")))
    return f" {wanted} " in f" {words} "
