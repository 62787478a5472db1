"""Conversations as lines of text: turn by turn, with or without speakers, or one dialogue per line.

turns     one turn in each line, a blank line between dialogues; ``speaker<TAB>turn`` in all lines of a dialogue or none
spoken    ``speaker: turn``; a line without a speaker continues the turn before it
whatsapp  ``12/03/24, 09:00 - speaker: turn``, as WhatsApp exports a chat; each day is a dialogue
irc       ``[10:07] <speaker> turn``, as programs for IRC log a channel; other lines, such as who joins, are not turns
eou       one dialogue in each line, with ``__eou__`` after each turn, as in DailyDialog

Each dialogue is a record with a list of turns and, if they are known, the list of their speakers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.readers.delimited import EMPTY, Row

END_OF_UTTERANCE = "__eou__"
_SAMPLE = 500
"""Number of lines that are examined."""
_SPEAKER_WORDS = 3
"""Maximum number of words of a speaker's name."""
_ROLES = frozenset((
    "a", "b", "q", "me", "you", "user", "assistant", "human", "bot", "gpt", "system", "agent", "customer", "client",
    "operator", "caller", "doctor", "patient", "teacher", "student", "interviewer", "interviewee", "host", "guest",
))  # fmt: skip
"""Names of speakers that are written in lower case. Other names begin with a capital."""
_SPOKEN = re.compile(r"\s*([^\t:：]{1,40})[:：](?!//)\s*(.*)")
"""A turn after the name of its speaker and a colon."""
_STAMP = re.compile(
    r"[\u200e\u200f]?\[?(?P<day>\d{1,4}[./-]\d{1,2}[./-]\d{1,4}),?\s+\d{1,2}[:.]\d{2}([:.]\d{2})?"
    r"(\s?[AaPp]\.?\s?[Mm]\.?)?(\]|\s+[-–])\s*(?P<message>.*)"
)
"""The time before a message of WhatsApp, on Android or iOS."""
_IRC = re.compile(r"(?:\S+\s+)?\[?\d{1,2}:\d{2}(?::\d{2})?\]?\s+<[ @+%&~]?([^<>\s]+)>\s+(.*)")


