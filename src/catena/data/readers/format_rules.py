"""Rules of format detection: each function examines a sample and returns the evidence for its format.

They are separate from the readers, so that a reader that fails can report which format the file looks like.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from catena.data.files import binary_kind, is_datasets_folder
from catena.data.readers.names import named_columns
from catena.data.readers.objects import is_object
from catena.data.readers.sample import FormatEvidence, Sample, list_names, take_sample
from catena.data.readers.table_signs import csv_sign, is_wordy, jsonl_sign, repeats, tsv_sign
from catena.errors import CatenaError

_BIO_TAG = re.compile(r"[BIESLUM]-\S+|O")

# --- binary files and folders -------------------------------------------------------------------------------


def datasets_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for a folder of Hugging Face datasets."""
    if sample.is_folder and is_datasets_folder(sample.path):
        return FormatEvidence(
            "the folder has state.json or dataset_dict.json, which save_to_disk of Hugging Face datasets writes"
        )
    return None


def parquet_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for Parquet or Arrow, from the first bytes."""
    if sample.head.startswith(b"PAR1"):
        return FormatEvidence("it begins with PAR1, the signature of Parquet")
    if sample.head.startswith(b"ARROW1"):
        return FormatEvidence("it begins with ARROW1, the signature of an Arrow file")
    if sample.head.startswith(b"\xff\xff\xff\xff") and b"\0" in sample.head[4:8]:
        return FormatEvidence("it begins like an Arrow stream")
    return None


def misfit(sample: Sample) -> str | None:
    """The reason why no format can fit, or None."""
    path = sample.path
    if sample.is_folder:
        return f"{path} is a folder without state.json or dataset_dict.json. Pass a file in it."
    if not sample.head:
        return f"{path} is empty. Pass a file with text."
    if (name := binary_kind(sample.head)) is not None:
        return f"{path} is {name}, not a text file. Pass a text file."
    if any("\0" in line for line in sample.lines):
        return f"{path} has NUL bytes: it is a binary file, or UTF-16 without a byte-order mark. Pass a text file."
    if not sample.filled:
        return f"{path} has only blank lines. Pass a file with text."
    if sample.filled[0].lstrip().lower().startswith(("<?xml", "<!doctype", "<html")):
        return f"{path} is XML or HTML. Extract the text first."
    return None


# --- trees and sentences ------------------------------------------------------------------------------------

_CONLLU_ID = re.compile(r"[0-9]+([-.][0-9]+)?")
_NODE = re.compile(r"\([^\s()]+[ \t]+[^\s()]+\)")
_CAPITAL_TAG = re.compile(r"[A-Z0-9$#.,:;!?'`\"()|_*+/-]+")


def conllu_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for CoNLL-U: rows of ten fields that begin with the number of a word."""
    rows = [line.split("\t") for line in sample.filled if not line.startswith("#")]
    good = [row for row in rows if len(row) == 10 and _CONLLU_ID.fullmatch(row[0])]
    if rows and len(good) >= 0.9 * len(rows):
        share = f"all {len(rows):,}" if len(good) == len(rows) else f"{len(good):,} of {len(rows):,}"
        return FormatEvidence(f"{share} rows have ten tab-separated fields, the first of them a word number")
    return None


def brackets_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for trees in brackets, even if a bracket is missing."""
    if not sample.filled[0].lstrip().startswith("("):
        return None
    depth, nodes, surplus = 0, 0, False
    for line in sample.filled:
        for part in re.findall(r"[()]|[^()]+", line):
            if part in "()":
                depth += 1 if part == "(" else -1
            elif depth == 0 and part.strip():
                return None
            if depth < 0:
                depth, surplus = 0, True
        nodes += len(_NODE.findall(line))
    if nodes and not surplus and (depth == 0 or not sample.whole):
        return FormatEvidence(f"it has balanced brackets, with {nodes:,} (TAG word) nodes in the sample")
    opening = sum(line.lstrip().startswith("(") for line in sample.filled)
    if nodes >= len(sample.filled) and opening >= 0.9 * len(sample.filled):
        return FormatEvidence(
            f"it has brackets, with {nodes:,} (TAG word) nodes in the sample, but they are not balanced"
        )
    return None


def columns_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for column CoNLL: a word and its tags on each line, with blank lines between sentences."""
    rows, separator = _column_rows(sample)
    width = len(rows[0]) if rows else 0
    if width < 2 or any(len(row) != width for row in rows) or len(named_columns(rows[0])) == 2:
        return None
    if separator == "tab" and any(" " in row[0].strip() for row in rows):
        return None
    tags = Counter(row[-1] for row in rows)
    is_bio = all(_BIO_TAG.fullmatch(tag) for tag in tags)
    is_tagged = is_bio or len(tags) <= 0.5 * len(rows) or all(_CAPITAL_TAG.fullmatch(tag) for tag in tags)
    breaks = _inner_breaks(sample.lines)
    if not is_tagged or not (breaks or (is_bio and len(tags) > 1)):
        return None
    kind = "BIO tags" if is_bio else f"{len(tags)} different tags"
    parted = ", and blank lines separate the sentences" if breaks else ""
    why = f"every row has {width} {separator}-separated fields and the last column has {kind}{parted}"
    return FormatEvidence(why, {"separator": separator})


