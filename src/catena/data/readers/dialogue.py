"""Files of conversations: pairs, labeled pairs, tests with distractors, JSON lines, and dialogues turn by turn.

pairs        one context<TAB>response per line; a table whose header names a context and a response (question,
             answer); CSV with two columns; or two columns that the user names
labeled      a table with a header: context, utterance (or response), label 1 or 0; consecutive rows with the same
             context belong together
distractors  a table with a header: context, utterance, distractor_0, distractor_1, …
responses    JSON lines: context (question, prompt, …), and response, responses, answer, completion, …; optionally
             distractors, or random_negative_responses and adversarial_negative_responses (DailyDialog++)
turns        JSON lines: turns, messages, … (strings, or objects with text and speaker, content and role), optionally
             speakers
dialogue     one turn per line, a blank line between dialogues; speaker<TAB>turn or "speaker: turn" if speakers are
named

In tables, the turns of a context are separated by ``__eot__``, as in the Ubuntu corpus.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from catena.data.dialogue import Exchange, to_exchanges
from catena.data.examples import SourceLocation
from catena.data.files import bad_line, open_text, shorten
from catena.data.readers.delimited import records
from catena.data.readers.names import (
    CONTEXT_COLUMNS,
    CONTEXT_NAMES,
    RESPONSE_NAMES,
    SAID_NAMES,
    SPEAKER_NAMES,
    TURN_NAMES,
    PairColumns,
)
from catena.data.readers.objects import objects, parse_object
from catena.data.readers.paired import FOUND, csv_width, pair_layout, read_kind, recognize_pairs, tabs_are_quoted
from catena.data.readers.sample import Sample
from catena.errors import FormatError
from catena.registry import Registry

END_OF_TURN, END_OF_UTTERANCE = "__eot__", "__eou__"
_DISTRACTOR = re.compile(r"distractor[_ ]?(\d+)$")
_PAIR = "Write every line as context<TAB>response, without a tab in either."
_SPEAKER_WORDS = 3
"""Maximum number of words of a speaker's name."""
_SPOKEN = re.compile(r"\s*([^\t:：]{1,40})[:：](?!//)\s*(.*)")
"""A turn after the name of its speaker and a colon."""
_GOOD = ("positive_responses", "responses", *RESPONSE_NAMES)
_SAMPLE = 200
"""Number of lines that are examined."""
_Reader = Callable[[Path, str | None, PairColumns], Iterator[Exchange]]

READERS: Registry[_Reader] = Registry("format of conversations")


def split_turns(text: str) -> tuple[str, ...]:
    """The turns of a context in one line: the text between ``__eot__`` marks, without utterance marks."""
    parts = (part.replace(END_OF_UTTERANCE, " ") for part in text.split(END_OF_TURN))
    return tuple(" ".join(part.split()) for part in parts if part.strip())


def read(path: Path, format: str, encoding: str | None = None, columns: PairColumns = FOUND) -> Iterator[Exchange]:
    """Yield the exchanges of a file, including those with empty sides, which the caller may drop.

    Args:
        path: the file.
        format: a name in READERS.
        encoding: UTF-8 if omitted.
        columns: the columns of contexts and responses, if the user names them.
    """
    return READERS[format](path, encoding, columns)


# --- format detection -------------------------------------------------------------------------------------------------