def find_kind(lines: Sequence[str]) -> str | None:
    """The kind of a file of conversations, from its first lines, or None if they may be any text."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return None
    if sum(END_OF_UTTERANCE in line for line in filled) > 0.5 * len(filled):
        return "eou"
    stamped = [match["message"] for line in filled if (match := _STAMP.fullmatch(line))]
    if _STAMP.fullmatch(filled[0]) and len(stamped) > 0.3 * len(filled):
        return "whatsapp" if sum(_SPOKEN.fullmatch(text) is not None for text in stamped) > 0.5 * len(stamped) else None
    if sum(_IRC.fullmatch(line) is not None for line in filled) > 0.5 * len(filled):
        return "irc"
    return "spoken" if _are_spoken(filled) else None


def _are_spoken(filled: Sequence[str]) -> bool:
    """Whether nearly all lines are turns after a speaker and a colon, with few speakers that take turns."""
    found = [match[1].strip() for line in filled if (match := _SPOKEN.fullmatch(line))]
    if len(found) < 4 or len(found) < 0.9 * len(filled) or not all(map(may_be_speaker, found)):
        return False
    if not any(name[0].isupper() or not name[0].isascii() or name.casefold() in _ROLES for name in found):
        return False  # labels and keys, such as spam: and text:
    apart = sum(re.match(r"[^:：]*(:\s|:$|：)", line) is not None for line in filled)
    if apart < 0.5 * len(filled):  # DESC:manner is one word
        return False
    changes = sum(a != b for a, b in pairwise(found))
    return 2 <= len(set(found)) <= max(2, len(found) // 4) and changes >= 0.3 * len(found)


def may_be_speaker(name: str) -> bool:
    """Whether a text may be the name of a speaker: short, with a letter, and not a sentence."""
    is_short = len(name.split()) <= _SPEAKER_WORDS and not name.endswith((".", "?", "!", "？", "！", "。"))
    return is_short and any(map(str.isalpha, name))


def are_numbered_turns(lines: Sequence[str]) -> bool:
    """Whether lines begin with 1, 2, …, starting again with 1 at each dialogue, as in ParlAI and bAbI."""
    found = [re.match(r"(\d+) \S", line) for line in lines]
    numbers = [int(match[1]) for match in found if match]
    follows = all(b in (a + 1, 1) for a, b in pairwise(numbers))
    return len(numbers) == len(lines) > 3 and numbers[0] == 1 and numbers.count(1) > 1 and follows


def read(path: Path, kind: str | None = None, encoding: str | None = None) -> Iterator[Row]:
    """A row for each dialogue, with its turns and speakers.

    Args:
        path: the file.
        kind: one of the kinds above. Detected if omitted; turns if no other fits.
        encoding: UTF-8 if omitted.
    """
    if kind is None:
        with open_text(path, encoding, keep_nuls=True) as lines:
            kind = find_kind([line for _, line in islice(lines, _SAMPLE)]) or "turns"
    with open_text(path, encoding, keep_nuls=True) as lines:
        for block in _blocks(lines, kind):
            location = SourceLocation(str(path), block[0][0])
            raw = "\n".join(line for _, line in block)
            if "\0" in raw:
                yield Row(location, {}, raw, "with a NUL byte", damaged=True)
                continue
            turns, speakers, problem = _parse(block, kind)
            if not problem and not any(turn.strip() for turn in turns):
                problem = EMPTY
            yield Row(
                location, {"turns": turns, "speakers": speakers}, raw, problem, damaged=problem not in (None, EMPTY)
            )


_Block = list[tuple[int, str]]
_Parsed = tuple[list[str], list[str], str | None]


def _blocks(lines: Iterable[tuple[int, str]], kind: str) -> Iterator[_Block]:
    """The lines of each dialogue."""
    block: _Block = []
    day = None
    for number, line in lines:
        stamped = _STAMP.fullmatch(line) if kind == "whatsapp" else None
        if block and stamped is not None and stamped["day"] != day:
            yield block
            block = []
        day = stamped["day"] if stamped is not None else day
        if line.strip():
            block.append((number, line))
        if block and (kind == "eou" or (not line.strip() and kind != "whatsapp")):
            yield block
            block = []
    if block:
        yield block


def _parse(block: _Block, kind: str) -> _Parsed:
    """The turns and speakers of a dialogue, and the problem of its form, if any."""
    if kind == "eou":
        parts = (" ".join(part.split()) for part in block[0][1].split(END_OF_UTTERANCE))
        return [part for part in parts if part], [], None
    if kind == "whatsapp":
        return _parse_whatsapp(block)
    if kind == "irc":
        said = [match for _, line in block if (match := _IRC.fullmatch(line))]
        return [" ".join(one[2].split()) for one in said], [one[1] for one in said], None
    return _parse_spoken(block) if kind == "spoken" else _parse_turns(block)


def _parse_spoken(block: _Block) -> _Parsed:
    turns, speakers = list[str](), list[str]()
    for _, line in block:
        match = _SPOKEN.fullmatch(line)
        if match is not None or not turns:
            speakers.append(match[1].strip() if match else "")
            turns.append(match[2] if match else line)
        else:
            turns[-1] += f" {line}"
    return [" ".join(turn.split()) for turn in turns], speakers, None


def _parse_whatsapp(block: _Block) -> _Parsed:
    """The messages of speakers. Notices of WhatsApp have a time and no speaker."""
    turns, speakers = list[str](), list[str]()
    in_message = False
    for _, line in block:
        stamped = _STAMP.fullmatch(line)
        said = _SPOKEN.fullmatch(stamped["message"]) if stamped else None
        if said is not None:
            speakers.append(said[1].strip())
            turns.append(said[2])
        elif not stamped and in_message:
            turns[-1] += f" {line}"
        in_message = said is not None or (in_message and not stamped)
    return [" ".join(turn.split()) for turn in turns], speakers, None


def _parse_turns(block: _Block) -> _Parsed:
    tabs = {line.count("\t") for _, line in block}
    if len(tabs) > 1 or max(tabs) > 1:
        return [], [], "with speaker<TAB>turn in some lines only"
    turns = [" ".join(line.split("\t")[-1].split()) for _, line in block]
    return turns, [line.split("\t")[0].strip() for _, line in block] if tabs == {1} else [], None
