"""Edit scripts of lemmas: they restore every lemma, and the same change has the same script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.tasks.tag.tag_set import apply_script, edit_script

TEXT = st.text(st.sampled_from("abcABC|+-=\\ßéП"), max_size=8)


@given(TEXT, TEXT)
def test_script_of_every_pair_restores_the_lemma(word: str, lemma: str) -> None:
    assert apply_script(edit_script(word, lemma), word) == lemma


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ([("walked", "walk"), ("Talked", "Talk")], "same|-0+|-2+"),
        ([("Dogs", "dog"), ("CATS", "cat")], "low|-0+|-1+"),
        ([("cities", "city"), ("Ponies", "Pony")], "same|-0+|-3+y"),
        ([("gelaufen", "laufen"), ("gegangen", "gangen")], "same|-2+|-0+"),
        ([("The", "the"), ("OF", "of")], "low|-0+|-0+"),
        ([("paris", "Paris")], "title|-0+|-0+"),
        ([("is", "be")], "=be"),
    ],
)
def test_words_with_the_same_change_have_the_same_script(words: list[tuple[str, str]], script: str) -> None:
    for word, lemma in words:
        assert edit_script(word, lemma) == script


def test_script_that_does_not_fit_keeps_the_word() -> None:
    assert apply_script("same|-2+|-3+y", "abcd") == "abcd"
    assert apply_script("same|-2+|-3+y", "abcde") == "y"
    assert apply_script("no script", "abc") == "abc"
    assert apply_script("=go", "went") == "go"
