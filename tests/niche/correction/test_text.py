"""Correction of texts by models of words, characters, bytes and subwords; what is not a word stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.config import (
    BpeTokenizerConfig,
    ByteTokenizerConfig,
    CharacterTokenizerConfig,
    TokenizerConfig,
    UnigramTokenizerConfig,
    WhitespaceTokenizerConfig,
    WordTokenizerConfig,
)
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.errors import ConfigError
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from catena.niche.correction.config import SpellingConfig
from catena.niche.correction.text import TextCorrector, read_words

TEXTS = [
    "The weather in London is fine today.",
    "She reads the letter from her mother.",
    "They walked along the river to the old bridge.",
    "The letter was written in 1999, somewhere in London.",
    "He doesn't like the weather, but she likes it a lot.",
    "The old man and the sea is a fine book.",
] * 3
PIECES: list[TokenizerConfig] = [
    CharacterTokenizerConfig(),
    ByteTokenizerConfig(),
    BpeTokenizerConfig(size=300),
    UnigramTokenizerConfig(size=300),
]
ALL: list[TokenizerConfig] = [WordTokenizerConfig(), WordTokenizerConfig(lowercase=True), *PIECES]


def corrector(settings: TokenizerConfig, words: tuple[str, ...] = (), **options: float) -> TextCorrector:
    tokenizer = build_tokenizer(settings, TEXTS)
    vocabulary = Vocabulary.count(map(tokenizer.tokens, TEXTS), specials=SPECIALS, symbols=tokenizer.symbols)
    ids = [vocabulary.ids(tokenizer.tokens(text)) for text in TEXTS]
    model = NgramModel.train_ids(ids, vocabulary, order=6, estimator="witten-bell")
    return TextCorrector(model, tokenizer, vocabulary, config=SpellingConfig(**options), words=words)


def known_words(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "words.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return tuple(read_words(path))


@pytest.fixture(params=ALL, ids=lambda settings: f"{settings.kind}-{settings.lowercase}")
def model(request: pytest.FixtureRequest, tmp_path: Path) -> TextCorrector:
    return corrector(request.param, known_words(tmp_path))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("The wether in London is  fine today.", "The weather in London is  fine today."),
        ("Teh leter was writen in 1999 , somewhere in Londn.", "The letter was written in 1999 , somewhere in London."),
        ("\tshe reads (the lettr)  from her mothre!\n", "\tshe reads (the letter)  from her mother!\n"),
        ("She likes it alot.", "She likes it a lot."),
        ("written some where in London", "written somewhere in London"),
        ("He doesn't like teh weather", "He doesn't like the weather"),
        ("", ""),
        ("  \t ", "  \t "),
        (
            "1999, 3.14; teh99 @teh http://teh.org/wether teh_9 x",
            "1999, 3.14; teh99 @teh http://teh.org/wether teh_9 x",
        ),
    ],
)
def test_words_are_corrected_and_the_rest_stays(model: TextCorrector, wrong: str, right: str) -> None:
    result = model.correct(wrong)
    assert result.corrected == right
    assert str(result) == right
    for change in result.changes:
        assert wrong[change.start : change.end] == change.text
        assert change.text != change.corrected
    assert rebuilt(wrong, result.changes) == right


def test_words_in_capitals_are_corrected_in_a_text_in_capitals() -> None:
    model = corrector(WordTokenizerConfig())
    assert model.correct("THE WETHER IN LONDON IS FIN").corrected == "THE WEATHER IN LONDON IS FINE"
    assert model.correct("the WETHER in LONDON is fine").corrected == "the WETHER in LONDON is fine"


def rebuilt(text: str, changes: tuple) -> str:
    for change in reversed(changes):
        text = text[: change.start] + change.corrected + text[change.end :]
    return text


@pytest.mark.parametrize("settings", [WordTokenizerConfig(), CharacterTokenizerConfig()], ids=lambda s: s.kind)
def test_correct_texts_are_unchanged(settings: TokenizerConfig, tmp_path: Path) -> None:
    model = corrector(settings, known_words(tmp_path))
    for text in TEXTS[:6]:
        result = model.correct(text)
        assert (result.corrected, result.changes) == (text, ())
        assert 0.5 < result.probability <= 1


def test_new_words_sets_how_often_unknown_words_are_kept() -> None:
    texts = ["She reads from her brother", "along the rivets", "The father in London", "a fines book"]
    n_kept = [
        sum(not model.correct(text).changes for text in texts)
        for model in (corrector(WordTokenizerConfig(), new_words=x) for x in (0.0, 0.1, 1.0))
    ]
    assert n_kept[0] == 0 <= n_kept[1] <= n_kept[2] > 0


def test_given_words_are_known_and_never_changed() -> None:
    plain, more = corrector(WordTokenizerConfig()), corrector(WordTokenizerConfig(), ("wether", "Mothr"))
    assert plain.correct("The wether in London").corrected == "The weather in London"
    for text in ("The wether in London", "from her Mothr"):
        assert more.correct(text).corrected == text


@pytest.mark.parametrize("settings", PIECES, ids=lambda settings: settings.kind)
def test_pieces_of_words_and_gaps_are_the_pieces_of_the_text(settings: TokenizerConfig, tmp_path: Path) -> None:
    model = corrector(settings, known_words(tmp_path))
    for text in (*TEXTS[:6], "  two  blanks, (and) 3.14 don't… ", "x@y.org abc123 co-op"):
        located = list(model._pieces(text))
        assert [id for _, token in located for id in token.ids] == list(model._ids(text))
        assert all(text.startswith(token.text, start) for start, token in located)


def test_tokens_that_the_tokenizer_changes_are_not_corrected() -> None:
    model = corrector(WordTokenizerConfig(digits="fold", normalize="NFKC"))
    text = "teh ﬁne day of teh 19th"
    assert model.correct(text).corrected == "the ﬁne day of the 19th"
    assert [token.text for _, token in model._words(text)] == text.split()


def test_words_after_a_ligature_in_the_same_chunk_are_not_shifted() -> None:
    """NFKC makes "ﬁ" two letters, so the tokens "fine . wether" have other positions than their characters."""
    model = corrector(WordTokenizerConfig(normalize="NFKC"), new_words=0.0)
    assert model.correct("fine.wether").corrected == "fine.weather"
    assert model.correct("ﬁne.wether").corrected == "ﬁne.wether"


def test_alternatives_are_listed() -> None:
    result = corrector(WordTokenizerConfig()).correct("teh wether", n_alternatives=2)
    row = result.to_dict()
    assert [change["corrected"] for change in row["changes"]] == ["the", "weather"]
    assert all(0 <= other["probability"] < 1 for change in row["changes"] for other in change["alternatives"])
    assert any(other["text"] == "teh" for other in row["changes"][0]["alternatives"])
    assert "accepted" not in row


def test_models_that_cannot_correct_words_raise() -> None:
    with pytest.raises(ConfigError, match="words must be given for a model of characters, got none"):
        corrector(CharacterTokenizerConfig())
    with pytest.raises(ConfigError, match="must be words, got stems or lemmas"):
        corrector(WhitespaceTokenizerConfig(stem="english"))
