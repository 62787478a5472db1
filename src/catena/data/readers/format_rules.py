"""The signs by which a format is known: each function looks at a sample and says what speaks for its format.

They stand apart from the readers so that a reader that fails can say what the file looks like instead.
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
    """A folder that Hugging Face datasets wrote."""
    if sample.is_folder and is_datasets_folder(sample.path):
        return FormatEvidence(
            "the folder holds state.json or dataset_dict.json, as save_to_disk of Hugging Face datasets writes"
        )
    return None


def parquet_sign(sample: Sample) -> FormatEvidence | None:
    """A file of Parquet or Arrow, by the mark at its beginning."""
    if sample.head.startswith(b"PAR1"):
        return FormatEvidence("it begins with PAR1, the mark of Parquet")
    if sample.head.startswith(b"ARROW1"):
        return FormatEvidence("it begins with ARROW1, the mark of an Arrow file")
    if sample.head.startswith(b"\xff\xff\xff\xff") and b"\0" in sample.head[4:8]:
        return FormatEvidence("it begins as an Arrow stream does")
    return None


def misfit(sample: Sample) -> str | None:
    """Why no format at all can fit, if that is so."""
    path = sample.path
    if sample.is_folder:
        return f"{path} is a folder without state.json or dataset_dict.json: name a file in it"
    if not sample.head:
        return f"{path} is empty: there is nothing to recognize"
    if (name := binary_kind(sample.head)) is not None:
        return f"{path} is {name}, not a text"
    if any("\0" in line for line in sample.lines):
        return f"{path} holds NUL bytes: it is a binary file, or UTF-16 without a byte-order mark"
    if not sample.filled:
        return f"{path} holds nothing but blank lines: there is nothing to recognize"
    if sample.filled[0].lstrip().lower().startswith(("<?xml", "<!doctype", "<html")):
        return f"{path} is XML or HTML: take the text out of it first"
    return None


# --- trees and sentences ------------------------------------------------------------------------------------

_CONLLU_ID = re.compile(r"[0-9]+([-.][0-9]+)?")
_NODE = re.compile(r"\([^\s()]+[ \t]+[^\s()]+\)")
_CAPITAL_TAG = re.compile(r"[A-Z0-9$#.,:;!?'`\"()|_*+/-]+")


def conllu_sign(sample: Sample) -> FormatEvidence | None:
    """Rows of ten fields that begin with the number of a word."""
    rows = [line.split("\t") for line in sample.filled if not line.startswith("#")]
    good = [row for row in rows if len(row) == 10 and _CONLLU_ID.fullmatch(row[0])]
    if rows and len(good) >= 0.9 * len(rows):
        share = f"all {len(rows):,}" if len(good) == len(rows) else f"{len(good):,} of {len(rows):,}"
        return FormatEvidence(f"{share} rows have ten tab-separated fields of which the first is a word's number")
    return None


def brackets_sign(sample: Sample) -> FormatEvidence | None:
    """Trees in brackets, also where a bracket is missing."""
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
        return FormatEvidence(f"it is made of balanced brackets, with {nodes:,} (TAG word) nodes in the sample")
    opening = sum(line.lstrip().startswith("(") for line in sample.filled)
    if nodes >= len(sample.filled) and opening >= 0.9 * len(sample.filled):
        return FormatEvidence(
            f"it is made of brackets, with {nodes:,} (TAG word) nodes in the sample, though they do not balance"
        )
    return None


def columns_sign(sample: Sample) -> FormatEvidence | None:
    """A word and its tags on each line, sentences parted by blank ones."""
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
    parted = ", and blank lines part the sentences" if breaks else ""
    why = f"every row has {width} {separator}-separated fields and the last column holds {kind}{parted}"
    return FormatEvidence(why, {"separator": separator})


def _inner_breaks(lines: Sequence[str]) -> int:
    """How often a line follows a blank one, the first line aside."""
    is_filled = [bool(line.strip()) for line in lines]
    first = is_filled.index(True)
    return sum(now and not before for before, now in zip(is_filled[first:], is_filled[first + 1 :], strict=False))


def _column_rows(sample: Sample) -> tuple[list[list[str]], str]:
    """The rows of a column file, without ``-DOCSTART-`` and comments, and whether tabs or blanks part the fields."""
    lines = [line for line in sample.filled if not line.startswith("-DOCSTART-")]
    plain = [line for line in lines if not line.startswith("#")]
    if not plain:
        return [], "blank"
    separator = "tab" if all("\t" in line.rstrip(" \t") for line in plain) else "blank"
    width = len(column_fields(plain[0], separator))
    rows = [(line, column_fields(line, separator)) for line in lines]
    return [row for line, row in rows if len(row) == width or not line.startswith("#")], separator


def column_fields(line: str, separator: str) -> list[str]:
    """The fields of a row without the blanks around them. Blanks are the space and the tab, no other white space."""
    if separator == "tab":
        return [part.strip(" ") for part in line.rstrip(" \t").split("\t")]
    return [part for part in line.replace("\t", " ").split(" ") if part]


# --- lines with a label -------------------------------------------------------------------------------------


def fasttext_sign(sample: Sample) -> FormatEvidence | None:
    """Lines that begin with ``__label__``."""
    if all(line.startswith("__label__") for line in sample.all_filled):
        return FormatEvidence("every line begins with __label__, as fastText's do")
    return None


def tsv_label_sign(sample: Sample) -> FormatEvidence | None:
    """A label, a tab and a text on each line."""
    pairs = _pairs(sample)
    if not pairs:
        return None
    first, second = zip(*pairs, strict=True)
    what = "every line is two fields parted by a tab, and the {} has {} different values in {:,} lines"
    if _is_label_column(first, second):
        return FormatEvidence(what.format("first", len(set(first)), len(pairs)))
    if _is_label_column(second, first):
        return FormatEvidence(what.format("second", len(set(second)), len(pairs)), {"label_first": False})
    return None


def parallel_sign(sample: Sample) -> FormatEvidence | None:
    """Two texts on each line, with a tab between them."""
    if not _pairs(sample):
        return None
    return FormatEvidence("every line is two fields parted by a tab, and neither repeats as labels do")


def _pairs(sample: Sample) -> list[tuple[str, str]]:
    rows = [line.split("\t") for line in sample.all_filled]
    return [(row[0], row[1]) for row in rows] if all(len(row) == 2 for row in rows) else []


def _is_label_column(labels: Sequence[str], texts: Sequence[str]) -> bool:
    if not all(label.strip() for label in labels) or len(set(labels)) > len(set(texts)):
        return False
    if len(labels) >= 20 or repeats(labels):
        return repeats(labels)
    # Too few lines to see labels repeat: a word before a text is taken for its label.
    return all(" " not in label.strip() for label in labels) and is_wordy(texts)


_PHONEMES = re.compile(r"\S+( +|\t)[A-Z]{1,3}[0-2]?(\s+[A-Z]{1,3}[0-2]?)*(\s+#.*)?")
_MARKED = re.compile(r"\S+\(\d+\)\s|.*\s[A-Z]{1,2}[0-2](\s|$)")


def dictionary_sign(sample: Sample) -> FormatEvidence | None:
    """A word and its pronunciation on each line, as CMUdict writes them."""
    lines = [line for line in sample.all_filled if not line.startswith(";;;")]
    if lines and all(_PHONEMES.fullmatch(line) for line in lines) and any(_MARKED.match(line) for line in lines):
        return FormatEvidence(
            "every line is a word and phonemes in capitals, some of them with a stress or a variant's number"
        )
    return None


def kim_sign(sample: Sample) -> FormatEvidence | None:
    """A label, a blank and a text on each line, as the data of Kim (2014) has it."""
    lines = sample.all_filled
    if any(line[0].isspace() for line in lines) or not is_wordy(lines):
        return None
    first = [line.split(" ", 1)[0] for line in lines]
    labels = Counter(first)
    if any("\t" in label for label in labels):
        return None
    sign = FormatEvidence(f"every line begins with one of {list_names(sorted(labels))} and goes on with a text")
    if all(re.fullmatch(r"[-+]?[0-9]{1,3}", label) for label in labels):
        counts_up = len(lines) > 1 and first == [str(n + 1) for n in range(len(lines))]
        has_letters = sum(any(map(str.isalpha, line)) for line in lines) >= 0.9 * len(lines)
        return sign if has_letters and not counts_up and len(labels) <= max(2, 0.5 * len(lines)) else None
    once = sum(count == 1 for count in labels.values())
    is_small = 2 <= len(labels) <= (0.05 if len(lines) >= 100 else 0.25) * len(lines)
    is_named = all(re.search(r"\w", label) and label[-1] not in ":.,;!?" for label in labels)
    return sign if is_small and is_named and once <= 0.2 * len(labels) and not _are_words(lines) else None


def _are_words(lines: Sequence[str]) -> bool:
    """Whether what lines begin with are words of their texts, such as "the" and "a", rather than labels: each of them
    stands within a fifth of the lines that begin with another, at least."""
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
    """Plain lines, where nothing else speaks."""
    lines = [line for line in sample.filled if not line.startswith("#")] or sample.filled
    tabbed = sum("\t" in line.strip() for line in lines)
    numeric = sum(re.fullmatch(r"[-+0-9.,;\s]+", line) is not None for line in lines)
    if _is_json_document(sample) or tabbed >= 0.8 * len(lines) or numeric >= 0.9 * len(lines):
        return None
    return FormatEvidence("it is text in lines and shows the signs of no other format")


def _is_json_document(sample: Sample) -> bool:
    first = sample.filled[0].lstrip()
    return re.match(r'[{\[]\s*(["{\[]|$)', first) is not None and '"' in "".join(sample.filled[:5])


def no_sign(sample: Sample) -> str:
    """Why a text file fits no format."""
    if (broken := _broken_object(sample)) is not None:
        return f"{sample.path}:{broken} is not a whole JSON object, and most lines are: put it right, or leave it out"
    if _is_json_document(sample):
        return (
            f"{sample.path} looks like one JSON document, not one object in each line: write its items one to a line "
            "(jq -c '.[]' does it)"
        )
    if any("\t" in line for line in sample.filled):
        return _ragged(sample)
    return f"{sample.path} holds almost nothing but numbers, and no header: name the format and the columns"


def _broken_object(sample: Sample) -> int | None:
    """The number of the first line that is no JSON object, where most lines are one."""
    broken = [n for n, line in enumerate(sample.lines, start=1) if line.strip() and not is_object(line)]
    return broken[0] if broken and 2 * len(broken) < len(sample.filled) else None


def _ragged(sample: Sample) -> str:
    """Which line of a table with tabs has more or fewer fields than nearly all; how many there are, if none stands
    out."""
    counts = Counter(line.count("\t") + 1 for line in sample.filled)
    usual, lines = counts.most_common(1)[0]
    if usual > 1 and len(sample.filled) > lines >= 0.8 * len(sample.filled):
        odd = next(n for n, line in enumerate(sample.lines, start=1) if line.strip() and line.count("\t") + 1 != usual)
        n = sample.lines[odd - 1].count("\t") + 1
        return (
            f"{sample.path}:{odd} has {n} tab-separated field{'s' * (n != 1)} where {lines:,} of "
            f"{len(sample.filled):,} lines have {usual}: put it right, or name the format, such as --format tsv-label, "
            "in which the first tab ends the label and others belong to the text"
        )
    widths = " or ".join(map(str, sorted(counts)[:4])) + (" or more" if len(counts) > 4 else "")
    return (
        f"{sample.path} has lines of {widths} tab-separated fields, and neither a header nor the values show which is "
        "the text: name the format, or the columns of pairs, as in --source-column 1 --target-column 2"
    )


# --- all together -------------------------------------------------------------------------------------------

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
"""The signs in the order in which they are asked: the surest first. All but the binary ones need a line that
is not blank."""


def first_sign(sample: Sample) -> tuple[str, FormatEvidence]:
    """The first format that a sample shows, or ``"unknown"`` with a sentence that says why not."""
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
"""Where texts stand in columns: that few different words begin the lines of such a file is no sign of labels."""


def hint(path: Path | str, tried: str) -> str:
    """Words for the end of a reader's error: which format the file seems to be in, when it is another one."""
    try:
        name, sign = first_sign(take_sample(path))
    except CatenaError:
        return ""
    if name in (tried, "text") or (name == "kim" and tried in _COLUMNS):
        return ""
    return (
        f"({sign.why}.)"
        if name == "unknown"
        else f"This looks like format {name!r}: {sign.why}. Give --format {name} to train on it so, and --input-format "
        f"{name} to ask or score a model."
    )
