"""Rules of format detection that look at lines: trees, sentences of tokens, lines with a label, plain text.

Each rule examines a sample and returns what it found, or None. A format keeps its name if a few lines do not fit: they
are dropped and listed when the file is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from catena.data.readers import dialogue_lines
from catena.data.readers.line_records import PREFIX
from catena.data.readers.sample import DetectedFormat, Sample, list_names, unknown
from catena.data.roles import TAG_COLUMNS, WORD_COLUMNS, ColumnChoice
from catena.data.schemes import describe_scheme
from catena.data.values import is_quantity, is_wordy

_CONLLU_ID = re.compile(r"[0-9]+([-.][0-9]+)?")
_NODE = re.compile(r"\([^\s()]+[ \t]+[^\s()]+\)")
_CAPITAL_TAG = re.compile(r"[A-Z0-9$#.,:;!?'`\"()|_*+/-]+")
_SLASHED = re.compile(r"\S*/([A-Za-z][A-Za-z0-9$*+-]*|[^\sA-Za-z0-9]{1,2})")
_UNDERSCORED = re.compile(r"\S+_([A-Z][A-Z0-9$-]*|[^\sA-Za-z0-9_]{1,2})")
_SPARSE = re.compile(r"\S+(\s+\d+:[-+.\deE]+)+\s*")
COLUMN_ENDINGS = (".conll", ".conll2003", ".conll2000", ".iob", ".iob2", ".bio", ".bioes", ".bilou", ".ner", ".pos")


# --- trees and sentences ----------------------------------------------------------------------------------------------


def conllu_rule(sample: Sample) -> DetectedFormat | None:
    """CoNLL-U: rows of ten fields that begin with the number of a word, and heads for parsing."""
    lines = [line for line in sample.filled if not line.startswith("#")]
    named = sample.is_named(".conllu", ".conll", ".conllx")
    for separator in ("\t", None) if named else ("\t",):
        rows = [line.split(separator) for line in lines]
        good = [row for row in rows if len(row) == 10 and _CONLLU_ID.fullmatch(row[0])]
        if rows and len(good) >= 0.9 * len(rows):
            how = "tab-separated fields" if separator else "fields separated by blanks instead of tabs"
            why = f"CoNLL-U: {_all_or(len(good), len(rows))} rows have ten {how}, the first of them a word number"
            if all(row[6] in ("_", "-") for row in good):
                return DetectedFormat("conllu", f"{why}; the words have tags and no heads", task="tag")
            return DetectedFormat("conllu", why, task="parse")
    if sample.is_named(".conllu"):
        return unknown(
            f"{sample.path} is named .conllu, and its rows do not have ten tab-separated fields. Rename it, or correct "
            f"it: see https://universaldependencies.org/format.html."
        )
    return None


def _all_or(n: int, total: int) -> str:
    return f"all {total:,}" if n == total else f"{n:,} of {total:,}"


def brackets_rule(sample: Sample) -> DetectedFormat | None:
    """Trees in brackets, even if a bracket is missing. Numbers as labels are classes, as in SST."""
    lines = [line for line in sample.filled if not line.startswith(("%", "#", ";", "*x*"))]
    if not lines or not lines[0].lstrip().startswith("("):
        return None
    depth, nodes, unbalanced = 0, 0, False
    labels: Counter[str] = Counter()
    for line in lines:
        for part in re.findall(r"[()]|[^()]+", line):
            if part in "()":
                depth += 1 if part == "(" else -1
            elif depth == 0 and part.strip():
                return None
            if depth < 0:
                depth, unbalanced = 0, True
        nodes += len(_NODE.findall(line))
        labels.update(re.findall(r"\(\s*([^\s()]+)", line))
    unbalanced |= depth != 0 and sample.whole
    opening = sum(line.lstrip().startswith("(") for line in lines)
    if not nodes or (unbalanced and (nodes < len(lines) or opening < 0.9 * len(lines))):
        return None
    why = f"trees in brackets, with {nodes:,} nodes (TAG word) in the sample"
    why += ", which are not balanced" if unbalanced else ""
    if all(label.isdecimal() for label in labels):
        why += f"; the labels are the classes {list_names(sorted(labels))} ('catena train parse' learns trees instead)"
        return DetectedFormat("brackets", why, task="classify")
    return DetectedFormat("brackets", why, task="parse")


def columns_rule(sample: Sample) -> DetectedFormat | None:
    """Column CoNLL: a word and its tags in each line, with blank lines between sentences."""
    named = sample.is_named(*COLUMN_ENDINGS)
    rows, separator = _column_rows(sample)
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    good = [row for row in rows if len(row) == width]
    if width < 2 or not sample.most(len(good), rows):
        return _not_columns(sample, rows) if named else None
    good = good[1:] if is_column_header(good[0]) and len(good) > 1 else good
    word = int(are_numbered([[column_fields(line, separator) for line in block] for block in _blocks(sample.lines)]))
    spaced = sum(" " in row[word].strip() for row in good)
    tags = Counter(row[-1] for row in good)
    scheme = describe_scheme(tags)
    breaks = _inner_breaks(sample.lines)
    first = describe_scheme(row[0] for row in good) if scheme is None and len({row[0] for row in good}) > 1 else None
    heads = _head_column([[column_fields(line, separator) for line in block] for block in _blocks(sample.lines)], width)
    if not named and not (breaks and first) and not _look_like_tags(tags, len(good), scheme, breaks, spaced):
        return None
    if heads is not None:
        tagged = next((j for j in _tag_columns(good, word) if j != heads), heads - 1)
        why = (
            f"{sample.path} has the heads of words in column {heads}, so that its sentences are dependency trees, and "
        )
        why += (
            "not the ten columns of CoNLL-U. To learn trees, convert it to CoNLL-U; to learn tags, use 'catena train "
        )
        return DetectedFormat("columns", f"{why}tag {sample.path} --tags-column {tagged}'.", {"separator": separator})
    if first is not None:
        why = f"{sample.path} has {first} tags in its first column and words in its last. Pass --text-column "
        return DetectedFormat("columns", f"{why}{width - 1} --tags-column 0.", {"separator": separator})
    if (other := _other_tags(good, word, tags, scheme)) is not None:
        column, why = other
        columns = {"tag": ColumnChoice((str(column),))}
        return DetectedFormat("columns", f"{sample.path} has {why}", {"separator": separator}, columns=columns)
    kind = f"{scheme} tags" if scheme else f"{len(tags)} different tags"
    parted = ", and blank lines separate the sentences" if breaks else ""
    numbers = "the first has the number of the word and " if word else ""
    why = "a word and its tag in each line: every row has "
    why += f"{width} {separator}-separated fields, {numbers}the last has {kind}"
    return DetectedFormat("columns", why + parted, {"separator": separator}, task="tag")


def are_numbered(sentences: Sequence[Sequence[Sequence[str]]]) -> bool:
    """Whether the first fields of the rows of sentences count from 0 or 1, and another field follows."""
    if not sentences or max(map(len, sentences)) < 2 or any(len(row) < 2 for rows in sentences for row in rows):
        return False
    start = sentences[0][0][0]
    if start not in ("0", "1"):
        return False
    good = sum(all(row[0] == str(int(start) + i) for i, row in enumerate(rows)) for rows in sentences)
    return good >= 0.9 * len(sentences)


def _head_column(blocks: Sequence[Sequence[Sequence[str]]], width: int) -> int | None:
    """The column with the numbers of the heads of words, where 0 is the root; None if there is none."""
    full = [block for block in blocks if len(block) > 1 and all(len(row) == width for row in block)]
    for j in range(1, width) if len(full) > 1 else ():
        numbers = [[int(row[j]) for row in block if row[j].isdecimal()] for block in full]
        long = [own for own, block in zip(numbers, full, strict=True) if len(block) > 3 and 2 * len(own) > len(block)]
        trees = sum(0 in own and max(own) > 1 and own != list(range(len(own))) for own in long)
        if trees > 1 and trees >= 0.9 * sum(len(block) > 3 for block in full):
            return j
    return None


def begin_with_comments(blocks: Sequence[Sequence[str]]) -> bool:
    """Whether the first line of every block of lines is a comment, such as ``# id 7``, even if it looks like a row."""
    return len(blocks) > 1 and all(len(block) > 1 and re.match(r"# \S", block[0]) for block in blocks)


