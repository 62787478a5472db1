"""Forms of verse on models of characters and of words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from catena.data.config import CharacterTokenizerConfig, WhitespaceTokenizerConfig
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.errors import ConfigError, DataError, FormatError
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from catena.niche.verse.acceptor import Line
from catena.niche.verse.form import FORMS, VerseForm, parse_lines, read_lexicon, verse_acceptor
from catena.search.config import SampleConfig
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.counted import NgramLmTask
from catena.tasks.lm.data import LmEncoding
from catena.tasks.lm.generate import TextGenerator

POEMS = [
    "春風花，江月家。\n山雨沙，孤舟斜。",
    "明月沙，夜風花。\n春水斜，人還家。",
    "江山人，夜月春。\n孤雨身，風水人。",
]
RHYMES = {**dict.fromkeys("花家沙斜", 0), **dict.fromkeys("人春身", 1)}


def encoding(kind: str, texts: list[str]) -> LmEncoding:
    tokenizer = build_tokenizer(
        CharacterTokenizerConfig() if kind == "characters" else WhitespaceTokenizerConfig(), texts
    )
    symbols = sorted({token for text in texts for token in tokenizer.tokens(text)})
    return LmEncoding(tokenizer, Vocabulary(symbols, counts=[1] * len(symbols), specials=SPECIALS), "line")


def model_of(kind: str, texts: list[str]) -> NgramLmTask:
    made = encoding(kind, texts)
    model = NgramModel.train_ids([made.ids(text) for text in texts], made.vocabulary, 2, "witten-bell")
    return NgramLmTask(LmConfig(data={"train": ["x.txt"]}), made, model)


def test_parse_lines_reads_a_form() -> None:
    made = encoding("characters", POEMS)
    comma, stop, line_end = made.ids("，。\n")
    lines = parse_lines("??，?a。/1?b", made.tokenizer, made.vocabulary)
    assert lines == [Line("??", "", (comma,)), Line("?", "a", (stop, line_end)), Line("1?", "b", ())]
    assert [line.meter for line in parse_lines("quatrain-7", made.tokenizer, made.vocabulary)] == ["?" * 7] * 4
    assert [line.rhyme for line in parse_lines("regulated-5", made.tokenizer, made.vocabulary)] == ["", "a"] * 4
    assert set(FORMS) == {"quatrain-5", "quatrain-7", "regulated-5", "regulated-7"}


def test_generated_text_fills_the_form() -> None:
    writer = TextGenerator(
        model_of("characters", POEMS),
        SampleConfig(n=20, max_length=40),
        form=VerseForm("???，???a。/??，??a。", RHYMES),
    )
    (row,) = writer.write([""], torch.Generator().manual_seed(1))
    assert len({one.text for one in row}) > 5
    for one in row:
        first, second, third, fourth, rest = one.text.replace("\n", "").replace("。", "，").split("，")
        assert [len(line) for line in (first, second, third, fourth, rest)] == [3, 3, 2, 2, 0]
        assert RHYMES[second[-1]] == RHYMES[fourth[-1]]
        assert second[-1] != fourth[-1]
        assert one.text[3] == one.text[11] == "，"
        assert one.text[7:9] == "。\n"
        assert one.text[14:] == "。"
        assert one.hypothesis.finished


def test_cost_of_a_form_is_estimated() -> None:
    model = model_of("characters", POEMS)
    bound = TextGenerator(model, SampleConfig(max_length=40), form=VerseForm("???，???a。/???，???a。", RHYMES))
    cost = bound.cost([""], 60, torch.Generator().manual_seed(1))
    assert cost.n == 60
    assert cost.ids == 3 * 4 + 5 + 1
    assert 0 < cost.least < cost.drawn
    free = TextGenerator(model, SampleConfig(max_length=400), unknown=True)
    assert free.cost([""], 30, torch.Generator().manual_seed(1)).drawn == pytest.approx(0, abs=1e-4)


def test_read_lexicon_of_words(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.tsv"
    path.write_text("night\t1\tite\nlight\t1\tite\nthe\t0\nsilent\t10\na\t0 1\n\n", encoding="utf-8")
    meters, rhymes = read_lexicon(path)
    assert meters == {"night": ("1",), "light": ("1",), "the": ("0",), "silent": ("10",), "a": ("0", "1")}
    assert rhymes == {"night": "ite", "light": "ite"}
    model = model_of("whitespace", ["the night , a light", "a silent night , the light", "the silent light , night"])
    writer = TextGenerator(model, SampleConfig(n=5, max_length=20), form=VerseForm("01a , 0101a", rhymes, meters))
    for one in writer.write([""], torch.Generator().manual_seed(1))[0]:
        first, second = one.text.split(" , ")
        assert {first.split()[-1], second.split()[-1]} == {"night", "light"}
        assert len(first.split()) == 2
    path.write_text("night\tlong\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"lexicon\.tsv:1 must be a symbol, a tab and its meters, got"):
        read_lexicon(path)


def test_invalid_form_raises() -> None:
    made = encoding("characters", POEMS)
    for form in ("", "quatrain-6", "a??", "??，x"):
        with pytest.raises(ConfigError, match="Unknown verse form"):
            verse_acceptor(VerseForm(form), made.tokenizer, made.vocabulary)
    with pytest.raises(ConfigError, match="did you mean 'quatrain-5'"):
        verse_acceptor(VerseForm("quatrain5"), made.tokenizer, made.vocabulary)
    with pytest.raises(DataError, match=r"has the punctuation '！', which is not in the vocabulary. Use other marks"):
        verse_acceptor(VerseForm("??！??"), made.tokenizer, made.vocabulary)
    with pytest.raises(ConfigError, match=r"has rhymes, but no symbol of the model has a rhyme. Pass --rhymes"):
        verse_acceptor(VerseForm("quatrain-5", {"zz": 1}), made.tokenizer, made.vocabulary)
    words = encoding("whitespace", ["the cat sat"])
    with pytest.raises(DataError, match="Pass --lexicon, because no symbol is a single letter"):
        verse_acceptor(VerseForm("??"), words.tokenizer, words.vocabulary)
    with pytest.raises(DataError, match="Pass a --lexicon that has symbols of the model"):
        verse_acceptor(VerseForm("??", {}, {"zebra": ("10",)}), words.tokenizer, words.vocabulary)
