"""Exchanges that are kept, dropped and split, and their ranking examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena.data.conversations import Exchange
from catena.data.examples import SourceLocation
from catena.data.reading import ReadCounter
from catena.errors import DataError, FormatError
from catena.metrics.ranking import RankCounts
from catena.tasks.base import DataParts
from catena.tasks.converse.config import ConverseConfig, ConverseDataConfig, ConverseEvaluationConfig
from catena.tasks.converse.data import describe_parts, read_contexts, training_exchanges
from catena.tasks.converse.evaluation import ConverseEvaluation, Groups, build_ranking_examples, find_ranking_metric
from catena.tasks.converse.task import TermTask
from catena.tasks.sources import Sources
from tests.tasks.converse.helpers import config, write_pairs


def exchange(context: str, *responses: str, wrong: tuple[str, ...] = (), hard: tuple[str, ...] = ()) -> Exchange:
    return Exchange((context,), responses, SourceLocation("x", 1), wrong=wrong, hard=hard)


def split(own: ConverseConfig) -> DataParts[Exchange]:
    return Sources(TermTask, own).split()


def test_counts_reconcile_and_contexts_are_truncated(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a __eot__ b __eot__ c\td\n\tlost\nx\t \nf\tg\nh\ti\n", encoding="utf-8")
    data = {"input_format": "pairs", "window": 2, "split": "end", "dev_fraction": 0.3}
    sources = Sources(TermTask, config(path, "bm25", data=data))
    parts = sources.split()
    assert [(e.context, e.responses) for e in parts.train] == [(("b", "c"), ("d",)), (("f",), ("g",))]
    assert [e.context for e in parts.dev] == [("h",)]
    assert sources.counter.counts(3).dropped == {"with an empty context": 1, "with an empty response": 1}


def test_split_keeps_dialogues_together(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "x.tsv", 8)
    parts = split(config(path, "bm25"))
    train, dev = ({e.context[0] for e in part} for part in (parts.train, parts.dev))
    assert train
    assert dev
    assert not train & dev
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))), encoding="utf-8")
    assert {e.context[0] for e in split(config(path, "bm25")).dev} == dev


def test_data_that_cannot_be_used_raises(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(DataError, match="1 example cannot be split into train and dev"):
        split(config(path, "bm25"))
    path.write_text("hello\n", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"train can be used: read 1; used 0; dropped 1 \(1 with fewer than two turns\)"
    ):
        split(config(path, "bm25"))
    path.write_text("context,response,label\na,b,0\nc,d,0\n", encoding="utf-8")
    own = config(path, "dual")
    with pytest.raises(DataError, match="no correct response in train"):
        describe_parts(split(own), own.data)
    with pytest.raises(FormatError, match=r"Unknown data.input_format .* of conversations: did you mean"):
        split(config(path, "bm25", data={"input_format": "turn"}))


def test_inner_turns_are_in_training_but_not_in_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a __eot__ b __eot__ c\td\nx __eot__ y\tz\n", encoding="utf-8")
    own = config(path, "bm25", data={"inner_turns": True, "split": "end"})
    parts = split(own)
    assert len(parts.train) == 1
    trained = training_exchanges(parts.train, own.data)
    assert [(e.context, e.responses) for e in trained[1:]] == [(("a",), ("b",)), (("a", "b"), ("c",))]
    assert describe_parts(parts, own.data)[-1] == "the turns of contexts add 2 pairs to train"


def test_random_distractors_are_incorrect_distinct_and_reproducible() -> None:
    part = [exchange(f"c{i}", f"r{i}", f"s{i}", "same") for i in range(8)]
    settings = ConverseEvaluationConfig(candidates=5)
    groups = build_ranking_examples(part, settings)
    assert [len(group) for group in groups] == [3] * 8
    for one, group in zip(part, groups, strict=True):
        for right, question in zip(one.responses, group, strict=True):
            assert question.candidates[0] == right
            assert len(set(question.candidates)) == 5
            assert not set(question.candidates[1:]) & set(one.responses)
    assert [q.candidates for g in build_ranking_examples(part, settings) for q in g] == [
        q.candidates for g in groups for q in g
    ]
    other = build_ranking_examples(part, ConverseEvaluationConfig(candidates=5, seed=1))
    assert [q.candidates for g in other for q in g] != [q.candidates for g in groups for q in g]


def test_given_and_hard_distractors() -> None:
    part = [exchange("c", "r", wrong=("w1", "w2"), hard=("h",)), exchange("only wrong", wrong=("w",))]
    table = [replace(one, has_distractors=True) for one in part]
    assert build_ranking_examples(table, ConverseEvaluationConfig())[0][0].candidates == ("r", "w1", "w2")
    hard = build_ranking_examples(part, ConverseEvaluationConfig(distractors="hard"))
    assert hard[0][0].candidates == ("r", "h")
    with pytest.raises(DataError, match="x:1 has no distractors"):
        build_ranking_examples([exchange("c", "r")], ConverseEvaluationConfig(distractors="given"))


def test_distractors_of_a_table_are_given_even_if_they_are_few(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("Context,Utterance,Distractor_0\na b,c d,e f\ng h,i j,k l\n", encoding="utf-8")
    parts = split(config(path, "bm25", data={"dev": str(path)}))
    groups = build_ranking_examples(parts.dev, ConverseEvaluationConfig())
    assert [group[0].candidates for group in groups] == [("c d", "e f"), ("i j", "k l")]


def evaluation(groups: Groups, ranks: list[list[RankCounts]], **settings: Any) -> ConverseEvaluation:
    return ConverseEvaluation(ConverseConfig(evaluation=ConverseEvaluationConfig(**settings)), groups, ranks)


def test_auto_uses_given_distractors_if_every_context_has_enough() -> None:
    part = [exchange(f"c{i}", f"r{i}", wrong=(f"v{i}", f"w{i}")) for i in range(4)]
    groups = build_ranking_examples(part, ConverseEvaluationConfig(candidates=3))
    assert [group[0].candidates for group in groups] == [(f"r{i}", f"v{i}", f"w{i}") for i in range(4)]
    given = evaluation(groups, [[RankCounts(0, 0)]] * 4, candidates=3)
    assert "candidates:3|distractors:given" in given.lines()[1]
    for few, n in ((part, 4), ([*part, exchange("c", "r")], 3)):
        sampled = build_ranking_examples(few, ConverseEvaluationConfig(candidates=n))
        assert {text[0] for group in sampled for text in group[0].candidates} == {"r"}
        result = evaluation(sampled, [[RankCounts(0, 0)]] * len(few), candidates=n)
        assert "distractors:random" in result.lines()[1]


def test_too_few_distractors_are_filled_up_or_raise() -> None:
    part = [exchange("a", "r"), exchange("b", "r")]
    with pytest.raises(DataError, match="the same responses"):
        build_ranking_examples(part, ConverseEvaluationConfig())
    groups = build_ranking_examples(part, ConverseEvaluationConfig(candidates=3), ["x", "r", "y", "z"])
    assert all(len(group[0].candidates) == 3 and group[0].candidates[0] == "r" for group in groups)
    for seed in range(20):  # neither correct nor repeated
        settings = ConverseEvaluationConfig(candidates=4, seed=seed)
        groups = build_ranking_examples(part, settings, ["x", "r", "y", "x", "z"])
        assert [sorted(group[0].candidates[1:]) for group in groups] == [["x", "y", "z"]] * 2
    part = [exchange(f"c{i}", f"r{i}") for i in range(4)]  # exactly three distractors, the requested number
    groups = build_ranking_examples(part, ConverseEvaluationConfig(candidates=4), ["more"])
    assert all(sorted(group[0].candidates) == ["r0", "r1", "r2", "r3"] for group in groups)


def test_evaluation_signature_has_the_conditions() -> None:
    part = [exchange(f"c{i}", f"r{i}") for i in range(5)]
    groups = build_ranking_examples(part, ConverseEvaluationConfig(candidates=3))
    ranks = [[RankCounts(0, 0)], [RankCounts(1, 0)], [RankCounts(0, 2)], [RankCounts(0, 0)], [RankCounts(2, 0)]]
    result = evaluation(groups, ranks, candidates=3)
    assert result.scores()["recall@1"] == pytest.approx((1 + 0 + 1 / 3 + 1 + 0) / 5)
    signature = "recall@1|ties:expected|candidates:3|distractors:random|questions:5|seed:0|n=5"
    assert result.signatures()["recall@1"] == signature
    assert result.lines()[0] == "5 contexts, 5 examples"
    assert list(evaluation(groups, ranks, recall=(3, 1)).scores()) == ["recall@3", "recall@1", "mrr"]
    assert find_ranking_metric("recall@12", ConverseEvaluationConfig()).name == "recall@12|ties:expected"
    for name in ("recall@0", "recall", "precision@1"):
        with pytest.raises(DataError, match=f"Unknown ranking metric '{name}'"):
            find_ranking_metric(name, ConverseEvaluationConfig())


@pytest.mark.parametrize(
    "lines",
    [
        ["Ann: where is it?", "Bob: in the hall.", "", "Ann: thank you", "Bob: any time", "Ann: bye"],
        ["where is it? __eou__ in the hall. __eou__", "thank you __eou__ any time __eou__ bye __eou__"],
    ],
)
def test_contexts_of_dialogues_are_their_turns_without_speakers_and_marks(lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    counter = ReadCounter()
    contexts = [exchange.context for exchange in read_contexts(ConverseDataConfig(), path, counter)]
    assert contexts == [("where is it?", "in the hall."), ("thank you", "any time", "bye")]
    assert counter.read == 2


def test_rows_of_a_table_are_turns_and_not_lines_of_text(tmp_path: Path) -> None:
    """Prediction read "0,user,turn 0" as a context, and the header as another."""
    path = tmp_path / "x.csv"
    rows = [f"{i // 3},{('user', 'agent')[i % 2]},turn {i}" for i in range(9)]
    path.write_text("\n".join(["dialogue_id,speaker,text", *rows]) + "\n")
    contexts = [one.context for one in read_contexts(ConverseDataConfig(), path, ReadCounter())]
    firsts = (0, 3, 6)
    assert contexts == [tuple(f"turn {i}" for i in range(a, b)) for a in firsts for b in (a + 1, a + 2)]


def test_ids_are_not_contexts(tmp_path: Path) -> None:
    questions = ["how are you today", "where do you live", "who is there now"]
    tabs = "".join(f"q{i}\t{text}\n" for i, text in enumerate(questions))
    commas = "id,question\n" + "".join(f"{i},{text}\n" for i, text in enumerate(questions))
    for name, content in (("a.tsv", tabs), ("tabs", tabs), ("a.csv", commas), ("commas", commas)):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        found = [one.context for one in read_contexts(ConverseDataConfig(), path, ReadCounter())]
        assert found == [(text,) for text in questions], name