def _tag_columns(rows: Sequence[Sequence[str]], word: int) -> list[int]:
    """The columns between the words and the last column that look like tags."""
    found = []
    for j in range(word + 1, len(rows[0]) - 1):
        tags = {row[j] for row in rows}
        is_scheme = describe_scheme(tags) is not None
        if len(tags) > 1 and (is_scheme or all(_CAPITAL_TAG.fullmatch(tag) and not tag.isdecimal() for tag in tags)):
            found.append(j)
    return found


def _other_tags(
    rows: Sequence[Sequence[str]], word: int, tags: Counter[str], scheme: str | None
) -> tuple[int, str] | None:
    """A column of tags before a last one that has lemmas or one constant, and what is in the columns, or None."""
    others = _tag_columns(rows, word)
    if others and len(tags) == 1:
        why = f"the same tag, {next(iter(tags))!r}, in the last column of every row, and tags in column {others[0]}."
        return others[0], f"{why} Pass --tags-column {others[0]}."
    if others and scheme is None and _are_lemmas(rows, word):
        why = f"lemmas in the last column and tags in column {others[0]}. Pass --tags-column {others[0]} to learn the "
        return others[0], f"{why}tags, or --tags-column {len(rows[0]) - 1} to learn the lemmas."
    return None


def _are_lemmas(rows: Sequence[Sequence[str]], word: int) -> bool:
    """Whether the last column has lemmas: many of them are the word, and most begin like it."""
    pairs = [(row[word].casefold(), row[-1].casefold()) for row in rows if row[word][:1].isalpha()]
    same, near = sum(a == b for a, b in pairs), sum(a[:2] == b[:2] for a, b in pairs)
    return len(pairs) > 4 and same >= 0.3 * len(pairs) and near >= 0.6 * len(pairs)


