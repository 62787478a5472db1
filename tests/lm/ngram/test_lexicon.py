"""The byte tokenizer equals ``str.split`` for any text."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from catena.data.vocabulary import Vocabulary
from catena.lm.base import SPECIALS
from catena.lm.ngram.lexicon import Lexicon, Types, encode_utf8
from catena.lm.ngram.reading import join_lines

BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"
texts = st.text(st.one_of(st.sampled_from(BLANKS + "ab犬é–🐕\u2030\u200b\u2060"), st.characters()), max_size=40)


def lines_of(ids: np.ndarray, names: list[str]) -> list[list[str]]:
    """Lines between 0 and 1."""
    found: list[list[str]] = []
    for i in ids.tolist():
        if i == 0:
            found.append([])
        elif i > 1:
            found[-1].append(names[i - 2])
    return found


@given(st.lists(texts, max_size=8))
@example(["a\u2028b\u3000c", "\x1ca\x85", "–\u2029", "\xa0"])
def test_types_tokens_equal_split(sentences):
    types = Types()
    ids = types.sentences(join_lines(sentences))
    assert lines_of(ids, types.names()) == [sentence.split() for sentence in sentences]
    assert len(set(types.names())) == types.n


@given(st.lists(texts, max_size=8))
def test_lexicon_ids_equal_a_dictionary(sentences):
    known = Vocabulary.count([s.split()[::2] for s in sentences], specials=SPECIALS)
    found = Lexicon(known).sentences(join_lines(sentences), -1, 3).tolist()
    wanted = [i for sentence in sentences for i in [*known.ids(sentence.split()), 3]]
    assert found == wanted


def test_lexicon_line_ends_and_blank_lines():
    text = encode_utf8("a\r\nb\rc\n\n \t\nd")
    types = Types()
    assert lines_of(types.sentences(text), types.names()) == [["a"], ["b"], ["c"], [], [], ["d"]]
    assert lines_of(types.sentences(text, skip_blank=True), types.names()) == [["a"], ["b"], ["c"], ["d"]]
    assert types.n == 4
    assert types.sentences(encode_utf8("")).tolist() == []
    assert lines_of(types.sentences(encode_utf8("a\n ")), types.names()) == [["a"], []]


def test_types_grow_above_the_initial_capacity():
    words = [f"word{i}" for i in range(100_000)]
    types = Types()
    first = types.sentences(join_lines([" ".join(words)]))
    again = types.sentences(join_lines([" ".join(reversed(words))]))
    assert types.names() == words
    assert first[1:-1].tolist() == again[1:-1].tolist()[::-1] == list(range(2, 100_002))
