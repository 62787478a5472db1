"""Encoded questions: offsets, gold spans, windows and batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from catena.data.config import VocabularyConfig, WordTokenizerConfig
from catena.data.examples import SourceLocation
from catena.data.readers.questions import QuestionExample, ReferenceAnswer, read_questions
from catena.errors import DataError
from catena.tasks.read.data import AnswerCounter, QuestionSet, ReadingTexts, TrainingRows, WindowRows
from catena.tasks.read.encoding import FlatTexts, ReadingEncoding, TokenForms, read_frozen_vectors
from tests.tasks.read.samples import TEXTS, encoding, example

CPU = torch.device("cpu")


def test_words_are_looked_up_in_lower_case_and_characters_as_written() -> None:
    own = encoding(["Ada ADA bob"])
    words, characters = _arrays(own, ["Ada", "ADA", "Bob", "zoë"])
    assert words[1] == words[2] == own.words.ids(["ada"])[0]
    assert words.tolist()[0] == 0
    assert words[4] == 1
    assert characters[1].tolist() == [*own.characters.ids("Ada")]
    assert (characters[0] == 0).all()


def _arrays(own: ReadingEncoding, tokens: list[str]) -> tuple[np.ndarray, np.ndarray]:
    forms = TokenForms(own)
    assert forms.add(tokens).tolist() == [1, 2, 3, 4]
    assert forms.add(tokens[::-1]).tolist() == [4, 3, 2, 1]
    return forms.arrays()


def test_long_words_keep_both_ends() -> None:
    own = encoding(["abcdefghijkl"])
    forms = TokenForms(own)
    forms.add(["abcdefghijkl"])
    assert forms.arrays()[1][1].tolist() == own.characters.ids("abcdijkl")


def test_pretrained_words_are_last_and_rare_words_unknown() -> None:
    own = ReadingEncoding.count(["a b b c", "C d"], pretrained=["x", "c"], vocabulary=VocabularyConfig(min_count=2))
    assert own.words.symbols == ["<pad>", "<unk>", "b", "x", "c"]
    assert own.words.counts == [0, 2, 2, 0, 2]


def test_vectors_of_words_that_differ_in_case_count_once(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("Ada 1 2\nada 3 4\nBob 5 6\nBOB 7 8\n", encoding="utf-8")
    words, matrix = read_frozen_vectors(tmp_path / "v.txt")
    assert words == ["ada", "bob"]
    assert matrix.tolist() == [[3, 4], [5, 6]]


def test_saved_encoding_is_the_same(tmp_path: Path) -> None:
    own = encoding(tokenizer=WordTokenizerConfig())
    own.save(tmp_path)
    other = ReadingEncoding.load(tmp_path)
    assert other.words == own.words
    assert other.characters == own.characters
    assert other.tokenize(TEXTS[1])[0] == own.tokenize(TEXTS[1])[0]


def test_gather_pads_windows() -> None:
    texts = FlatTexts([np.array([1, 2, 3, 4]), np.array([], np.int64), np.array([5])])
    found = texts.gather(np.array([0, 1, 2, 0]), np.array([1, 0, 0, 3]), np.array([3, 0, 1, 1]))
    assert found.tolist() == [[2, 3, 4], [0, 0, 0], [5, 0, 0], [4, 0, 0]]
    assert FlatTexts([]).gather(np.zeros(0, np.int64), 0, np.zeros(0, np.int64)).shape == (0, 1)


def test_batch_has_the_tokens_of_its_rows() -> None:
    own = encoding()
    texts = ReadingTexts(own, list(TEXTS), ["b c", "Ada ?"])
    rows = WindowRows(np.array([1, 0]), np.array([2, 0]), np.array([2, 0]), np.array([3, 6]))
    batch = texts.batch(rows, CPU)
    for i, (text, first, n) in enumerate([(2, 2, 3), (0, 0, 6)]):
        wanted = own.words.ids(token.lower() for token in own.tokenize(TEXTS[text])[0][first : first + n])
        assert batch.tokens.words[batch.context.rows[i]].tolist() == [*wanted, *[0] * (6 - n)]
        assert int(batch.context.lengths[i]) == n
    assert batch.tokens.words[batch.question.rows[0]].tolist() == own.words.ids(["ada", "?"])
    assert batch.n_tokens == 3 + 6 + 2 + 2
    assert len(set(batch.tokens.words.tolist())) == len(batch.tokens.words)
    assert (batch.tokens.characters[0] == 0).all()


def test_slices_are_characters_of_the_text() -> None:
    texts = ReadingTexts(encoding(), [TEXTS[3]], ["x"])
    assert texts.slice(0, 0, 0) == "👩🏽‍🚀"
    assert texts.slice(0, 0, 1) == "👩🏽‍🚀 e\u0301t𝔸"


def test_gold_spans_are_tokens_and_others_are_counted() -> None:
    place = SourceLocation("f", 9)
    answers = (ReferenceAnswer("1990", 4), ReferenceAnswer("20", 16), ReferenceAnswer("nine", None))
    given = QuestionExample(TEXTS[1], "when", answers, "i", place)
    counter = AnswerCounter()
    questions = QuestionSet(encoding(), [given, example(TEXTS[0], "who", "Zoë in")], counter)
    assert questions.spans.tolist() == [[1, 1], [4, 4], [2, 3]]
    assert questions.span_offsets.tolist() == [0, 2, 3]
    assert counter.sentences() == [
        "answer spans: read 4; used 3; dropped 1 (1 not in the context)",
        "widened to whole tokens: 1, first f:9: '1990' to '1990s'",
    ]


def test_training_rows_have_the_window_of_the_answer() -> None:
    words = [f"w{i}" for i in range(30)]
    text = " ".join(words)
    given = [
        example(text, "q", "w0"),
        example(text, "q", "w17 w18"),
        example(text, "q", "w29"),
        example(text, "none"),
        QuestionExample(text, "lost", (ReferenceAnswer("x", None),), "i", SourceLocation("f", 1)),
        example(text, "long", " ".join(words[5:20])),
    ]
    rows = TrainingRows(QuestionSet(encoding([text]), given), size=10, stride=4, max_answer=3)
    assert rows.left_out == [4]
    assert rows.rows.questions.tolist() == [0, 1, 2, 3, 5]
    assert (rows.rows.lengths == 10).all()
    spans = rows.choose_spans(np.arange(5))
    found = [(first + s, first + e) for first, (s, e) in zip(rows.rows.first, spans.tolist(), strict=True)]
    assert found[:3] == [(0, 0), (17, 18), (29, 29)]
    assert spans[3].tolist() == [-1, -1]
    assert found[4] == (5, rows.rows.first[4] + 9)
    batch = rows.batch(np.array([1, 3]), CPU)
    assert batch.starts.tolist() == [spans[1, 0], -1]
    assert batch.ends.tolist() == [spans[1, 1], -1]


def test_random_answers_are_those_in_the_window_of_the_first() -> None:
    words = [f"w{i}" for i in range(30)]
    text = " ".join(words)
    given = [example(text, "q", "w3", "w4 w5", "w28", "w4 w5"), example(text, "none")]
    rows = TrainingRows(QuestionSet(encoding([text]), given), size=10, stride=4, max_answer=3)
    assert rows.spans[rows.offsets[0] : rows.offsets[1]].tolist() == [[3, 3], [4, 5], [4, 5]]
    assert rows.choose_spans(np.array([0, 1])).tolist() == [[3, 3], [-1, -1]]
    chosen = rows.choose_spans(np.zeros(300, np.int64), np.random.default_rng(0))
    assert 160 < (chosen[:, 0] == 4).sum() < 240
    assert rows.batch(np.array([0, 1]), CPU, chosen[:2] + 5).starts.tolist() == (chosen[:2, 0] + 5).tolist()


def test_empty_question_raises() -> None:
    with pytest.raises(DataError, match="A question must have at least one word, got ' '"):
        ReadingTexts(encoding(), ["a"], [" "])


def test_answers_of_squad_fall_on_tokens(real_data: Path) -> None:
    folder = real_data / "squad_small"
    for name, most in (("dev.json", 0.02), ("test.json", 0.01)):
        counter = AnswerCounter()
        examples = read_questions(folder / name)
        questions = QuestionSet(encoding([e.context for e in examples]), examples, counter)
        assert not counter.answers.dropped
        assert len(counter.widened) < most * len(questions.spans)
        assert not TrainingRows(questions).left_out