def is_column_header(row: Sequence[str]) -> bool:
    """Whether a row has the names of the columns of words and tags."""
    return len(row) > 1 and row[0].lower() in WORD_COLUMNS and row[-1].lower() in TAG_COLUMNS


def has_tagged_words(sample: Sample, delimiter: str = "\t") -> bool:
    """Whether the rows of a table are words with their tags, with blank lines between sentences.

    The tags mark spans, or they repeat and differ within sentences, unlike the labels of groups of words.
    """
    blocks = [[line.split(delimiter) for line in block] for block in _blocks(sample.lines)]
    split = [row for block in blocks for row in block]
    rows = [row for row in split if len(row) > 1]
    rows = rows[1:] if rows and is_column_header(rows[0]) else rows
    tags = Counter(row[-1].strip() for row in rows)
    if len(blocks) < 2 or not rows or not sample.most(len(rows), split):
        return False
    if len(rows[0]) > 2 and are_numbered(blocks):
        return True
    if len(tags) < 2:
        return False
    if describe_scheme(tags) is not None or describe_scheme(row[0].strip() for row in rows) is not None:
        return True
    single = all(" " not in row[0].strip() and " " not in row[-1].strip() for row in rows)
    mixed = sum(len({row[-1] for row in block}) > 1 for block in blocks)
    return single and len(tags) <= 0.1 * len(rows) and mixed > 0.5 * len(blocks) > 2


def _blocks(lines: Sequence[str]) -> list[list[str]]:
    """The lines between blank lines, without comments."""
    groups = groupby(lines, key=lambda line: bool(line.strip()))
    found = [[line for line in group if not line.startswith(("#", "-DOCSTART-"))] for filled, group in groups if filled]
    return [block for block in found if block]


