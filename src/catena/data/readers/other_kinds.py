"""Files of text without data for a task: markup, settings, dumps, mail, printed tables. Each has a name and a cure.

Without these rules such files would be read as plain text, so that a model would be trained on their markup. Tested in
tests/data/readers/test_other_kinds.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import groupby, pairwise

from catena.data.readers.sample import DetectedFormat, Sample, unknown
from catena.data.values import is_wordy, mean_words

_HEAD = 20
"""Number of lines in which the mark of a format is searched."""
AS_TEXT = "pass --input-format text to read each of its lines as a text"

_BY_NAME = (
    ((".yaml", ".yml"), "YAML", "Convert it to JSON"),
    ((".toml", ".ini", ".cfg", ".conf"), "a file of settings", "Pass a file with texts"),
    ((".po", ".pot"), "a message catalog of gettext", "Convert it to TMX or CSV, for example with po2tmx or po2csv"),
    ((".srt", ".vtt"), "subtitles with times", "Remove the numbers and times"),
    ((".sql",), "statements of SQL", "Export the table as CSV"),
    ((".html", ".htm"), "a web page (HTML)", "Extract the text first, for example with lynx -dump"),
    ((".tex",), "a document in LaTeX", "Extract the text first, for example with detex"),
    ((".bib",), "a bibliography in BibTeX", "Export it as CSV"),
    ((".arff",), "a table in ARFF, as Weka writes it", "Save it as CSV"),
    ((".ann",), "annotations of brat without their text", "Convert them with the text to CoNLL"),
    ((".eml", ".mbox"), "electronic mail", "Extract the text first"),
    ((".ipynb",), "a notebook of Jupyter", "Write the texts of its cells to a file"),
)
"""How names of files end, what the files are, and the cure."""
_SQL = re.compile(r"\s*(insert\s+into\s|create\s+table\s)", re.IGNORECASE)
_TAG = re.compile(r"\s*<([A-Za-z][\w.:-]*)(\s+[\w:-]+\s*=\s*(\"[^\"]*\"|'[^']*').*|\s*)>.*")
_TIMES = re.compile(r"(\d+:)?\d{1,2}:\d{2}[.,]\d{3} --> .*")
_MAIL = re.compile(
    r"(From|To|Subject|Date|Received|Return-Path|Message-ID|Delivered-To|MIME-Version): .*", re.IGNORECASE
)
_BRAT = re.compile(r"(T\d+\t\S+ \d+ \d+.*|[REAMN]\d+\t\S+ .*|#\d+\t.*|\*\t\S+ .*)")
_VOWPAL = re.compile(r"[-+]?[\d.]+( [\d.]+)?( '?\S+)? \|\w+ .*")
_KEY = re.compile(r"([A-Za-z][\w/ .#-]{0,30}): ?(?!//).*")
_ARROW = re.compile(r"[^<>=]*\S\s*(->|=>|→|⇒)\s*\S[^<>=]*")
_PIPED = re.compile(r"[^\s|]+\|([A-Z][A-Z0-9$-]*|[^\sA-Za-z0-9|]{1,2})(\|\S+)?")
_PRINTED = re.compile(r"(\d+) {2,}\S.*")


def named_kind(sample: Sample) -> DetectedFormat | None:
    """The error for a file whose name, or whose first lines, show that it is neither a table nor text."""
    for endings, kind, cure in _BY_NAME:
        if sample.is_named(*endings):
            return _refuse(sample, kind, cure)
    for is_kind, kind, cure in _BY_LINES:
        if is_kind(sample.filled):
            return _refuse(sample, kind, cure)
    if len(sample.filled) == len(sample.lines) and _is_treetagger(sample.filled):
        kind = "output of TreeTagger without blank lines between sentences"
        cure = "Write a blank line after each row with the tag SENT, name the file .conll and pass --tags-column 1"
        return _refuse(sample, kind, cure)
    return None


def unnamed_kind(sample: Sample) -> DetectedFormat | None:
    """The error for a file that no format fits, and whose lines are not texts either."""
    for is_kind, kind, cure in _BY_FORM:
        if is_kind(sample.filled):
            return _refuse(sample, kind, cure)
    return _keyed(sample) or _in_turn(sample)


def _refuse(sample: Sample, kind: str, cure: str) -> DetectedFormat:
    return unknown(f"{sample.path} is {kind}. {cure}, or {AS_TEXT}.")


# --- by the first lines -----------------------------------------------------------------------------------------------


def _is_sql(lines: list[str]) -> bool:
    return _SQL.match(lines[0]) is not None


def is_tagged(lines: list[str]) -> bool:
    """Whether the first line is a tag, which is closed later: ``<doc id="1">``."""
    first = _TAG.fullmatch(lines[0])
    if first is None or first[1] == "s":  # <s> and </s> are the ends of a sentence
        return False
    closed = any(f"</{first[1]}>" in line for line in lines)
    return closed and sum(line.lstrip().startswith("<") for line in lines) >= 0.2 * len(lines)


def _are_subtitles(lines: list[str]) -> bool:
    times = sum(_TIMES.fullmatch(line.strip()) is not None for line in lines)
    return times > 1 and times >= 0.2 * len(lines)


def _is_mail(lines: list[str]) -> bool:
    """Whether the file begins with the head of a mail, perhaps below the line between two mails."""
    head = lines[1:4] if re.match(r"From \S+ .*\d{4}", lines[0]) else lines[:3]
    return len(head) == 3 and all(re.match(r"[\w-]+: ", line) for line in head) and sum(map(_is_field, head)) > 1


def _is_field(line: str) -> bool:
    return _MAIL.fullmatch(line) is not None


def _is_latex(lines: list[str]) -> bool:
    return any(line.lstrip().startswith(("\\documentclass", "\\begin{document}")) for line in lines[:_HEAD])


def _is_bibtex(lines: list[str]) -> bool:
    return re.match(r"@\w+\s*\{\s*[^\s,]+,\s*$", lines[0]) is not None


def _is_arff(lines: list[str]) -> bool:
    return any(line.lower().startswith("@relation") for line in lines[:_HEAD])


def _is_arpa(lines: list[str]) -> bool:
    return any(a.strip() == "\\data\\" and b.startswith("ngram 1") for a, b in pairwise(lines[:_HEAD]))


def _is_brat(lines: list[str]) -> bool:
    return all(_BRAT.fullmatch(line) for line in lines)


def _are_blocks_of_sql(lines: list[str]) -> bool:
    """Whether each record is a block of lines, as psql -x and ``\\G`` of MySQL print it."""
    return re.fullmatch(r"-\[ RECORD \d+ \][-+]*|\*{5,} \d+\. row \*{5,}", lines[0].strip()) is not None


def _is_m2(lines: list[str]) -> bool:
    edits = [line for line in lines if re.fullmatch(r"A -?\d+ -?\d+\|\|\|.*", line)]
    return lines[0].startswith("S ") and len(edits) >= 0.2 * len(lines)


def _is_webanno(lines: list[str]) -> bool:
    return lines[0].startswith("#FORMAT=WebAnno")


def _is_negra(lines: list[str]) -> bool:
    return any(re.fullmatch(r"#BOS \d+( .*)?", line) for line in lines[:200])


def _is_treetagger(lines: list[str]) -> bool:
    """Whether lines are a word, its tag and its lemma, where only the tag SENT shows the ends of sentences."""
    rows = [line.split("\t") for line in lines if not line.startswith("<")]
    tags = [row[1] for row in rows if len(row) == 3]
    return len(tags) >= 0.9 * len(rows) > 2 and tags.count("SENT") > 1


def _is_vowpal(lines: list[str]) -> bool:
    return len(lines) > 1 and all(_VOWPAL.fullmatch(line) for line in lines)


def _most(form: re.Pattern[str], parts: list[str]) -> bool:
    return len(parts) > 2 and sum(form.fullmatch(part) is not None for part in parts) >= 0.95 * len(parts)


def _is_piped(lines: list[str]) -> bool:
    return "|" in lines[0] and _most(_PIPED, [word for line in lines for word in line.split()])


_Kind = tuple[Callable[[list[str]], bool], str, str]
_BY_LINES: tuple[_Kind, ...] = (
    (_is_sql, "statements of SQL", "Export the table as CSV"),
    (_are_subtitles, "subtitles with times", "Remove the numbers and times"),
    (_is_mail, "electronic mail", "Extract the text first"),
    (_is_latex, "a document in LaTeX", "Extract the text first, for example with detex"),
    (_is_bibtex, "a bibliography in BibTeX", "Export it as CSV"),
    (_is_arff, "a table in ARFF, as Weka writes it", "Save it as CSV"),
    (_is_arpa, "an n-gram model in the ARPA format", "Use it with 'catena score'"),
    (_is_brat, "annotations of brat without their text", "Convert them with the text to CoNLL"),
    (_are_blocks_of_sql, "a table that a database printed with a line for each column", "Export it as CSV"),
    (_is_piped, "sentences of word|TAG", "Write them as word/TAG"),
    (_is_m2, "corrections in the format M2", "Write source<TAB>correction in each line"),
    (
        _is_webanno,
        "annotations in WebAnno TSV, as INCEpTION exports them",
        "Export it as CoNLL 2002 or CoNLL-U",
    ),
    (_is_negra, "a treebank in the export format of NEGRA", "Convert it to trees in brackets or to CoNLL-U"),
    (_is_vowpal, "examples of Vowpal Wabbit", "Write label<TAB>text in each line"),
)


# --- by the form of most lines ----------------------------------------------------------------------------------------


def _is_printed(lines: list[str]) -> bool:
    """Whether lines are a printed data frame: names aligned to the right, above rows that are numbered from 0."""
    rows = [_PRINTED.fullmatch(line) for line in lines[1:]]
    numbers = [int(match[1]) for match in rows if match]
    return lines[0].startswith("  ") and len(numbers) >= 3 and numbers[:20] == list(range(len(numbers)))[:20]


def _has_arrows(lines: list[str]) -> bool:
    return _most(_ARROW, lines)


def _are_square_trees(lines: list[str]) -> bool:
    text = "\n".join(lines)
    is_balanced = text.count("[") == text.count("]") >= 2 * len(lines)
    return lines[0].lstrip().startswith("[") and is_balanced and re.search(r"\[\S+ [^\s\[\]]+\]", text) is not None


_BY_FORM: tuple[_Kind, ...] = (
    (_is_printed, "a printed data frame", "Save it with to_csv"),
    (_has_arrows, "lines of two parts with an arrow between them", "Write a tab instead of the arrow"),
    (_are_square_trees, "trees in square brackets", "Write ( and ) instead of [ and ]"),
)


def _in_turn(sample: Sample) -> DetectedFormat | None:
    """The error for texts that have their label in a line of its own below them."""
    lines = [line.strip() for line in sample.filled]
    for n in (2, 3):
        texts, labels = lines[::n], lines[n - 1 :: n]
        if len(labels) < 10 or (len(lines) % n and sample.whole):
            continue
        few = 2 <= len(set(labels)) <= min(20, 0.2 * len(labels)) and mean_words(labels) < 2
        if few and set(labels).isdisjoint(texts) and len(set(texts)) > 0.5 * len(texts) and is_wordy(texts):
            kind = f"texts with a label, such as {labels[0]!r}, in each {'second' if n == 2 else 'third'} line"
            return _refuse(sample, kind, "Write label<TAB>text in each line")
    return None


def _keyed(sample: Sample) -> DetectedFormat | None:
    """The error for records that are blocks of lines with the same keys: ``text: …``, ``label: …``."""
    groups = groupby(sample.lines, key=lambda line: bool(line.strip()))
    blocks = [[_KEY.fullmatch(line) for line in block] for is_filled, block in groups if is_filled]
    keys = Counter(tuple(match[1] if match else "" for match in block) for block in blocks)
    if not keys:
        return None
    most, n = keys.most_common(1)[0]
    if len(set(most)) < max(2, len(most)) or "" in most or n < max(3, 0.8 * len(blocks)):
        return None
    shown = " and ".join(f"'{key}:'" for key in most[:3])
    return _refuse(sample, f"records of several lines with the keys {shown}", "Write each record as a JSON object")
