"""Conversations as lines of text: turn by turn, with or without speakers, or one dialogue per line.

turns     one turn in each line, a blank line between dialogues; ``speaker<TAB>turn`` in all lines of a dialogue or none
spoken    ``speaker: turn``; a line without a speaker continues the turn before it
whatsapp  ``12/03/24, 09:00 - speaker: turn``, as WhatsApp exports a chat; each day is a dialogue
timed     ``[00:01:15] speaker: turn`` or ``09:00<TAB>speaker<TAB>turn``, as in transcripts and exports of Zoom, LINE,
          and KakaoTalk; lines with only a date begin a dialogue
headed    the time and the speaker in a line above each turn, as Discord and WeChat are exported; each day is a dialogue
irc       ``[10:07] <speaker> turn``, as programs for IRC log a channel; other lines, such as who joins, are not turns
eou       one dialogue in each line, with ``__eou__`` after each turn, as in DailyDialog

If most days have one message, the days of a chat are one dialogue. Notices about pictures and deleted messages
are not turns.

Each dialogue is a record with a list of turns and, if they are known, the list of their speakers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice, pairwise
from pathlib import Path

from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.readers.delimited import EMPTY, Row

END_OF_UTTERANCE = "__eou__"
_SAMPLE = 500
"""Number of lines that are examined."""
_BY_DAY = ("whatsapp", "timed", "headed")
"""Kinds in which each day is a dialogue."""
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
    r"[\u200e\u200f]?\[?(?P<day>\d{1,4}[./-] ?\d{1,2}[./-] ?\d{1,4})\.?,?\s+"
    r"([^\W\d]{1,4}\.?\s+)?([^\x00-\x7f]{1,4}\s?)?\d{1,2}[:.]\d{2}([:.]\d{2})?(\s?([AaPp]\.?\s?[Mm]\.?|Uhr|[^\x00-\x7f]{1,6}))?"
    r"(\]|\s+[-–]|,\s)\s*(?P<message>.*)"
)
"""The time before a message of WhatsApp, on Android or iOS, in the forms of many languages."""
_TIME = r"\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,3})?(?:\s?[AaPp]\.?[Mm]\.?)?"
_DATE = r"\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{4}"
_HEADS = tuple(map(re.compile, (
    r"\[(?P<day>\d{1,4}[./-](?:\d{1,2}|[A-Za-z]{3})[./-]\d{2,4}),? \d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp][Mm])?\] "
    r"(?P<who>\S.{0,39})",
    rf"(?P<day>{_DATE}) {_TIME}\s+(?P<who>\S.{{0,39}})",
    rf"(?P<day>)(?P<who>\S.{{0,39}}?)(?:(?:\s{{2,}}|\t){_TIME}|\s+\({_TIME}\):?)",
    rf"(?P<day>)\[?{_TIME}\]?\s+From\s+(?P<who>\S[^:]{{0,39}}?)(?:\s+[Tt]o\s+[^:]+)?\s*:",
)))  # fmt: skip
"""The time and the speaker in a line above a message, as Discord, WeChat, Otter and Zoom are exported."""
_TIMED = tuple(map(re.compile, (
    rf"(?:(?P<day>{_DATE})[ T])?[\[(]?{_TIME}[\])]?(?:\s+[-–]|\s+From)?\s+(?P<who>[^\t:：]{{1,40}}?)"
    r"(?:\s+[Tt]o\s+(?:Everyone|everyone|Me))?\s*(?:[:：](?!//)|\t)\s*(?P<said>.*)",
    r"(?P<day>)\[(?P<who>[^\[\]]{1,40})\]\s\[[^\[\]\d]*\d{1,2}:\d{2}[^\[\]]*\]\s(?P<said>.*)",
)))  # fmt: skip
"""The time and the speaker before a turn."""
_STARTS_WITH_TIME = re.compile(rf"(?:(?:{_DATE})[ T])?[\[(]?{_TIME}")
_DAY = re.compile(rf"\D{{0,25}}(?:{_DATE}|\d{{4}}\s?[年년]\s?\d{{1,2}}\s?[月월]\s?\d{{1,2}}\s?[日일])\D{{0,25}}")
"""A line with only a date, which begins a day."""
_LOG_LEVELS = frozenset(("debug", "info", "warning", "warn", "error", "fatal", "critical", "trace", "notice"))
_NOT_SAID = re.compile(
    r"\u200e.*|<[^<>]*>|\[[^\[\]]*\]|\S+\.\w{2,4} \([^()]*\)|null|(this message was|you) deleted( this message)?\.?|"
    r"(image|video|audio|sticker|GIF|document|contact card|photo) omitted|missed (voice|video) call\.?|"
    r"(diese nachricht wurde|du hast diese nachricht) gelöscht\.?|(se eliminó|eliminaste) este mensaje\.?|"
    r"ce message a été supprimé\.?|questo messaggio è stato eliminato\.?|(esta )?mensagem (foi )?apagada\.?",
    re.IGNORECASE,
)
"""What an export has instead of a picture, a file, a call or a deleted message."""
_EDITED = re.compile(r"\s*\u200e?<[^<>]+ [^<>]+>$")
_IRC = re.compile(r"(?:\S+\s+)?\[?\d{1,2}:\d{2}(?::\d{2})?\]?\s+<[ @+%&~]?([^<>\s]+)>\s+(.*)")


def find_kind(lines: Sequence[str]) -> str | None:
    """The kind of a file of conversations, from its first lines, or None if they may be any text."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return None
    if sum(END_OF_UTTERANCE in line for line in filled) > 0.5 * len(filled):
        return "eou"
    if _are_headed(filled):
        return "headed"
    stamped = [match["message"] for line in filled if (match := _STAMP.fullmatch(line))]
    if _STAMP.fullmatch(filled[0]) and len(stamped) > 0.3 * len(filled):
        return "whatsapp" if sum(_SPOKEN.fullmatch(text) is not None for text in stamped) > 0.5 * len(stamped) else None
    if sum(_IRC.fullmatch(line) is not None for line in filled) > 0.5 * len(filled):
        return "irc"
    if _are_timed(filled):
        return "timed"
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