def _not_columns(sample: Sample, rows: Sequence[Sequence[str]]) -> DetectedFormat:
    counts = Counter(map(len, rows))
    shown = " or ".join(str(n) for n, _ in counts.most_common(3))
    return unknown(
        f"{sample.path} must have a word and its tag in each line, as its name says, got lines with {shown} fields. "
        f"Give every line the same fields, or rename the file."
    )


def _look_like_tags(tags: Counter[str], n: int, scheme: str | None, breaks: int, spaced: int) -> bool:
    if spaced > 0.05 * n or any(" " in tag for tag in tags):
        return False
    if scheme and len(tags) > 1:
        return True
    are_capitals = all(_CAPITAL_TAG.fullmatch(tag) for tag in tags) and any(map(str.isalpha, "".join(tags)))
    return bool(breaks) and (len(tags) <= 0.5 * n or are_capitals)


def _inner_breaks(lines: Sequence[str]) -> int:
    """The number of lines that follow a blank line, without the first line."""
    is_filled = [bool(line.strip()) for line in lines]
    first = is_filled.index(True)
    return sum(now and not before for before, now in zip(is_filled[first:], is_filled[first + 1 :], strict=False))


def _column_rows(sample: Sample) -> tuple[list[list[str]], str]:
    """The rows of a column file, without ``-DOCSTART-`` and comments, and the separator."""
    lines = [line for line in sample.filled if not line.startswith("-DOCSTART-")]
    groups = groupby(sample.lines, key=lambda line: bool(line.strip()))
    if begin_with_comments([list(block) for filled, block in groups if filled]):
        lines = [line for line in lines if not line.startswith("# ")]
    plain = [line for line in lines if not line.startswith("#")]
    if not plain:
        return [], "blank"
    tabbed = sum("\t" in line.rstrip(" \t") for line in plain)
    separator = "tab" if sample.most(tabbed, plain) else "blank"
    width = Counter(len(column_fields(line, separator)) for line in plain).most_common(1)[0][0]
    rows = [(line, column_fields(line, separator)) for line in lines]
    return [row for line, row in rows if len(row) == width or not line.startswith("#")], separator


def column_fields(line: str, separator: str) -> list[str]:
    """The fields of a row, stripped of spaces and tabs but not of other white space."""
    if separator == "tab":
        return [part.strip(" ") for part in line.rstrip(" \t").split("\t")]
    return [part for part in line.replace("\t", " ").split(" ") if part]


def slash_rule(sample: Sample) -> DetectedFormat | None:
    """Sentences of word/TAG, as in the Brown corpus."""
    if not _is_tagged(sample.filled, _SLASHED):
        return None
    words = [word for line in sample.filled for word in line.split()]
    tags = {word.rpartition("/")[2] for word in words}
    if any(map(str.islower, tags)) and len(words) < 3 * len(sample.filled):
        return None  # paths of files
    why = f"sentences of word/TAG, with {len(tags)} different tags"
    return DetectedFormat("columns", why, {"separator": "slash"}, task="tag")


def _is_tagged(lines: Sequence[str], form: re.Pattern[str]) -> bool:
    """Whether almost all words have the form of a word and its tag, and the tags repeat."""
    words = [form.fullmatch(word) for line in lines for word in line.split()]
    tags = [match[1] for match in words if match]
    return len(words) >= 4 and len(tags) >= 0.95 * len(words) and len(set(tags)) <= 0.5 * len(words)


# --- lines with a label -----------------------------------------------------------------------------------------------


def fasttext_rule(sample: Sample) -> DetectedFormat | None:
    """fastText: lines that begin or end with ``__label__x``."""
    lines = sample.all_filled
    before = [line for line in lines if line.startswith(PREFIX)]
    after = [line for line in lines if line.split()[-1].startswith(PREFIX)]
    good, where = (before, "beginning") if len(before) >= len(after) else (after, "end")
    if not sample.most(len(good)):
        return None
    labels = {word.removeprefix(PREFIX) for line in good for word in line.split() if word.startswith(PREFIX)}
    why = f"labels after {PREFIX} at the {where} of each line, as in fastText ({_labels(labels)})"
    return DetectedFormat("fasttext", why, task="classify")


