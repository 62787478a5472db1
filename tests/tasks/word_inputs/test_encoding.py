"""Encoding of sentences: lookup, unknown words and saving."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from catena import config as configs
from catena.config import Config, to_toml
from catena.data.examples import Columns, ConlluRow, ConlluSentence, SourceLocation
from catena.embeddings.config import CharacterConvolutionConfig, EmbeddingConfig, NoCharacterConfig
from catena.encoders.config import RecurrentConfig, TransformerConfig
from catena.errors import DataError
from catena.tasks.word_inputs.config import WordInputConfig
from catena.tasks.word_inputs.encoding import WordEncoding
from catena.tasks.word_inputs.sentences import Sentence, column_values, to_sentence

CPU = torch.device("cpu")
SENTENCES = [
    Sentence(("The", "dog", "saw", "the", "42", "dogs"), (("D", "N", "V", "D", "C", "N"),)),
    Sentence(("Dogs", "saw", "17"), (("N", "V", "C"),)),
]


def settings(**values: object) -> WordInputConfig:
    return WordInputConfig.model_validate({"columns": ("1",), **values})


def names(encoding: WordEncoding, sentence: Sentence) -> list[str]:
    return encoding.words.tokens(encoding.encode([sentence]).words[0].tolist())


def test_words_are_looked_up_unchanged_or_normalized() -> None:
    plain = WordEncoding.count(settings(), SENTENCES)
    assert names(plain, SENTENCES[0]) == ["The", "dog", "saw", "the", "42", "dogs"]
    lower = WordEncoding.count(settings(lowercase=True), SENTENCES)
    assert names(lower, SENTENCES[0])[0] == "the"
    assert "The" not in lower.words
    assert lower.words.counts[lower.words.ids(["the"])[0]] == 2
    digits = WordEncoding.count(settings(digits=True), SENTENCES)
    assert names(digits, SENTENCES[0])[4] == "00" == names(digits, SENTENCES[1])[2]
    assert digits.characters is not None
    assert {"4", "2", "T"} <= set(digits.characters.symbols)


def test_rare_and_new_words_are_unknown_but_keep_characters() -> None:
    encoding = WordEncoding.count(settings(vocabulary={"min_count": 2}), SENTENCES)
    new = Sentence(("saw", "zog", "dog"), (("V", "X", "N"),))
    assert names(encoding, new) == ["saw", "<unk>", "<unk>"]
    encoded = encoding.encode([new])
    assert encoding.unknown_fraction(encoded) == pytest.approx(2 / 3)
    assert encoding.characters is not None
    batch = encoded.batch([0], CPU)
    assert batch.characters is not None
    assert batch.spellings is not None
    assert batch.columns is not None
    shown = [
        "".join(encoding.characters.tokens(batch.characters[n][batch.characters[n] > 0].tolist()))
        for n in batch.spellings[0]
    ]
    assert shown == ["saw", "<unk>og", "dog"]
    assert encoding.columns[0].tokens(batch.columns[0, :, 0].tolist()) == ["V", "<unk>", "N"]


def test_batch_spells_each_form_once_and_pads() -> None:
    encoding = WordEncoding.count(settings(), SENTENCES)
    batch = encoding.encode(SENTENCES).batch([1, 0, 1], CPU)
    assert batch.words.shape == (3, 6)
    assert batch.lengths.tolist() == [3, 6, 3]
    assert batch.longest == 6
    assert batch.size == 3
    assert batch.tokens == 12
    assert batch.characters is not None
    assert batch.spellings is not None
    assert batch.columns is not None
    assert batch.characters.shape[0] == 1 + 8  # eight forms, and none
    assert not batch.characters[0].any()
    for padded in (batch.words, batch.spellings, batch.columns[..., 0]):
        assert not padded[0, 3:].any()
        assert not padded[2, 3:].any()
        assert padded[1].all()
    assert torch.equal(batch.spellings[0], batch.spellings[2])


def test_long_words_keep_first_and_last_characters() -> None:
    short = WordInputConfig(characters=CharacterConvolutionConfig(max_length=5))
    encoding = WordEncoding.count(short, [Sentence(("abcdefgh",))])
    (ids,) = (ids for ids in encoding.encode([Sentence(("abcdefgh",))]).spelled if len(ids))
    assert encoding.characters is not None
    assert encoding.characters.tokens(ids.tolist()) == list("abcgh")


def test_batch_without_characters_and_columns() -> None:
    encoding = WordEncoding.count(WordInputConfig(characters=NoCharacterConfig()), [Sentence(("a", "b"))])
    batch = encoding.encode([Sentence(("a",)), Sentence(())]).batch([0, 1], CPU)
    assert batch.characters is None
    assert batch.spellings is None
    assert batch.columns is None
    assert batch.lengths.tolist() == [1, 0]


def test_features_of_words_are_columns_behind_those_of_the_file() -> None:
    encoding = WordEncoding.count(settings(features=("lower_suffix2", "outline")), SENTENCES)
    columns, suffixes, outlines = encoding.columns
    assert "C" in columns.symbols  # it occurs once in one sentence and once in the other
    assert {"og", "aw", "he", "gs", ""} >= set(suffixes.symbols[2:]) >= {"aw", "he", "gs"}
    found = encoding.encode([Sentence(("DAW", "x"), (("N", "C"),))]).columns[0]
    assert columns.tokens(found[:, 0].tolist()) == ["N", "C"]
    assert suffixes.tokens(found[:, 1].tolist()) == ["aw", "<unk>"]
    assert outlines.tokens(found[:, 2].tolist()) == ["<unk>", "x"]
    with pytest.raises(ValueError, match="'sufix2' is not a feature of a word: did you mean 'suffix3'"):
        settings(features=("sufix2",))
    with pytest.raises(ValueError, match="'upos' is not a feature of a word"):
        settings(features=("upos",))


def test_encoding_round_trips_through_disk(tmp_path: Path) -> None:
    for chosen in (settings(features=("shape",)), WordInputConfig(characters=NoCharacterConfig())):
        sentences = SENTENCES if chosen.columns else [Sentence(s.words) for s in SENTENCES]
        encoding = WordEncoding.count(chosen, sentences)
        folder = tmp_path / str(len(chosen.columns))
        folder.mkdir()
        encoding.save(folder)
        back = WordEncoding.load(chosen, folder)
        assert (back.words, back.characters, back.columns) == (encoding.words, encoding.characters, encoding.columns)


def test_all_vectors_adds_every_word_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("dog 1 2\nhorse 3 4\n", encoding="utf-8")
    own = {"embedding": EmbeddingConfig(d=2, mode="static", vectors=str(path))}
    assert "horse" not in WordEncoding.count(settings(**own), SENTENCES).words
    encoding = WordEncoding.count(settings(**own, all_vectors=True), SENTENCES)
    assert "horse" in encoding.words
    assert "saw" in encoding.words
    with pytest.raises(ValueError, match="all_vectors = true needs a file of vectors"):
        WordInputConfig(all_vectors=True)


def test_missing_columns_raise() -> None:
    with pytest.raises(
        DataError, match=r"must have 1 further column \(1\) with a value for each of its 2 words, got 0"
    ):
        WordEncoding.count(settings(), [Sentence(("a", "b"))])
    encoding = WordEncoding.count(settings(), SENTENCES)
    with pytest.raises(DataError, match="got one of another length"):
        encoding.encode([Sentence(("a", "b"), (("D",),))])
    with pytest.raises(ValueError, match="columns must be distinct, got '1' more than once"):
        WordInputConfig(columns=("1", "2", "1"))


def test_to_sentence_of_column_files_and_conllu() -> None:
    columns = Columns((("dog", "N", "B"), ("ran", "V", "O")), SourceLocation("x.conll", 4))
    assert to_sentence(columns, ("1",)) == Sentence(("dog", "ran"), (("N", "V"),))
    assert column_values(columns, "-1") == ("B", "O")
    with pytest.raises(DataError, match=r"x.conll:4: a column must be a number from 0 to 2, got 3"):
        column_values(columns, "3")
    with pytest.raises(DataError, match=r"got the name 'upos'. Pass its number"):
        column_values(columns, "upos")
    row = ConlluRow("1", "dogs", "dog", "NOUN", "NNS", "Number=Plur", "0", "root", "_", "_")
    range_row = row._replace(id="1-2", form="dogs'")
    sentence = ConlluSentence(
        (range_row, row, row._replace(id="2", form="'", upos="PART")), (), SourceLocation("y.conllu", 2)
    )
    assert to_sentence(sentence, ("upos",)) == Sentence(("dogs", "'"), (("NOUN", "PART"),))
    with pytest.raises(DataError, match="unknown CoNLL-U column 'pos'"):
        column_values(sentence, "pos")


class Holder(Config):
    """A config with words in it."""

    words: WordInputConfig = WordInputConfig()
    """The words."""


@pytest.mark.parametrize("context", [None, RecurrentConfig(d=7), TransformerConfig(d=8, n_heads=2)])
def test_config_round_trips_through_toml(tmp_path: Path, context: object) -> None:
    holder = Holder(words=WordInputConfig.model_validate({"context": context, "columns": ("upos",)}))
    path = tmp_path / "config.toml"
    path.write_text(to_toml(holder), encoding="utf-8")
    assert configs.load(Holder, path) == holder
