"""Chats as messengers and meetings export them, each with the same turns of the same speakers on two days."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from catena.data.conversations import read_exchanges
from catena.data.detect import detect_format
from catena.data.reading import ReadCounter

TEXTS = [
    "shall we meet at noon",
    "yes, that is fine: for me",
    "where do we go",
    "to the old café",
    "bring it",
    "I will",
]
Said = list[tuple[datetime, str, str]]


def chat(n_days: int = 2, n: int = 10) -> Said:
    """``n`` turns of two speakers on each day."""
    start = datetime(2024, 3, 1, 9, 0)
    return [
        (start + timedelta(days=i // n, minutes=i), ("Anna", "Ben Old")[i % 2], f"{TEXTS[i % 6]} {i}")
        for i in range(n * n_days)
    ]


def lines(form: str) -> Callable[[Said], str]:
    return lambda said: "".join(form.format(at=at, who=who, text=text) for at, who, text in said)


def by_day(day: str, form: str) -> Callable[[Said], str]:
    def write(said: Said) -> str:
        days = sorted({at.date() for at, _, _ in said})
        return "".join(
            day.format(at=one) + lines(form)([row for row in said if row[0].date() == one]) + "\n" for one in days
        )

    return write


ONE_DIALOGUE = {
    "transcript": lines("[00:{at:%M:%S}] {who}: {text}\n"),
    "subtitles": lines("00:{at:%M:%S} {who}: {text}\n\n"),
    "Pidgin": lines("({at:%H:%M:%S}) {who}: {text}\n"),
    "Zoom": lines("{at:%H:%M:%S}\t From  {who} : {text}\n"),
    "Zoom to everyone": lines("{at:%H:%M:%S}\t From {who} to Everyone : {text}\n"),
    "new Zoom": lines("{at:%H:%M:%S} From {who} to Everyone:\n\t{text}\n"),
    "Otter": lines("{who}  {at:%H:%M}\n{text}\n\n"),
    "Rev": lines("{who} ({at:%M:%S}):\n{text}\n\n"),
}
DAYS = {
    "WhatsApp": lines("{at:%d/%m/%Y}, {at:%H:%M} - {who}: {text}\n"),
    "Discord": lines("[{at:%m/%d/%Y} {at:%I:%M %p}] {who}\n{text}\n\n"),
    "WeChat": lines("{at:%Y-%m-%d %H:%M:%S} {who}\n{text}\n\n"),
    "weechat": lines("{at:%Y-%m-%d %H:%M:%S}\t{who}\t{text}\n"),
    "LINE": by_day("{at:%Y/%m/%d (%a)}\n", "{at:%H:%M}\t{who}\t{text}\n"),
    "KakaoTalk": by_day("------ {at:%Y}년 {at:%m}월 {at:%d}일 금요일 ------\n", "[{who}] [오전 9:0{at:%S}] {text}\n"),
}


@pytest.mark.parametrize("name", [*ONE_DIALOGUE, *DAYS])
def test_exports_have_the_turns_and_speakers_of_each_dialogue(name: str, tmp_path: Path) -> None:
    said, path = chat(), tmp_path / "chat.txt"
    path.write_text(({**ONE_DIALOGUE, **DAYS})[name](said), encoding="utf-8")
    assert detect_format(path).task == "converse"
    found = list(read_exchanges(path))
    for exchange in found:
        (response,) = exchange.responses
        i = int(response.rsplit(" ", 1)[1])
        first = 10 * (i // 10) if name in DAYS else 0
        assert response == said[i][2]
        assert exchange.context == tuple(text for _, _, text in said[first:i])
        assert exchange.own == tuple(who == said[i][1] for _, who, _ in said[first:i])
    assert len(found) == (18 if name in DAYS else 19)


@pytest.mark.parametrize("name", DAYS)
def test_chat_with_a_message_a_day_is_one_dialogue(name: str, tmp_path: Path) -> None:
    said, path = chat(n_days=9, n=1), tmp_path / "chat.txt"
    path.write_text(DAYS[name](said), encoding="utf-8")
    found = list(read_exchanges(path))
    assert [exchange.responses[0] for exchange in found] == [text for _, _, text in said[1:]]
    assert found[-1].context == tuple(text for _, _, text in said[:-1])


@pytest.mark.parametrize("name", ["LINE", "KakaoTalk", "Discord"])
def test_title_of_an_export_is_not_a_dialogue(name: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text("Chat history with Ben\nSaved yesterday\n\n" + DAYS[name](chat()), encoding="utf-8")
    counter = ReadCounter()
    assert len(list(read_exchanges(path, counter=counter))) == 18
    assert counter.dropped == []


def test_notices_about_pictures_are_not_turns(tmp_path: Path) -> None:
    notices = ["<Media omitted>", "\u200eimage omitted", "This message was deleted", "null", "a.jpg (file attached)",
               "Diese Nachricht wurde gelöscht.", "<Medien ausgeschlossen>", "Missed voice call"]  # fmt: skip
    rows = [("Anna", "look at <this> one"), *(("Anna", text) for text in notices), ("Ben", "nice")]
    rows += [("Anna", "[I] know <This message was edited>"), ("Ben", "it was deleted")]
    path = tmp_path / "chat.txt"
    path.write_text("".join(f"3/1/24, 09:0{i % 10} - {who}: {text}\n" for i, (who, text) in enumerate(rows)))
    found = list(read_exchanges(path))
    assert [*found[-1].context, *found[-1].responses] == ["look at <this> one", "nice", "[I] know", "it was deleted"]


@pytest.mark.parametrize(
    "line", ["09:{:02}:00 INFO: started job {}", "09:{:02} {} News: what is new", "{}:{} In the beginning was the word"]
)
def test_logs_programs_and_verses_are_not_chats(line: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("".join(line.format(i, f"{i}th") + "\n" + "09:00:01 ERROR: no\n" * (i % 2) for i in range(30)))
    assert detect_format(path).task != "converse"


def test_bytes_of_facebook_are_read_as_characters(tmp_path: Path) -> None:
    texts = ["schönen Tag 👋", "naïve Ã café", "日本語"]
    messages = [
        {"sender_name": who, "timestamp_ms": 1000 * i, "content": text.encode().decode("latin-1")}
        for i, (who, text) in enumerate(zip(("Zoë", "Ben", "Zoë"), texts, strict=True))
    ]
    path = tmp_path / "message_1.json"
    path.write_text(json.dumps({"participants": [], "messages": messages[::-1]}))
    assert [*list(read_exchanges(path))[-1].context, *list(read_exchanges(path))[-1].responses] == texts
    path.write_text(json.dumps({"messages": [{"from": "a", "text": "schÃ¶n"}, {"from": "b", "text": "ja"}]}))
    assert next(read_exchanges(path)).context == ("schÃ¶n",), "others export characters"


def test_messages_of_skype_and_matrix_are_dialogues(tmp_path: Path) -> None:
    said = [("anna", "hello"), ("ben", "good day"), ("anna", "well")]
    skype = [
        {"from": who, "content": text, "originalarrivaltime": f"2024-0{i + 1}-01"} for i, (who, text) in enumerate(said)
    ]
    conversations = [{"id": name, "displayName": name, "MessageList": skype[::-1]} for name in ("8:ben", "8:cleo")]
    matrix = [{"sender": who, "content": {"msgtype": "m.text", "body": text}} for who, text in said]
    for document, n in (({"conversations": conversations}, 2), ({"room_name": "x", "messages": matrix}, 1)):
        path = tmp_path / f"{n}.json"
        path.write_text(json.dumps(document))
        found = [(one.context, one.responses, one.own) for one in read_exchanges(path)]
        wanted = [(("hello",), ("good day",), (False,)), (("hello", "good day"), ("well",), (True, False))]
        assert found == wanted * n