def _labels(labels: set[str]) -> str:
    return f"{len(labels)} label{'s' * (len(labels) != 1)}: {list_names(sorted(labels), 5)}"


_NUMERIC = re.compile(r"[-+]?[0-9]{1,3}")


def first_word_rule(sample: Sample) -> DetectedFormat | None:
    """A number as the label, a blank and a text in each line, as in the data of Kim (2014)."""
    lines = sample.all_filled
    first = [line.split(None, 1)[0] for line in lines]
    if dialogue_lines.are_numbered_turns(sample.filled) and any(line.startswith("3 ") for line in sample.filled):
        return unknown(
            f"{sample.path} has lines that are numbered in each dialogue or story, as in ParlAI and bAbI. Write each "
            f"turn in a line without a number, and a blank line after each dialogue, or pass --input-format text to "
            f"read each line as a text."
        )
    decimals = [word for word in first if re.fullmatch(r"[-+]?[0-9]+[.,][0-9]+", word)]
    if sample.most(len(decimals)) and is_quantity(decimals) and is_wordy(lines) and not _count_up(decimals):
        why = f"value = the number before each text, which has {len(set(decimals)):,} different values: a quantity"
        columns = {"text": ColumnChoice(("text",)), "value": ColumnChoice(("label",))}
        return DetectedFormat("first-word", why, {}, "regress", columns)
    good = [word for word in first if _NUMERIC.fullmatch(word)]
    labels = set(good)
    counts_up = len(lines) > 1 and good[:20] == [str(n + 1) for n in range(len(good[:20]))]
    has_letters = sum(any(map(str.isalpha, line)) for line in lines) >= 0.9 * len(lines)
    is_small = len(labels) <= max(2, 0.5 * len(lines))
    if not sample.most(len(good)) or counts_up or not has_letters or not is_small or not is_wordy(lines):
        return None
    if any(line[0].isspace() for line in lines):
        return None
    why = f"label = first word of each line ({_labels(labels)})"
    return DetectedFormat("first-word", why, {"numeric": True}, task="classify")


def _count_up(numbers: Sequence[str]) -> bool:
    """Whether numbers grow from line to line, as those of sections, versions or times do."""
    values = [float(number.replace(",", ".")) for number in numbers]
    return values == sorted(values)


_PHONEMES = re.compile(r"\S+( +|\t)[A-Z]{1,3}[0-2]?(\s+[A-Z]{1,3}[0-2]?)*(\s+#.*)?")
_MARKED = re.compile(r"\S+\(\d+\)\s|.*\s[A-Z]{1,2}[0-2](\s|$)")


def dictionary_rule(sample: Sample) -> DetectedFormat | None:
    """A word and its pronunciation in each line, as in CMUdict."""
    lines = [line for line in sample.all_filled if not line.startswith(";;;")]
    good = sum(_PHONEMES.fullmatch(line) is not None for line in lines)
    if lines and sample.most(good, lines) and any(_MARKED.match(line) for line in lines):
        why = "a pronouncing dictionary: a word and capital phonemes in each line, some with a stress or a variant"
        return DetectedFormat("dictionary", why, task="transduce")
    return None


_VECTOR = re.compile(r"\S.*?((?: -?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)+) ?")


def vectors_rule(sample: Sample) -> DetectedFormat | None:
    """Word vectors as text: a word and five or more numbers in each line, perhaps below their counts."""
    lines = sample.filled[1:] if re.fullmatch(r"\d+ \d+", sample.filled[0].strip()) else sample.filled
    sizes = [match[1].count(" ") for line in lines[:200] if (match := _VECTOR.fullmatch(line))]
    size = Counter(sizes).most_common(1)[0][0] if sizes else 0
    if len(lines) < 2 or size < 5 or not sample.most(len(sizes), lines[:200]):
        return None
    why = f"word vectors of about {size} dimensions. Use them as --vectors of a task, not as a text."
    return DetectedFormat("vectors", why)


