"""Trees of messages and tables of messages with the ids of their parents, compared with a recursive reading."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.data.conversations import detect_conversations, read_exchanges
from catena.data.detect import detect_format
from catena.data.reading import ReadCounter

Said = tuple[tuple[str, ...], tuple[str, ...], tuple[bool, ...]]


def tree(seed: random.Random, depth: int = 0) -> dict[str, Any]:
    """A message of OpenAssistant with its replies."""
    replies = [tree(seed, depth + 1) for _ in range(seed.choice((0, 1, 2, 3)) if 0 < depth < 4 else 2 * (depth == 0))]
    return {
        "message_id": f"{seed.getrandbits(60):x}",
        "text": f"words {seed.getrandbits(40)} of depth {depth}",
        "role": ("prompter", "assistant")[depth % 2],
        "deleted": seed.random() < 0.1 and depth > 0,
        "rank": seed.randrange(100) if depth % 2 else None,
        "labels": {"quality": {"value": 0.5, "count": 3}},
        "emojis": {},
        "replies": replies,
    }


def expected(node: dict[str, Any], path: tuple[dict[str, Any], ...] = ()) -> Iterator[Said]:
    """Every message that has replies, after those before it, and the replies from the best to the worst."""
    path = (*path, node)
    replies = [one for one in node["replies"] if not one["deleted"]]
    replies = sorted(replies, key=lambda one: 1000 if one["rank"] is None else one["rank"])
    if replies:
        own = tuple(one["role"] == replies[0]["role"] for one in path)
        yield tuple(one["text"] for one in path), tuple(one["text"] for one in replies), own
    for one in replies:
        yield from expected(one, path)


def rows(node: dict[str, Any], parent: str | None = None) -> Iterator[dict[str, Any]]:
    yield {"message_id": node["message_id"], "parent_id": parent, **{k: v for k, v in node.items() if k != "replies"}}
    for one in node["replies"]:
        yield from rows(one, node["message_id"])


def said(path: Path) -> list[Said]:
    return [(one.context, one.responses, one.own) for one in read_exchanges(path)]


TREES = [tree(random.Random(i)) for i in range(12)]


@pytest.mark.parametrize("stored", ["jsonl", "json", "one"])
def test_trees_of_openassistant_give_all_replies_of_every_message(stored: str, tmp_path: Path) -> None:
    trees = TREES[: 1 if stored == "one" else None]
    records = [{"message_tree_id": one["message_id"], "tree_state": "ready_for_export", "prompt": one} for one in trees]
    path = tmp_path / f"trees.{stored.replace('one', 'json')}"
    content = "\n".join(map(json.dumps, records)) if stored == "jsonl" else json.dumps(records, indent=1)
    path.write_text(json.dumps(records[0]) if stored == "one" else content)
    assert detect_format(path).task == "converse"
    assert detect_conversations(path).kind == "trees"
    assert said(path) == [one for root in trees for one in expected(root)]


@pytest.mark.parametrize("stored", ["jsonl", "csv"])
@pytest.mark.parametrize("order", ["written", "shuffled"])
def test_messages_with_parents_give_the_same_as_trees(stored: str, order: str, tmp_path: Path) -> None:
    records = [row for root in TREES for row in rows(root)]
    if order == "shuffled":
        random.Random(1).shuffle(records)
    path = tmp_path / f"messages.{stored}"
    if stored == "jsonl":
        path.write_text("\n".join(map(json.dumps, records)))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["message_id", "parent_id", "text", "role", "deleted"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(records)
    assert detect_format(path).task == "converse"
    assert detect_conversations(path).kind == "replies"
    found = {context: (set(responses), own) for context, responses, own in said(path)}
    wanted = {context: (set(responses), own) for root in TREES for context, responses, own in expected(root)}
    assert found == wanted


def test_deleted_messages_and_all_below_them_are_counted(tmp_path: Path) -> None:
    records = [row for root in TREES for row in rows(root)]
    records.append({**records[0], "message_id": "lone", "parent_id": None})
    path = tmp_path / "messages.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    counter = ReadCounter()
    used = {text for one in read_exchanges(path, counter=counter) for text in (*one.context, *one.responses)}
    reasons = [one.reason for one in counter.dropped]
    assert reasons.count("deleted") == sum(row["deleted"] for row in records) > 0
    assert reasons.count("with fewer than two turns") == 1
    assert reasons.count("below a deleted message") == len(records) - len(used) - reasons.count("deleted") - 1 > 0


def test_circle_of_replies_is_dropped(tmp_path: Path) -> None:
    pairs = [("1", None), ("2", "1"), ("3", "2"), ("4", "5"), ("5", "4"), ("2", "1")]
    lines = [json.dumps({"id": own, "parent_id": parent, "text": f"text {own}"}) for own, parent in pairs]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))
    counter = ReadCounter()
    found = [(one.context, one.responses) for one in read_exchanges(path, counter=counter)]
    assert found == [(("text 1",), ("text 2",)), (("text 1", "text 2"), ("text 3",))]
    assert [(one.reason, one.location.line) for one in counter.dropped] == [
        ("without an id of its own", 6),
        ("in a circle of replies", 4),
        ("in a circle of replies", 5),
    ]


def test_numbers_of_pandas_and_kinds_of_reddit_are_ids(tmp_path: Path) -> None:
    (tmp_path / "tweets.csv").write_text(
        "tweet_id,author_id,inbound,text,in_response_to_tweet_id\n1,me,True,it broke,\n2,shop,False,we help,1.0\n"
        "3,me,True,thank you,2.0\n4,you,True,mine too,1.0\n"
    )
    assert said(tmp_path / "tweets.csv") == [
        (("it broke",), ("we help", "mine too"), (False,)),
        (("it broke", "we help"), ("thank you",), (True, False)),
    ]
    names = [("a", "t3_post"), ("b", "t1_a"), ("c", "t1_b")]
    lines = [json.dumps({"id": own, "parent_id": parent, "author": own, "body": own * 2}) for own, parent in names]
    (tmp_path / "reddit.jsonl").write_text("\n".join(lines))
    assert [one[:2] for one in said(tmp_path / "reddit.jsonl")] == [(("aa",), ("bb",)), (("aa", "bb"), ("cc",))]


def test_long_chain_of_replies_is_read_in_linear_memory(tmp_path: Path) -> None:
    lines = [json.dumps({"id": i, "parent_id": i - 1 if i else None, "text": f"turn {i}"}) for i in range(5000)]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))
    found = said(path)
    assert len(found) == 4999
    assert found[-1][:2] == (tuple(f"turn {i}" for i in range(4899, 4999)), ("turn 4999",))


def test_labels_and_rows_that_rarely_reply_are_not_trees(tmp_path: Path) -> None:
    path = tmp_path / "labeled.csv"
    rows = [f"{i},{i - 1},comment number {i},{'spam' if i % 3 else 'ham'}" for i in range(1, 30)]
    path.write_text("\n".join(["id,parent_id,text,label", *rows]))
    assert detect_format(path).task == "classify"
    path.write_text("\n".join(["id,parent_id,text", *(f"{i},{i + 500},comment number {i}" for i in range(1, 30))]))
    assert detect_format(path).task != "converse", "the parents are not in the file"
