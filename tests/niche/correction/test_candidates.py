"""What words may have been meant to be: which, how they are written, and with which weights."""

from __future__ import annotations

import math

import pytest

from catena.errors import ConfigError
from catena.niche.correction.candidates import ObservedToken, UnknownWords, WordCandidates, copy_case
from catena.niche.correction.config import SpellingConfig
from catena.niche.correction.error_model import ErrorModel
from catena.niche.correction.lattice import LatticeEdge
from tests.oracle.spelling import edit_distance

WORDS = ["the", "then", "he", "a", "lot", "some", "where", "somewhere", "London", "NASA", "mat", "3rd", "The", "co-op"]
ERRORS = ErrorModel.from_rates(words=WORDS)
UNK = 1


def ids(word: str) -> int:
    return WORDS.index(word) + 10 if word in WORDS else UNK


def candidates(**options: float) -> WordCandidates:
    def encode(token: ObservedToken, text: str) -> tuple[int, ...]:
        return tuple(ids(word) if word in WORDS else ids(word.lower()) for word in text.split(" "))

    unknown = UnknownWords(UNK, lambda word: -2.0 * len(word), min_log_prob=-7.0)
    return WordCandidates(WORDS, encode, ERRORS, unknown, SpellingConfig(**options))


def tokens(text: str) -> list[ObservedToken]:
    return [ObservedToken(word, (ids(word),), " ") for word in text.split()]


def readings(text: str, position: int = 0, **options: float) -> dict[str, LatticeEdge]:
    """The edges that leave a position, by their texts."""
    return {edge.text: edge for edge in candidates(**options).edges(tokens(text)) if edge.start == position}


@pytest.mark.parametrize("word", ["teh", "thm", "thhen", "somwhere", "sumewere", "mta", "hee", "whre"])
def test_unknown_word_may_be_any_word_within_two_edits(word: str) -> None:
    found = readings(word)
    most = 1 if len(word) <= 3 else 2
    near = {other for other in WORDS if other != "3rd" and edit_distance(word, other.lower()) <= most}
    assert set(found) - {word} == near
    for other in near:
        case = 0.0 if other == other.lower() else math.log(0.005)
        assert found[other].score == pytest.approx(ERRORS.log_weights(word, [other.lower()])[0] + case)
        assert found[other].ids == (ids(other),)


def test_known_word_may_be_words_within_one_edit_with_a_factor() -> None:
    found = readings("then", real_words=0.01)
    assert set(found) == {"then", "the", "The"}
    assert found["then"].score == 0.0
    assert found["the"].score == pytest.approx(ERRORS.log_weights("then", ["the"])[0] + math.log(0.01))


def test_no_factor_for_real_words_keeps_known_words() -> None:
    assert set(readings("then", real_words=0.0)) == {"then"}
    assert set(readings("some where", real_words=0.0)) == {"some"}


def test_unknown_word_as_it_is_has_the_probability_of_its_letters() -> None:
    for factor in (0.1, 0.02):
        edge = readings("zzzz", new_words=factor)["zzzz"]
        assert edge.score == pytest.approx(math.log(factor) - 8.0)
        assert (edge.ids, edge.min_log_prob) == ((UNK,), -7.0)
    assert readings("zzzz", new_words=0.0)["zzzz"].score < -500


def test_capitalized_unknown_word_within_a_sentence_is_more_often_new() -> None:
    first, within, after_stop = (
        readings(text, i, new_words=0.3)["Zed"].score for text, i in (("Zed", 0), ("a Zed", 1), ("a . Zed", 2))
    )
    assert within == pytest.approx(first + math.log(30))
    assert after_stop == first


@pytest.mark.parametrize(
    ("observed", "written"),
    [("Teh", {"The"}), ("teh", {"the", "The"}), ("TEH", {"THE"}), ("Londn", {"London"}), ("londn", {"London"})],
)
def test_corrections_keep_the_capitals_of_the_observed_word(observed: str, written: set[str]) -> None:
    found = {text for text in readings(observed) if text.lower() in ("the", "london")}
    assert found == written


def test_word_that_is_known_only_with_capitals_keeps_its_capitalization() -> None:
    assert "London" not in readings("london")
    assert readings("london")["london"].score == pytest.approx(math.log(0.3 * 10) - 2.0 * len("london"))
    found = readings("londn")
    assert found["London"].score == pytest.approx(math.log(0.005) + ERRORS.log_weights("londn", ["london"])[0])


def test_words_in_capitals_are_changed_only_in_a_text_in_capitals() -> None:
    assert set(readings("teh NASAA", 1)) == {"NASAA"}
    assert "NASA" in readings("TEH NASAA", 1)


def test_unknown_word_may_be_two_known_words() -> None:
    edge = readings("alot")["a lot"]
    assert edge.ids == (ids("a"), ids("lot"))
    assert "a lot" not in readings("some Alot", 1)  # a capital within a sentence is a name
    assert "so me" not in readings("some")


def test_two_words_may_be_one() -> None:
    edge = readings("some where a")["somewhere"]
    assert (edge.start, edge.end, edge.ids) == (0, 2, (ids("somewhere"),))
    unknown = readings("som ewhere")["somewhere"]
    assert unknown.score == pytest.approx(edge.score - math.log(SpellingConfig.real_words))
    comma = candidates().edges([ObservedToken("some", (15,)), ObservedToken("where", (16,), ",")])
    assert all(found.end == found.start + 1 for found in comma)


@pytest.mark.parametrize("token", ["3rdd", "12:30", "x", "t.he", "the@he", "co-", "'", "th3", "a" * 41])
def test_other_tokens_are_not_changed(token: str) -> None:
    assert set(readings(token)) == {token}


def test_fixed_tokens_are_not_changed() -> None:
    edges = candidates().edges([ObservedToken("teh", (UNK,), fixed=True)])
    assert [edge.text for edge in edges] == ["teh"]


def test_hyphens_and_apostrophes_are_parts_of_words() -> None:
    assert "co-op" in readings("co-opp")


def test_model_of_pieces_adds_no_weight_to_unknown_words() -> None:
    pieces = WordCandidates(WORDS, lambda token, text: tuple(map(ord, token.before + text)), ERRORS)
    edges = {edge.text: edge for edge in pieces.edges([ObservedToken("teh", tuple(map(ord, " teh")), " ")])}
    assert edges["teh"].score == pytest.approx(math.log(SpellingConfig.new_words))
    assert edges["the"].ids == tuple(map(ord, " the"))


def test_copy_case() -> None:
    assert [copy_case("word", observed) for observed in ("WRD", "Wrd", "wrd", "wRd")] == [
        "WORD",
        "Word",
        "word",
        "word",
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"real_words": 1.5}, "real_words must be from 0 to 1, got 1.5"),
        ({"new_words": -1.0}, "new_words must be from 0 to 1, got -1.0"),
        ({"max_edits": 3}, "max_edits must be 1 or 2, got 3"),
        ({"lm_weight": 0.0}, "lm_weight must be above 0 and finite, got 0.0"),
        ({"beam_size": 0}, "beam_size must be 1 or more, got 0"),
    ],
)
def test_invalid_options_raise(options: dict[str, float], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        SpellingConfig(**options)