def recognize(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> tuple[str, str]:
    """The format of a file of conversations, and the evidence."""
    if columns.named:
        return "pairs", "its columns are set"
    with open_text(path, encoding) as lines:
        sample = [line for _, line in islice(lines, _SAMPLE)]
    filled = [line for line in sample if line.strip()]
    if not filled:
        where = f" in its first {len(sample)} lines" if sample else ", because it is empty"
        raise FormatError(f"{path} has no text{where}. Pass a file of conversations.")
    first = filled[0].lstrip()
    if first.startswith("{"):
        thing = parse_object(first, SourceLocation(str(path), 1 + sample.index(filled[0])))
        turns = any(isinstance(thing.get(name), list) for name in TURN_NAMES)
        return ("turns", "its objects have turns") if turns else ("responses", "its objects have contexts")
    return (
        _by_header(first) or _by_tabs(path, sample, encoding) or _by_commas(path, encoding) or _by_turns(path, sample)
    )


def _by_header(first: str) -> tuple[str, str] | None:
    names = _names(first)
    if any(name in CONTEXT_NAMES for name in names) and any(_DISTRACTOR.match(name) for name in names):
        return "distractors", "its header has distractors"
    if "label" in names and any(name in CONTEXT_NAMES for name in names):
        return "labeled", "its header has a context and a label"
    return ("pairs", "its header has a context and a response") if _names_both(names) else None


def _by_tabs(path: Path, sample: list[str], encoding: str | None) -> tuple[str, str] | None:
    filled = [line for line in sample if line.strip()]
    if sum(line.count("\t") == 1 for line in filled) <= len(filled) / 2 or _names_speakers(filled, sample):
        return None
    odd = ((number, line) for number, line in enumerate(sample, start=1) if line.strip() and line.count("\t") != 1)
    found = next(odd, None)
    if found is not None and pair_layout(path, encoding) != "tsv":  # a quoted text of several lines
        raise bad_line(path, *found, f"{_fields(found[1])}, unlike most lines, which have 2", _PAIR)
    return "pairs", "every line has one tab"


def _by_commas(path: Path, encoding: str | None) -> tuple[str, str] | None:
    """The format by the CSV extension. Two columns are pairs; more columns must be named."""
    if not Sample(path).is_named(".csv") or (width := csv_width(path, encoding)) == 1:
        return None
    if width == 2 or recognize_pairs(path, encoding) is not None:
        return "pairs", "it is CSV with columns of pairs"
    with open_text(path, encoding) as lines:
        raise _unnamed(path, width, next(line for _, line in lines if line.strip()))


def _unnamed(path: Path, width: int, first: str) -> FormatError:
    return FormatError(
        f"{path} has {width} columns, and its first line, {shorten(first, 60)}, has no names such as question and "
        f"answer. Set --context-column and --response-column by name or by number, as in --context-column 1 "
        f"--response-column 2."
    )


def _by_turns(path: Path, sample: list[str]) -> tuple[str, str]:
    filled = [line for line in sample if line.strip()]
    widths = {line.count("\t") + 1 for line in filled}
    if len(filled) < len(sample) or "\t" not in filled[0]:
        behind = ", each after its speaker and a colon" if _are_spoken(filled) else ""
        return "dialogue", f"its lines are turns{behind}"
    if len(widths) == 1:
        raise _unnamed(path, max(widths), filled[0])
    raise FormatError(
        f"Cannot detect the format of the conversations in {path}: its first line is {filled[0].lstrip()[:80]!r}. Set "
        f"--data.format to one of {', '.join(READERS)}."
    )


def _names_both(names: list[str]) -> bool:
    """Whether a first line is the header of a table of contexts and responses."""
    return any(name in CONTEXT_NAMES for name in names) and any(name in RESPONSE_NAMES for name in names)


def _names_speakers(filled: list[str], sample: list[str]) -> bool:
    """Whether the texts before the tabs are names of speakers: short, not sentences, in a file with blank lines."""
    before = [line.split("\t")[0].strip() for line in filled if "\t" in line]
    return len(filled) < len(sample) and all(map(_may_be_a_name, before))


def _may_be_a_name(name: str) -> bool:
    """Whether a text may be the name of a speaker: short, and not a sentence."""
    return len(name.split()) <= _SPEAKER_WORDS and not name.endswith((".", "?", "!", "？", "！", "。"))


def _are_spoken(filled: list[str]) -> bool:
    """Whether every line is a turn after its speaker and a colon, with repeated speakers."""
    found = [match[1].strip() for line in filled if (match := _SPOKEN.fullmatch(line))]
    names = all(_may_be_a_name(name) and any(map(str.isalpha, name)) for name in found)
    return len(found) == len(filled) and names and len(set(found)) <= max(2, len(found) // 2)


def _fields(line: str) -> str:
    n = line.count("\t") + 1
    return f"has {n} tab-separated field{'s' if n > 1 else ''}"


def _names(line: str) -> list[str]:
    """The column names that a first line may have, in lower case."""
    return [name.strip().strip('"').lower() for name in line.split(_delimiter(line))]


def _delimiter(line: str) -> str:
    """The delimiter of the column names that a first line may have."""
    return "\t" if "\t" in line else max((",", ";"), key=line.count)


# --- tables -----------------------------------------------------------------------------------------------------------


@READERS.register("pairs")
def read_pairs(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> Iterator[Exchange]:
    """context<TAB>response, or a table or JSON lines whose columns are set or detected by name."""
    with open_text(path, encoding) as lines:
        first = next((line for _, line in lines if line.strip()), "")
    if not columns.named and _names_both(_names(first)):
        for place, row in _rows(path, encoding, ()):
            yield _exchange(row["context"], (row["response"],), place)
        return
    kind = pair_layout(path, encoding, columns)
    if columns.named or kind == "csv" or (kind == "tsv" and tabs_are_quoted(path, encoding)):
        for pair in read_kind(path, kind, columns, encoding=encoding)[1]:
            yield _exchange(pair.source, (pair.target,), pair.place)
        return
    with open_text(path, encoding) as lines:
        for number, line in lines:
            fields = line.split("\t") if line.strip() else ["", ""]
            if len(fields) != 2:
                raise bad_line(path, number, line, f"{_fields(line)} instead of 2", _PAIR)
            if number == 1 and fields[0].strip().lower() in CONTEXT_COLUMNS:
                continue
            yield _exchange(fields[0], (fields[1],), SourceLocation(str(path), number))


@READERS.register("labeled")
def read_labeled_pairs(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> Iterator[Exchange]:
    """Pairs with label 1 if the response is correct and 0 if it is not.

    Consecutive rows with the same context become one exchange, so that a correct response comes with its wrong ones.
    """
    for context, rows in groupby(_rows(path, encoding, ("label",)), key=lambda placed: placed[1]["context"]):
        own = [(place, _right(row, place), row["response"]) for place, row in rows]
        good, wrong = (tuple(text for _, right, text in own if right is side) for side in (True, False))
        yield _exchange(context, good, own[0][0], wrong)


def _right(row: dict[str, str], place: SourceLocation) -> bool:
    label = row["label"].strip()
    if label not in ("0", "1", "0.0", "1.0"):
        line, problem = "\t".join(row.values()), f"must have the label 1 or 0, got {label!r}"
        raise bad_line(place.file, place.line, line, problem, "Correct the label.")
    return label.startswith("1")


@READERS.register("distractors")
def read_distractors(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> Iterator[Exchange]:
    """A context, its correct response, and wrong responses."""
    for place, row in _rows(path, encoding, ()):
        numbered = sorted((int(found[1]), name) for name in row if (found := _DISTRACTOR.match(name)))
        if not numbered:
            raise FormatError(f"{path} has no column distractor_0, only {', '.join(row)}. Rename the column.")
        yield _exchange(row["context"], (row["response"],), place, tuple(row[name] for _, name in numbered))


def _rows(path: Path, encoding: str | None, needed: tuple[str, ...]) -> Iterator[tuple[SourceLocation, dict[str, str]]]:
    """The records of a table as dicts by column, with normalized names for context and response."""
    with open_text(path, encoding) as lines:
        delimiter = _delimiter(next((line for _, line in lines if line.strip()), ""))
    names: list[str] | None = None
    quoted = delimiter != "\t" or tabs_are_quoted(path, encoding)
    for place, fields in records(path, delimiter, quoted, encoding):
        if not any(field.strip() for field in fields):
            continue
        if names is None:
            names = _header(path, fields, needed)
        elif len(fields) != len(names):
            problem = f"must have {len(names)} fields as in the header, got {len(fields)}"
            raise bad_line(
                path, place.line, delimiter.join(fields), problem, f"Fill in the columns {', '.join(names)}."
            )
        else:
            yield place, dict(zip(names, fields, strict=True))


def _header(path: Path, fields: list[str], needed: tuple[str, ...]) -> list[str]:
    names = [field.strip().lower() for field in fields]
    for standard, known in (("context", CONTEXT_NAMES), ("response", RESPONSE_NAMES)):
        at = next((names.index(name) for name in known if name in names), None)
        if at is None:
            raise FormatError(
                f"{path} has no column for the {standard}, only {', '.join(map(repr, fields))}. Name one of them "
                f"{' or '.join(known)}."
            )
        names[at] = standard
    for name in needed:
        if name not in names:
            raise FormatError(f"{path} has no column {name!r}, only {', '.join(map(repr, fields))}. Rename the column.")
    return names


def _exchange(context: str, responses: tuple[str, ...], place: SourceLocation, wrong: tuple[str, ...] = ()) -> Exchange:
    return Exchange(split_turns(context), tuple(map(_whole, responses)), place, wrong=tuple(map(_whole, wrong)))


def _whole(response: str) -> str:
    """A response in one line, without the marks that end utterances and turns."""
    return " ".join(split_turns(response))


# --- JSON lines -------------------------------------------------------------------------------------------------------


@READERS.register("responses")
def read_responses(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> Iterator[Exchange]:
    """One object per line: a context, as a list of turns or one string, and its responses."""
    for place, thing in objects(path, encoding):
        context = next((thing[key] for key in CONTEXT_NAMES if key in thing), None)
        if "instruction" in thing and isinstance(context, str) and isinstance(thing.get("input"), str):
            context = f"{context} {thing['input']}"  # the instruction and its input
        if isinstance(context, str):
            context = list(split_turns(context))
        good = next((thing[key] for key in _GOOD if key in thing), None)
        if context is None or good is None:
            has = ", ".join(map(repr, list(thing)[:8])) or "none"
            raise FormatError(
                f"{place} must have the keys context and response (or responses), got {has}. Set other keys by "
                f"--context-column and --response-column."
            )
        yield Exchange(
            _texts(context, "context", place),
            _texts([good] if isinstance(good, str) else good, "responses", place),
            place,
            wrong=_texts(thing.get("distractors", thing.get("random_negative_responses", [])), "distractors", place),
            hard=_texts(thing.get("adversarial_negative_responses", []), "adversarial_negative_responses", place),
        )


@READERS.register("turns")
def read_turns(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> Iterator[Exchange]:
    """One dialogue per line, as a list of its turns."""
    for place, thing in objects(path, encoding):
        turns = next((thing[name] for name in TURN_NAMES if isinstance(thing.get(name), list)), None)
        speakers = thing.get("speakers", [])
        if turns is None:
            raise FormatError(
                f"{place} must have a list 'turns', got {', '.join(map(repr, list(thing)[:8]))}. Rename the key."
            )
        if turns and all(isinstance(turn, dict) for turn in turns):
            speakers = [_first(turn, SPEAKER_NAMES) or "" for turn in turns]
            speakers = speakers if all(speakers) else []
            turns = [_first(turn, SAID_NAMES) for turn in turns]
        if speakers and len(speakers) != len(turns):
            raise FormatError(
                f"{place} must have one speaker for each of {len(turns)} turns, got {len(speakers)}. Correct them."
            )
        texts = _texts(turns, "turns", place)
        yield from to_exchanges(texts, [str(speaker) for speaker in speakers], place)


def _first(turn: dict[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of some keys that is present, or None."""
    return next((turn[name] for name in names if name in turn), None)


def _texts(values: Any, name: str, place: SourceLocation) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise FormatError(
            f"{place} must have a list of strings as {name!r}, got {str(values)[:80]}. Correct the value."
        )
    return tuple(" ".join(_written(value).split()) for value in values)


def _written(text: str) -> str:
    """The text with lone surrogates, which JSON allows but UTF-8 does not, as replacement characters."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


# --- plain dialogues --------------------------------------------------------------------------------------------------


@READERS.register("dialogue")
def read_dialogue(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> Iterator[Exchange]:
    """One turn per line, a blank line after each dialogue; speaker<TAB>turn on all lines of a dialogue or on none.

    If the lines of a file begin with "speaker:", a line without a speaker continues the previous turn.
    """
    with open_text(path, encoding) as lines:
        spoken = _are_spoken([line for _, line in islice(lines, _SAMPLE) if line.strip()])
    block: list[tuple[int, str]] = []
    with open_text(path, encoding) as lines:
        for number, line in lines:
            if line.strip():
                block.append((number, line))
            elif block:
                yield from _spoken(path, block) if spoken else _dialogue(path, block)
                block = []
    if block:
        yield from _spoken(path, block) if spoken else _dialogue(path, block)


def _spoken(path: Path, block: list[tuple[int, str]]) -> list[Exchange]:
    speakers: list[str] = []
    turns: list[str] = []
    for _, line in block:
        match = _SPOKEN.fullmatch(line)
        if match is not None or not turns:
            speakers.append(match[1].strip() if match else "")
            turns.append(match[2] if match else line)
        else:
            turns[-1] += f" {line}"
    return to_exchanges([" ".join(turn.split()) for turn in turns], speakers, SourceLocation(str(path), block[0][0]))


def _dialogue(path: Path, block: list[tuple[int, str]]) -> list[Exchange]:
    named = [line.count("\t") for _, line in block]
    if len(set(named)) > 1 or named[0] > 1:
        number, line = next((n, text) for n, text in block if text.count("\t") != named[0] or named[0] > 1)
        problem = f"must have as many tabs as the first turn of its dialogue, {named[0]}, got {line.count(chr(9))}"
        raise bad_line(path, number, line, problem, "Write speaker<TAB>turn on every line of a dialogue, or on none.")
    speakers = [line.split("\t")[0].strip() for _, line in block] if named[0] else []
    turns = [" ".join(line.split("\t")[-1].split()) for _, line in block]
    return to_exchanges(turns, speakers, SourceLocation(str(path), block[0][0]))