def _inner_breaks(lines: Sequence[str]) -> int:
    """The number of lines that follow a blank line, without the first line."""
    is_filled = [bool(line.strip()) for line in lines]
    first = is_filled.index(True)
    return sum(now and not before for before, now in zip(is_filled[first:], is_filled[first + 1 :], strict=False))


def _column_rows(sample: Sample) -> tuple[list[list[str]], str]:
    """The rows of a column file, without ``-DOCSTART-`` and comments, and the separator."""
    lines = [line for line in sample.filled if not line.startswith("-DOCSTART-")]
    plain = [line for line in lines if not line.startswith("#")]
    if not plain:
        return [], "blank"
    separator = "tab" if all("\t" in line.rstrip(" \t") for line in plain) else "blank"
    width = len(column_fields(plain[0], separator))
    rows = [(line, column_fields(line, separator)) for line in lines]
    return [row for line, row in rows if len(row) == width or not line.startswith("#")], separator


def column_fields(line: str, separator: str) -> list[str]:
    """The fields of a row, stripped of spaces and tabs but not of other white space."""
    if separator == "tab":
        return [part.strip(" ") for part in line.rstrip(" \t").split("\t")]
    return [part for part in line.replace("\t", " ").split(" ") if part]


# --- lines with a label -------------------------------------------------------------------------------------


def fasttext_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for fastText: lines that begin with ``__label__``."""
    if all(line.startswith("__label__") for line in sample.all_filled):
        return FormatEvidence("every line begins with __label__, as in fastText")
    return None


def tsv_label_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for a label, a tab and a text on each line."""
    pairs = _pairs(sample)
    if not pairs:
        return None
    first, second = zip(*pairs, strict=True)
    what = "every line has two tab-separated fields, and the {} has {} different values in {:,} lines"
    if _is_label_column(first, second):
        return FormatEvidence(what.format("first", len(set(first)), len(pairs)))
    if _is_label_column(second, first):
        return FormatEvidence(what.format("second", len(set(second)), len(pairs)), {"label_first": False})
    return None


def parallel_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for two texts on each line, with a tab between them."""
    if not _pairs(sample):
        return None
    return FormatEvidence("every line has two tab-separated fields, and neither repeats like a label")


def _pairs(sample: Sample) -> list[tuple[str, str]]:
    rows = [line.split("\t") for line in sample.all_filled]
    return [(row[0], row[1]) for row in rows] if all(len(row) == 2 for row in rows) else []


def _is_label_column(labels: Sequence[str], texts: Sequence[str]) -> bool:
    if not all(label.strip() for label in labels) or len(set(labels)) > len(set(texts)):
        return False
    if len(labels) >= 20 or repeats(labels):
        return repeats(labels)
    # Too few lines to see labels repeat: a word before a text is treated as its label.
    return all(" " not in label.strip() for label in labels) and is_wordy(texts)


_PHONEMES = re.compile(r"\S+( +|\t)[A-Z]{1,3}[0-2]?(\s+[A-Z]{1,3}[0-2]?)*(\s+#.*)?")
_MARKED = re.compile(r"\S+\(\d+\)\s|.*\s[A-Z]{1,2}[0-2](\s|$)")


def dictionary_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for a word and its pronunciation on each line, as in CMUdict."""
    lines = [line for line in sample.all_filled if not line.startswith(";;;")]
    if lines and all(_PHONEMES.fullmatch(line) for line in lines) and any(_MARKED.match(line) for line in lines):
        return FormatEvidence(
            "every line is a word and uppercase phonemes, some of them with a stress or a variant number"
        )
    return None


def kim_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for a label, a blank and a text on each line, as in the data of Kim (2014)."""
    lines = sample.all_filled
    if any(line[0].isspace() for line in lines) or not is_wordy(lines):
        return None
    first = [line.split(" ", 1)[0] for line in lines]
    labels = Counter(first)
    if any("\t" in label for label in labels):
        return None
    sign = FormatEvidence(f"every line begins with one of {list_names(sorted(labels))}, followed by a text")
    if all(re.fullmatch(r"[-+]?[0-9]{1,3}", label) for label in labels):
        counts_up = len(lines) > 1 and first == [str(n + 1) for n in range(len(lines))]
        has_letters = sum(any(map(str.isalpha, line)) for line in lines) >= 0.9 * len(lines)
        return sign if has_letters and not counts_up and len(labels) <= max(2, 0.5 * len(lines)) else None
    once = sum(count == 1 for count in labels.values())
    is_small = 2 <= len(labels) <= (0.05 if len(lines) >= 100 else 0.25) * len(lines)
    is_named = all(re.search(r"\w", label) and label[-1] not in ":.,;!?" for label in labels)
    return sign if is_small and is_named and once <= 0.2 * len(labels) and not _are_words(lines) else None


def _are_words(lines: Sequence[str]) -> bool:
    """Whether the first words of lines are words of the texts, such as "the" and "a", rather than labels.

    Each of them must occur inside at least a fifth of the lines that begin with another.
    """
    parted = [
        (first, re.findall(r"\w+", rest)) for first, _, rest in (line.casefold().partition(" ") for line in lines)
    ]
    for label in {first for first, _ in parted}:
        others = [label in words for first, words in parted if first != label]
        if sum(others) < 0.2 * len(others):
            return False
    return True


# --- plain text, and nothing at all -------------------------------------------------------------------------


def text_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for plain text, if no other format fits."""
    lines = [line for line in sample.filled if not line.startswith("#")] or sample.filled
    tabbed = sum("\t" in line.strip() for line in lines)
    numeric = sum(re.fullmatch(r"[-+0-9.,;\s]+", line) is not None for line in lines)
    if _is_json_document(sample) or tabbed >= 0.8 * len(lines) or numeric >= 0.9 * len(lines):
        return None
    return FormatEvidence("it is text in lines and fits no other format")