# --- conversations ----------------------------------------------------------------------------------------------------

_CORNELL = "+++$+++"


def dialogue_rule(sample: Sample) -> DetectedFormat | None:
    """Conversations in lines of text."""
    if sum(_CORNELL in line for line in sample.filled) >= 0.9 * len(sample.filled):
        return unknown(
            f"{sample.path} has the lines of the Cornell Movie-Dialogs Corpus in no order of speech: the order is in "
            f"movie_conversations.txt. Write the turns of each conversation in one line each, with a blank line after "
            f"it, or as speaker<TAB>turn."
        )
    kind = dialogue_lines.find_kind(sample.lines)
    is_one = kind is not None and dialogue_lines.is_one_dialogue(sample.lines, kind)
    days = "one dialogue, because most days have one message" if is_one else "a dialogue for each day"
    said = {
        "eou": "a dialogue in each line, with __eou__ after each turn",
        "whatsapp": f"a chat that was exported from WhatsApp, {days}",
        "timed": "turns after the time and the speaker",
        "irc": "a log of a channel of IRC",
        "headed": "messages below the time and the speaker",
        "spoken": "turns after the name of the speaker and a colon",
    }
    if kind is None and dialogue_lines.are_tabbed(sample.lines):
        why = "turns after the name of the speaker and a tab, with blank lines between dialogues"
        return DetectedFormat("dialogue", why, {"kind": "turns"}, task="converse")
    if kind is None:
        return None
    return DetectedFormat("dialogue", said[kind], {"kind": kind}, task="converse")


# --- plain text -------------------------------------------------------------------------------------------------------


def text_rule(sample: Sample) -> DetectedFormat:
    """Plain text, or the reason why a file that fits no format is not text either."""
    lines = [line for line in sample.filled if not line.startswith("#")] or sample.filled
    numeric = sum(re.fullmatch(r"[-+0-9.,;\s]+", line) is not None for line in lines)
    if numeric >= 0.9 * len(lines):
        return unknown(f"{sample.path} has almost only numbers and no header. Set the format and the columns.")
    if sample.most(sum(_SPARSE.fullmatch(line) is not None for line in lines), lines):
        return unknown(f"{sample.path} has sparse features, as in LIBSVM, and no texts. Pass a file with texts.")
    if _is_tagged(lines, _UNDERSCORED):
        return unknown(
            f"{sample.path} has sentences of word_TAG. Write them as word/TAG, or pass --input-format text to read "
            f"each line as a text."
        )
    words = first_words(sample.all_filled)
    hint = ""
    if words and all(re.search(r"[^\W\d_]", word) and re.search(r"^[#@_]|\w[:#_=|]\w", word) for word in words):
        return unknown(
            f"{sample.path} has lines that begin with one of {len(words)} words like labels, {list_names(words, 4)}. "
            f"Pass --input-format first-word if they are labels, or --input-format text if they are a part of the text."
        )
    if words:
        hint = f"; if its first words ({list_names(words, 4)}) are labels, pass --input-format first-word"
    return DetectedFormat("text", f"plain text, one text in each line{hint}", task="lm")


def first_words(lines: Sequence[str]) -> list[str]:
    """The first words of lines if they repeat like labels, otherwise none."""
    if any(line[0].isspace() for line in lines) or not is_wordy(lines):
        return []
    words = Counter(line.split(None, 1)[0] for line in lines)
    once = sum(count == 1 for count in words.values())
    is_small = 2 <= len(words) <= (0.05 if len(lines) >= 100 else 0.25) * len(lines)
    is_named = all(re.search(r"\w", word) and word[-1] not in ".,;!?" for word in words)
    return sorted(words) if is_small and is_named and once <= 0.2 * len(words) else []