def _are_headed(filled: Sequence[str]) -> bool:
    """Whether messages follow lines with their time and speaker, who are few if the lines have another form too."""
    found = list(map(_head, filled))
    heads = [head is not None for head in found]
    if sum(heads) <= 2 or sum(heads) <= 0.2 * len(heads) or any(a and b for a, b in pairwise(heads)):
        return False
    return found[0] is None or found[0].re is _HEADS[0] or _are_few([head["who"] for head in found if head])


def _are_timed(filled: Sequence[str]) -> bool:
    """Whether most lines are turns after a time and a speaker, without those with only a date."""
    filled = [line for line in filled if not _DAY.fullmatch(line)]
    found = [match["who"].strip() for line in filled if (match := _timed(line))]
    return len(found) > 3 and len(found) > 0.5 * len(filled) and _are_few(found)


def _are_few(names: Sequence[str]) -> bool:
    """Whether names may be speakers, each of whom says several turns of a dialogue."""
    folded = {name.strip().casefold() for name in names}
    return all(map(may_be_speaker, names)) and 2 <= len(folded) <= max(2, len(names) // 3) and not folded & _LOG_LEVELS


def _head(line: str) -> re.Match[str] | None:
    return next((match for form in _HEADS if (match := form.fullmatch(line))), None)


def _timed(line: str) -> re.Match[str] | None:
    return next((match for form in _TIMED if (match := form.fullmatch(line))), None)


def is_one_dialogue(lines: Sequence[str], kind: str) -> bool:
    """Whether most days of a chat have only one message, so that days are not dialogues."""
    blocks = _blocks(enumerate(lines, start=1), kind) if kind in _BY_DAY else ()
    sizes = [len(_parse(block, kind)[0]) for block in blocks]
    return 2 * sum(size == 1 for size in sizes) > sum(size > 0 for size in sizes)


def are_tabbed(lines: Sequence[str]) -> bool:
    """Whether lines are ``speaker<TAB>turn`` with a blank line between dialogues, whose speakers take turns."""
    groups = (list(block) for is_filled, block in groupby(lines, key=lambda line: bool(line.strip())) if is_filled)
    blocks = [[line.split("\t") for line in block] for block in groups]
    blocks = blocks[:-1] if len(blocks) > 2 else blocks  # the sample may end inside a dialogue
    rows = [row for block in blocks for row in block]
    if len(blocks) < 3 or min(map(len, blocks)) < 2 or any(len(row) != 2 or not row[0].strip() for row in rows):
        return False
    names = [row[0].strip() for row in rows]
    changes = [a[0] != b[0] for block in blocks for a, b in pairwise(block)]
    few = 2 <= len(set(names)) <= max(2, len(names) // 4)
    wordy = sum(len(row[1].split()) > 1 for row in rows) > 0.5 * len(rows)
    return few and wordy and all(map(may_be_speaker, names)) and sum(changes) >= 0.9 * len(changes)


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
            sample = list(islice(lines, _SAMPLE))
        kind = find_kind([line for _, line in sample]) or "turns"
        if kind == "spoken" and _are_apart(sample):
            kind = "apart"
    with open_text(path, encoding, keep_nuls=True) as lines:
        by_day = not is_one_dialogue([line for _, line in islice(lines, _SAMPLE)], kind)
    with open_text(path, encoding, keep_nuls=True) as lines:
        for block in _blocks(lines, kind, by_day):
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


def _are_apart(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether each turn has a blank line after it, as in a play, so that blank lines do not separate dialogues."""
    blocks = list(_blocks(lines, "spoken"))
    return len(blocks) > 2 and all(len(_parse_spoken(block)[0]) == 1 for block in blocks)


_Block = list[tuple[int, str]]
_Parsed = tuple[list[str], list[str], str | None]


def _blocks(lines: Iterable[tuple[int, str]], kind: str, by_day: bool = True) -> Iterator[_Block]:
    """The lines of each dialogue."""
    block: _Block = []
    day = ""
    for number, line in lines:
        found = _day(line, kind) if by_day and kind in _BY_DAY else None
        if block and found and found != day:
            if any(_day(line, kind) is not None for _, line in block):  # not only a title
                yield block
            block = []
        day = found or day
        if line.strip():
            block.append((number, line))
        if block and (kind == "eou" or (not line.strip() and kind not in (*_BY_DAY, "apart"))):
            yield block
            block = []
    if block:
        yield block


def _day(line: str, kind: str) -> str | None:
    """The day of the message that begins in a line, empty if it is not written there; None for other lines."""
    if kind == "timed" and _DAY.fullmatch(line):
        return line
    match = _STAMP.fullmatch(line) if kind == "whatsapp" else _head(line) if kind == "headed" else _timed(line)
    return match["day"] or "" if match is not None else None


def _parse(block: _Block, kind: str) -> _Parsed:
    """The turns and speakers of a dialogue, and the problem of its form, if any."""
    if kind == "eou":
        parts = (" ".join(part.split()) for part in block[0][1].split(END_OF_UTTERANCE))
        return [part for part in parts if part], [], None
    if kind == "whatsapp":
        return _parse_whatsapp(block)
    if kind == "headed":
        return _parse_headed(block)
    if kind == "timed":
        return _parse_timed(block)
    if kind == "irc":
        said = [match for _, line in block if (match := _IRC.fullmatch(line))]
        return [" ".join(one[2].split()) for one in said], [one[1] for one in said], None
    return _parse_spoken(block) if kind in ("spoken", "apart") else _parse_turns(block)


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


def _parse_headed(block: _Block) -> _Parsed:
    """The lines below each line with a time and a speaker. Lines above the first are not a turn."""
    turns, speakers = list[list[str]](), list[str]()
    for _, line in block:
        if (head := _head(line)) is not None:
            speakers.append(head["who"].strip())
            turns.append([])
        elif re.fullmatch("={20,}", line):  # the end of an export of Discord
            break
        elif turns:
            turns[-1].append(line)
    said = [(" ".join(" ".join(lines).split()), who) for lines, who in zip(turns, speakers, strict=True)]
    return [text for text, _ in said if text], [who for text, who in said if text], None


def _parse_whatsapp(block: _Block) -> _Parsed:
    """The messages of speakers. Notices of WhatsApp have a time and no speaker."""
    found: list[_Said | None] = []
    for _, line in block:
        if (stamped := _STAMP.fullmatch(line)) is not None:
            said = _SPOKEN.fullmatch(stamped["message"])
            found.append((said[1].strip(), [said[2]]) if said else None)
        elif found and found[-1] is not None:
            found[-1][1].append(line)
    return _messages(found)


def _parse_timed(block: _Block) -> _Parsed:
    """The messages after a time and a speaker. Notices have a time and no speaker."""
    found: list[_Said | None] = []
    for _, line in block:
        if (match := _timed(line)) is not None:
            found.append((match["who"].strip(), [match["said"]]))
        elif _STARTS_WITH_TIME.match(line) or _DAY.fullmatch(line):
            found.append(None)
        elif found and found[-1] is not None:
            found[-1][1].append(line)
    return _messages(found)


_Said = tuple[str, list[str]]


def _messages(found: Sequence[_Said | None]) -> _Parsed:
    """The turns and speakers of messages, without notices about pictures and deleted messages."""
    said = [(one[0], _EDITED.sub("", "\n".join(one[1])).strip()) for one in found if one is not None]
    kept = [(who, " ".join(text.split())) for who, text in said if text and not _NOT_SAID.fullmatch(text)]
    return [text for _, text in kept], [who for who, _ in kept], None


def _parse_turns(block: _Block) -> _Parsed:
    tabs = {line.count("\t") for _, line in block}
    if len(tabs) > 1 or max(tabs) > 1:
        return [], [], "with speaker<TAB>turn in some lines only"
    turns = [" ".join(line.split("\t")[-1].split()) for _, line in block]
    return turns, [line.split("\t")[0].strip() for _, line in block] if tabs == {1} else [], None
