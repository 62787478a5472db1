"""Reading as a task: training, resuming, saving, predictions, evaluation, folders, pictures and bad input."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.data.readers.questions import QuestionExample, align_answers
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError, ConfigError, DataError
from catena.metrics.reading import answer_f1, exact_match
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.neural import NetworkTraining
from catena.tasks.read.config import ReadConfig, ReadOptions
from catena.tasks.read.ranking import split_paragraphs
from catena.tasks.read.task import ReadTask
from catena.tasks.runs import load_task, resume_run, train_run
from catena.tasks.sources import Sources
from catena.training.report import SilentReporter
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same

LSTM = {"kind": "recurrent", "d": 8}
TINY = {
    "words": {"d": 12, "scale": 0.5},
    "characters": {"kind": "cnn", "d": 4, "windows": [3], "filters": 6},
    "contextual": LSTM,
    "modeling": {**LSTM, "n_layers": 1},
    "end": LSTM,
    "dropout": 0.0,
}
NAMES, TOWNS, COUNTS = ("Ada", "Bob", "Cem", "Zoë"), ("Rome", "Oslo", "Łódź"), ("two", "six", "nine")


def rows(unanswerable: bool = False) -> list[dict[str, Any]]:
    """Questions whose first word shows the kind of the answer; texts never say when."""
    made = []
    for i, (name, town, count) in enumerate(product(NAMES, TOWNS, COUNTS)):
        context = f"In {town} lives {name} with {count} cats." if i % 2 else f"{name} of {town} has {count} cats."
        for question, answer in (("Who is it?", name), ("Where is it?", town), ("How many are they?", count)):
            made.append({"context": context, "question": question, "answers": [answer], "id": f"{i}-{question[:3]}"})
        if unanswerable:
            made.append({"context": context, "question": "When is it?", "answers": [], "id": f"{i}-n"})
    return made


def write(path: Path, some: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    return path


def config(train: Path, model: dict[str, Any] | None = None, **sections: Any) -> ReadConfig:
    training = {"max_steps": 60, "eval_every": 30, "learning_rate": 0.02, "ema": 0.9, **sections.pop("training", {})}
    return configs.parse(
        ReadConfig,
        {
            "machine": {"device": "cpu", "threads": 1},
            "data": {"train": [str(train)], **sections.pop("data", {})},
            "vocabulary": {"min_count": 1},
            "model": {**TINY, **(model or {})},
            "batches": {"batch_size": 16},
            "training": training,
            **sections,
        },
    )


def prepared(made: ReadConfig, seed: int = 0) -> NetworkTraining:
    return ReadTask.prepare(made, Sources(ReadTask, made), Origin(Randomness(seed)))


def trained(made: ReadConfig, folder: Path) -> ReadTask:
    train_run(made, folder, SilentReporter())
    task = load_task(folder, "cpu")
    assert isinstance(task, ReadTask)
    return task


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reading")


@pytest.fixture(scope="module")
def reader(home: Path) -> ReadTask:
    return trained(
        config(write(home / "train.jsonl", rows()), training={"max_steps": 100, "eval_every": 50}), home / "run"
    )


@pytest.fixture(scope="module")
def doubter(home: Path) -> ReadTask:
    path = write(home / "some.jsonl", rows(unanswerable=True))
    return trained(config(path, {"no_answer": "bias"}, training={"max_steps": 90}), home / "doubter")


# --- learning ---------------------------------------------------------------------------------------------------------


def test_reader_answers_new_texts(reader: ReadTask) -> None:
    text = "In Rome lives Bob with nine cats."
    pairs = [(text, "Who is it?"), (text, "Where is it?"), (text, "How many are they?")]
    found = reader.predict(pairs)
    assert [str(one) for one in found] == ["Bob", "Rome", "nine"]
    for one in found:
        assert one.start_char is not None
        assert text[one.start_char : one.end_char] == one.answer
        assert one.sentence == text
        assert 0.5 < (one.probability or 0) <= (one.text_probability or 0) <= 1
        assert (one.no_answer_probability, one.id, one.n_best, one.file) == (None, None, (), None)


def test_reader_learns_when_there_is_no_answer(doubter: ReadTask) -> None:
    result = doubter.evaluate(doubter.read(doubter.config, Path(doubter.config.data.train[0]), ReadCounter()))
    assert result.scores()["f1"] > 0.9
    assert result.groups().unanswerable_accuracy > 0.9  # type: ignore[attr-defined]
    assert any(line.startswith("without an answer: 36 questions, correct") for line in result.lines())
    text = "Ada of Rome has two cats."
    none, some = doubter.predict([(text, "When is it?"), (text, "Who is it?")], ReadOptions(n_best=3))
    assert (none.answer, str(none), none.start_char) == (None, "", None)
    assert none.probability == none.no_answer_probability
    assert [one.answer is None for one in none.n_best] == [True, False, False]
    assert some.answer == "Ada"
    assert len({one.answer for one in some.n_best}) == 3
    total = (some.no_answer_probability or 0) + sum(one.text_probability or 0 for one in some.n_best)
    assert total <= 1 + 1e-6


def test_threshold_of_no_answer_is_an_option(doubter: ReadTask) -> None:
    pair = ("Ada of Rome has two cats.", "When is it?")
    assert doubter.predict([pair], ReadOptions(no_answer_threshold=1000.0))[0].answer is not None
    assert doubter.predict([pair], ReadOptions(no_answer_threshold=-1000.0))[0].answer is None
    always = doubter.search_options(ReadOptions(no_answer_threshold=-1000.0))
    answers = always.evaluate_examples([doubter.to_example(pair), doubter.to_example((pair[0], "Who is it?"))]).answers
    assert answers == ["", ""]


def test_temperature_does_not_change_what_has_an_answer(doubter: ReadTask) -> None:
    """In prediction and in evaluation, by scores and by the regression over words, which knows no temperature."""
    network, decision = doubter.model, doubter.decision
    assert decision is not None
    buffers = (network.scale, network.no_answer_threshold, decision.fitted)
    before = [float(buffer) for buffer in buffers]
    examples = [doubter.to_example((row["context"], row["question"])) for row in rows(unanswerable=True)]
    data = doubter.encode(examples)
    for fitted in (1.0, 0.0):
        decision.fitted.fill_(fitted)
        margins = sorted(doubter._margins(data, doubter._find_best(data)))
        network.no_answer_threshold.fill_((margins[-1] + margins[0]) / 2)
        answers = []
        for scale in (1.0, 0.3):
            network.scale.fill_(scale)
            answers.append(doubter.evaluate_examples(examples).answers)
            assert [str(one) for one in doubter.predict(examples)] == answers[-1]
        assert answers[0] == answers[1]
        assert "" in answers[0]
        assert any(answers[0])
    for buffer, value in zip(buffers, before, strict=True):
        buffer.fill_(value)


def test_probability_of_no_answer_is_the_one_of_the_regression(doubter: ReadTask) -> None:
    decision = doubter.decision
    assert decision is not None
    assert decision.fitted
    text, question = "Ada of Rome has two cats.", "When is it?"
    (found,) = doubter.predict([(text, question)], ReadOptions(n_best=2))
    data = doubter.encode([doubter.to_example((text, question))])
    (odds,) = doubter._margins(data, doubter._find_best(data))
    assert found.no_answer_probability == pytest.approx(1 / (1 + math.exp(-odds)))
    (read,) = doubter.answer([question], list(split_paragraphs(text, "f")), ReadOptions(n_best=2))
    assert read.no_answer_probability == pytest.approx(found.no_answer_probability)


def test_training_without_a_score_of_no_answer_drops_such_questions(home: Path) -> None:
    data = prepared(config(write(home / "mixed.jsonl", rows(unanswerable=True)))).data
    (line,) = [line for line in data.lines if line.startswith("read 144")]
    assert "without an answer, which needs model.no_answer" in line
    assert all(example.answers for example in data.train.questions.examples)


def test_answers_outside_of_their_context_are_dropped_and_noted(home: Path) -> None:
    lost = {"context": "Ada of Rome.", "question": "Who?", "answers": ["Carl"], "id": "lost"}
    half = {"context": "Ada of Rome.", "question": "Who?", "answers": ["Carl", "Ada"], "id": "half"}
    made = config(write(home / "lost.jsonl", [*rows(), lost, half]), data={"dev": str(home / "dev.jsonl")})
    write(home / "dev.jsonl", rows()[:6])
    data = prepared(made).data
    assert "read 116; used 115; dropped 1 (1 whose answers are not in the context), listed in dropped.tsv" in data.lines
    assert any(line.startswith("2 reference answers that are not in the context: ") for line in data.lines)
    assert "train: answer spans: read 110; used 109; dropped 1 (1 not in the context)" in data.lines


# --- laws -------------------------------------------------------------------------------------------------------------


def test_saved_reader_predicts_the_same(reader: ReadTask, home: Path) -> None:
    pair = ("In Oslo lives Zoë with six cats.", "Where is it?")
    again = load_task(home / "run", "cpu")
    assert again.predict([pair]) == reader.predict([pair])
    assert float(again.network.scale) == float(reader.model.scale) != 1.0  # type: ignore[arg-type]


def test_order_and_company_of_questions_do_not_matter(reader: ReadTask) -> None:
    long = "Nothing happens here . " * 40 + "Cem of Oslo has two cats."
    pairs = [
        ("Ada of Rome has two cats.", "Who is it?"),
        (long, "Where is it?"),
        ("Zoë", "How many cats are they now?"),
    ]
    alone = [reader.predict([pair])[0] for pair in pairs]
    for order in ([0, 1, 2], [2, 0, 1]):
        together = reader.predict([pairs[i] for i in order])
        assert len(together) == 3
        for i, one in zip(order, together, strict=True):
            assert (one.answer, one.start_char) == (alone[i].answer, alone[i].start_char)
            assert one.probability == pytest.approx(alone[i].probability, abs=1e-5)


def test_windows_do_not_change_the_text_of_offsets(reader: ReadTask) -> None:
    search = {"window": 8, "stride": 3, "max_answer": 4}
    small = ReadTask(configs.parse(ReadConfig, {"model": TINY, "search": search}), reader.encoding, reader.model)
    text = "Yes . " * 20 + "In Łódź lives Ada with six cats."
    (found,) = small.predict([(text, "Where is it?")], ReadOptions(n_best=5))
    assert len(found.n_best) > 0
    for one in found.n_best:
        assert one.start_char is not None
        assert text[one.start_char : one.end_char] == one.answer


def test_killed_and_resumed_run_gives_the_same_result(home: Path, tmp_path: Path) -> None:
    several = [{**row, "answers": [*row["answers"], "cats"]} for row in rows(unanswerable=True)[:40]]
    model = {"dropout": 0.2, "no_answer": "pooled", "unknown_dropout": 0.5}
    training = {"max_steps": 8, "eval_every": 4, "save_every": 3}
    made = config(write(tmp_path / "train.jsonl", several), model, training=training)
    killed_anywhere_ends_the_same(lambda: prepared(made, SEED), made.training, tmp_path, kills=[6])


def test_run_is_resumed_and_used_as_a_start(home: Path, tmp_path: Path) -> None:
    made = config(write(tmp_path / "train.jsonl", rows()[:30]), training={"max_steps": 3, "eval_every": 3})
    first = train_run(made, tmp_path / "run", SilentReporter())
    assert resume_run(tmp_path / "run", SilentReporter()).scores == first.scores
    train_run(made, tmp_path / "later", SilentReporter(), init_from=tmp_path / "run")
    other = made.model_copy(update={"tokenizer": made.tokenizer.model_copy(update={"hyphens": "keep"})})
    with pytest.raises(CheckpointError, match="tokenizer must be the one of"):
        train_run(other, tmp_path / "other", SilentReporter(), init_from=tmp_path / "run")


def test_references_are_random_in_each_epoch_or_the_first(tmp_path: Path) -> None:
    several = [{**row, "answers": [*row["answers"], "cats"]} for row in rows()[:40]]
    path = write(tmp_path / "train.jsonl", several)
    ends = {}
    for choice in ("random", "first"):
        training = prepared(config(path, loss={"references": choice}))
        epochs = [training.epoch(number) for number in (1, 2)]
        ends[choice] = [sorted(int(end) for i in range(len(plan)) for end in plan.batch(i).ends) for plan in epochs]
    assert ends["first"][0] == ends["first"][1]
    assert ends["random"][0] != ends["random"][1]
    assert ends["random"][0] != ends["first"][0]


def test_questions_about_one_text_stay_together(home: Path) -> None:
    data = prepared(config(write(home / "split.jsonl", rows()))).data
    train, dev = ({e.context for e in part.questions.examples} for part in (data.train, data.dev))
    assert not train & dev
    assert len(data.dev) == 9


# --- vectors ----------------------------------------------------------------------------------------------------------


def test_pretrained_vectors_are_frozen_and_saved(tmp_path: Path) -> None:
    words = [*(w.lower() for w in (*NAMES, *TOWNS, *COUNTS)), "unseen"]
    matrix = np.random.default_rng(0).normal(size=(len(words), 5)).round(3)
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words, matrix, strict=True)]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    embedding = {"d": 5, "mode": "static", "vectors": str(tmp_path / "v.txt")}
    made = config(write(tmp_path / "train.jsonl", rows()[:30]), {"words": embedding}, training={"max_steps": 3})
    assert any("v.txt: 11 words, " in line for line in prepared(made).data.lines)
    task = trained(made, tmp_path / "run")
    (tmp_path / "v.txt").unlink()
    again = load_task(tmp_path / "run", "cpu")
    table = again.network.embedding.words  # type: ignore[union-attr]
    ids = torch.tensor([task.encoding.words.ids(words)])
    assert table(ids)[0].detach().numpy() == pytest.approx(matrix, abs=1e-6)  # type: ignore[operator]
    assert task.encoding.n_pretrained == 11


# --- evaluation and calibration ---------------------------------------------------------------------------------------


def gold_example(reader: ReadTask, context: str, question: str, answers: list[str]) -> QuestionExample:
    return replace(reader.to_example((context, question)), answers=align_answers(context, answers))


def test_scores_equal_the_official_rules(reader: ReadTask) -> None:
    changed = [{**row, "answers": ["the Cats!", row["answers"][0]]} for row in rows()[:9]]
    examples = [gold_example(reader, row["context"], row["question"], row["answers"]) for row in changed]
    result = reader.evaluate(iter(examples))
    references, answers = [row["answers"] for row in changed], [str(one) for one in reader.predict(examples)]
    assert result.scores()["f1"] == float(answer_f1(references, answers, "1.1"))
    assert result.scores()["exact_match"] == float(exact_match(references, answers, "1.1"))
    assert "squad:1.1|unit:words" in result.signatures()["f1"]


def test_units_are_characters_for_chinese_and_japanese(reader: ReadTask) -> None:
    example = gold_example(reader, "北京 上海", "哪里?", ["北京"])
    result = reader.evaluate(iter([example]))
    assert "unit:characters" in result.signatures()["f1"]
    fixed = reader.config.evaluation.model_copy(update={"unit": "words", "script": "2.0"})
    other = ReadTask(reader.config.model_copy(update={"evaluation": fixed}), reader.encoding, reader.model)
    assert "squad:2.0|unit:words" in other.evaluate(iter([example])).signatures()["f1"]


def test_evaluation_of_joined_blocks_equals_the_whole(doubter: ReadTask) -> None:
    examples = list(doubter.read(doubter.config, Path(doubter.config.data.train[0]), ReadCounter()))
    parts = [doubter.evaluate_examples(examples[:1]), doubter.evaluate_examples(examples[1:])]
    assert parts[0].join(parts).scores() == doubter.evaluate_examples(examples).scores()


# --- folders ----------------------------------------------------------------------------------------------------------

FILE = "Ada of Rome has two cats.\n\nThe mill is closed.\n\nIn Oslo lives Bob with nine cats."


def test_answer_from_paragraphs_is_a_part_of_the_file(reader: ReadTask) -> None:
    paragraphs = list(split_paragraphs(FILE, "f.txt"))
    for k in (None, 1, 2):
        found = list(reader.answer(["How many cats has Bob?", "Who is it?"], paragraphs, ReadOptions(n_best=2), k=k))
        assert len(found) == 2
        for one in (one for prediction in found for one in prediction.n_best):
            assert one.start_char is not None
            assert FILE[one.start_char : one.end_char] == one.answer
            assert (one.file, (one.sentence or "") in FILE) == ("f.txt", True)


def test_ranked_paragraphs_decide_what_is_read(reader: ReadTask) -> None:
    (found,) = reader.answer(["Who is it in Oslo?"], list(split_paragraphs(FILE, "f")), k=1)
    assert found.sentence == "In Oslo lives Bob with nine cats."


def test_large_weight_of_retrieval_decides_the_paragraph(reader: ReadTask) -> None:
    paragraphs = list(split_paragraphs(FILE, "f"))
    (found,) = reader.answer(["Who is it with the mill?"], paragraphs, k=3, retrieval_weight=1000.0)
    assert found.sentence == "The mill is closed."


# --- pictures and descriptions ----------------------------------------------------------------------------------------


def test_picture_shows_the_attention_around_the_answer(reader: ReadTask) -> None:
    text = "Yes . " * 500 + "In Oslo lives Bob with six cats."
    example = reader.to_example((text, "Who is it?"))
    svg = reader.draw(example, ReadOptions()).svg
    assert "Bob" in svg
    lines = reader.draw_text(example, ReadOptions()).splitlines()
    assert lines[0] == "Who is it? → Bob"
    assert len(lines) <= 45
    assert any(line.split()[:1] == ["Bob"] for line in lines)
    with pytest.raises(DataError, match="A blank text has no attention"):
        reader.draw(reader.to_example((" ", "Who?")), ReadOptions())


def test_description_names_sizes_and_temperature(doubter: ReadTask) -> None:
    text = "\n".join(doubter.describe(3))
    assert "a reader (BiDAF) of" in text
    assert "no answer: bias and words, threshold" in text


# --- input ------------------------------------------------------------------------------------------------------------


def test_inputs_are_pairs_objects_or_examples(reader: ReadTask) -> None:
    pair = ("Ada of Rome has two cats.", "Who is it?")
    one, other = reader.predict([pair, {"context": pair[0], "question": pair[1], "id": "x"}])
    assert (one.answer, one.start_char, one.question) == (other.answer, other.start_char, other.question)
    for wrong in ("text", ("a",), {"question": "Who?"}, (1, 2)):
        with pytest.raises(DataError, match="an input must be a pair"):
            reader.predict([wrong])
    with pytest.raises(DataError, match="A question must have at least one word"):
        reader.predict([("Ada", " ")])


def test_blank_text_has_no_answer_and_no_probability(reader: ReadTask, doubter: ReadTask) -> None:
    for task in (reader, doubter):
        (found,) = task.predict([(" ", "Who?")])
        assert found.answer is None
    assert reader.predict([(" ", "Who?")])[0].probability is None


def test_file_is_read_with_gold_answers_or_without(reader: ReadTask, tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [{"context": "Ada", "question": "Who?", "id": 7}])
    (example,) = reader.read_inputs(path, ReadCounter())
    assert reader.predict([example])[0].to_dict()["id"] == "7"
    with pytest.raises(DataError, match=r"x.jsonl has no answers. Add them"):
        list(reader.read(reader.config, path, ReadCounter()))


def test_dict_and_rows_have_the_common_names(reader: ReadTask) -> None:
    (found,) = reader.predict([("Ada of Rome has two cats.", "Who is it?")], ReadOptions(n_best=2))
    row = found.to_dict()
    assert list(row) == [
        "question", "answer", "probability", "text_probability", "start_char", "end_char", "sentence", "n_best",
    ]  # fmt: skip
    assert row["n_best"][0] == {key: row[key] for key in list(row)[1:-1]}
    assert [line["answer"] for line in found.to_rows()] == [one.answer for one in found.n_best]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tokenizer": {"kind": "words", "lowercase": True}}, "tokenizer.lowercase must not be set for a reader"),
        ({"search": {"window": 20, "stride": 10}}, "stride must be at most window - max_answer"),
        ({"model": {"words": {"mode": "multichannel", "vectors": "x"}}}, "words.mode must be 'random', 'static'"),
    ],
)
def test_config_that_does_not_fit_raises(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configs.parse(ReadConfig, values)


def test_options_that_do_not_fit_raise(reader: ReadTask) -> None:
    with pytest.raises(DataError, match="no_answer_threshold needs a model with a score of no answer"):
        reader.predict([("Ada", "Who?")], ReadOptions(no_answer_threshold=0.5))
    with pytest.raises(ConfigError, match="stride must be at most window - max_answer"):
        reader.predict([("Ada", "Who?")], ReadOptions(max_answer=300))
    with pytest.raises(ConfigError, match="metric must be one of f1, exact_match, got 'bleu'"):
        reader.find_metric("bleu")