def _is_json_document(sample: Sample) -> bool:
    first = sample.filled[0].lstrip()
    return re.match(r'[{\[]\s*(["{\[]|$)', first) is not None and '"' in "".join(sample.filled[:5])


def no_sign(sample: Sample) -> str:
    """The reason why a text file fits no format."""
    if (broken := _broken_object(sample)) is not None:
        return f"{sample.path}:{broken} is not a complete JSON object, unlike most lines. Correct or remove the line."
    if _is_json_document(sample):
        return (
            f"{sample.path} looks like one JSON document. Write one object per line instead, for example with "
            "jq -c '.[]'."
        )
    if any("\t" in line for line in sample.filled):
        return _ragged(sample)
    return f"{sample.path} has almost only numbers and no header. Set the format and the columns."


def _broken_object(sample: Sample) -> int | None:
    """The number of the first line that is not a JSON object, if most lines are objects."""
    broken = [n for n, line in enumerate(sample.lines, start=1) if line.strip() and not is_object(line)]
    return broken[0] if broken and 2 * len(broken) < len(sample.filled) else None


def _ragged(sample: Sample) -> str:
    """The line of a tab-separated table with an unusual number of fields, or all numbers of fields."""
    counts = Counter(line.count("\t") + 1 for line in sample.filled)
    usual, lines = counts.most_common(1)[0]
    if usual > 1 and len(sample.filled) > lines >= 0.8 * len(sample.filled):
        odd = next(n for n, line in enumerate(sample.lines, start=1) if line.strip() and line.count("\t") + 1 != usual)
        n = sample.lines[odd - 1].count("\t") + 1
        return (
            f"{sample.path}:{odd} must have {usual} tab-separated fields like {lines:,} of {len(sample.filled):,} "
            f"lines, got {n}. Correct it, or set the format, such as --format tsv-label, "
            "in which only the first tab is a separator."
        )
    widths = " or ".join(map(str, sorted(counts)[:4])) + (" or more" if len(counts) > 4 else "")
    return (
        f"{sample.path} has lines with {widths} tab-separated fields, and neither a header nor the values show which "
        f"is the text. Set the format, or the columns of pairs, as in --source-column 1 --target-column 2."
    )


# --- detection ----------------------------------------------------------------------------------------------

BINARY_SIGNS: dict[str, Callable[[Sample], FormatEvidence | None]] = {
    "datasets": datasets_sign,
    "parquet": parquet_sign,
}
TEXT_SIGNS: dict[str, Callable[[Sample], FormatEvidence | None]] = {
    "conllu": conllu_sign,
    "brackets": brackets_sign,
    "jsonl": jsonl_sign,
    "fasttext": fasttext_sign,
    "dictionary": dictionary_sign,
    "columns": columns_sign,
    "tsv": tsv_sign,
    "csv": csv_sign,
    "tsv-label": tsv_label_sign,
    "parallel": parallel_sign,
    "kim": kim_sign,
    "text": text_sign,
}
"""The rules in the order in which they are tried, the most certain first. All except the binary ones need a line that
is not blank."""


def first_sign(sample: Sample) -> tuple[str, FormatEvidence]:
    """The first format that fits a sample, or ``"unknown"`` with the reason."""
    for name, look in BINARY_SIGNS.items():
        if sign := look(sample):
            return name, sign
    if problem := misfit(sample):
        return "unknown", FormatEvidence(problem)
    for name, look in TEXT_SIGNS.items():
        if sign := look(sample):
            return name, sign
    return "unknown", FormatEvidence(no_sign(sample))


_COLUMNS = ("parallel", "csv", "tsv")
"""Formats with texts in columns: few different first words of lines are not evidence for labels there."""


def hint(path: Path | str, tried: str) -> str:
    """A sentence for the end of a reader's error with the format that the file seems to have, if it is another."""
    try:
        name, sign = first_sign(take_sample(path))
    except CatenaError:
        return ""
    if name in (tried, "text") or (name == "kim" and tried in _COLUMNS):
        return ""
    return (
        f"({sign.why})"
        if name == "unknown"
        else f"This looks like format {name!r}: {sign.why}. To train on it, pass --format {name}; "
        f"to predict or evaluate, pass --input-format {name}."
    )
