from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import Columns, SourceLocation
from catena.data.readers import columns
from catena.errors import FormatError
from tests.data.readers.writing import file_with, tokens

words = tokens.filter(lambda t: not t.startswith(("#", "-DOCSTART-", "\ufeff")))
sentences = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.tuples(*[words] * width), min_size=1, max_size=5), min_size=1, max_size=4)
)


@given(sentences, st.sampled_from(["\t", " ", "  "]), st.sampled_from(["\n", " \n", "\t\n", "\n\n \n"]), st.booleans())
def test_round_trip(blocks: list[list[tuple[str, ...]]], separator: str, blank: str, has_last: bool) -> None:
    lines = ["".join(separator.join(row) + "\n" for row in block) for block in blocks]
    with file_with(blank.join(lines) + (blank if has_last else "")) as path:
        found = list(columns.read(path))
    assert [e.rows for e in found] == [tuple(block) for block in blocks]


def test_location_is_first_row() -> None:
    with file_with("\n\na O\nb O\n \n\t\nc O\n") as path:
        assert [e.location.line for e in columns.read(path)] == [3, 7]


@pytest.mark.parametrize(
    "start", ["-DOCSTART-\n\n", "-DOCSTART- -X- O O\n\n", "-DOCSTART- -X- -X- O\n", "-DOCSTART-\tO\n\n"]
)
def test_document_starts_are_comments_between_sentences(start: str) -> None:
    with file_with(f"{start}a X Y O\nb X Y O\n{start}c X Y O\n\nd X Y O\n") as path:
        found = list(columns.read(path))
    assert [[row[0] for row in e.rows] for e in found] == [["a", "b"], ["c"], ["d"]]
    assert [e.comments for e in found] == [(start.strip(),), (start.strip(),), ()]


def test_token_with_prefix_of_document_start_is_a_token() -> None:
    with file_with("-DOCSTART-ed O\n") as path:
        assert [e.rows for e in columns.read(path)] == [(("-DOCSTART-ed", "O"),)]


def test_comments_differ_from_hash_tokens() -> None:
    content = "# id 7 domain=en\n# # I-NP\n9 CD I-NP\n\n# # O\n\n# x\n#tag NN O\n"
    with file_with(content) as path:
        found = list(columns.read(path))
        assert found[0] == Columns(
            (("#", "#", "I-NP"), ("9", "CD", "I-NP")), SourceLocation(str(path), 2), ("# id 7 domain=en",)
        )
    assert found[1].rows == (("#", "#", "O"),)
    assert found[2].comments == ("# x",)
    assert found[2].column(-1) == ("O",)


def test_tab_separated_fields_may_contain_blanks() -> None:
    with file_with("New York\tB-LOC  \nis\tO\t\n") as path:
        assert [e.rows for e in columns.read(path)] == [(("New York", "B-LOC"), ("is", "O"))]
    with file_with("New\u00a0York B-LOC\u00a0\n") as path:  # a no-break space parts nothing
        assert [e.rows for e in columns.read(path)] == [(("New\u00a0York", "B-LOC\u00a0"),)]


@pytest.mark.parametrize(("content", "separator"), [("a\tO\n", "\t"), ("a O\n", " "), ("a\n", "\t")])
def test_separator_is_kept(content: str, separator: str) -> None:
    with file_with(content) as path:
        (found,) = columns.read(path)
    assert found.separator == separator


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            "a O\nb O\n\nc\n",
            r"txt:4 must have 2 blank-separated fields as in the first sentence, got 1; the line is 'c'",
        ),
        ("a\tX\tO\nb\tX\tO\nc\tX\t\n", r"txt:3 must have 3 tab-separated fields as in the first sentence, got 2"),
        ("a X O\nb X O\nc X O Y\n", r"txt:3 must have 3 blank-separated fields as in the first sentence, got 4"),
        ("a\tO\n\tO\n", r"txt:2 has no token before its first tab"),
    ],
)
def test_ragged_rows_raise_error(content: str, problem: str) -> None:
    with file_with(content) as path, pytest.raises(FormatError, match=problem):
        list(columns.read(path))


def test_separator_can_be_set() -> None:
    with file_with("a b\tO\nc d\tO\n") as path:
        assert [e.rows for e in columns.read(path, separator="blank")] == [(("a", "b", "O"), ("c", "d", "O"))]


@pytest.mark.parametrize("start", [0, 1])
def test_column_that_counts_the_words_is_not_the_word(start: int) -> None:
    block = "".join(f"{i}\t{word}\tO\n" for i, word in enumerate(["Ada", "sings", "well"], start))
    with file_with(f"# a\n{block}\n{start}\tYes\tO\n\n{block}") as path:
        found = list(columns.read(path))
    assert [one.words for one in found] == [("Ada", "sings", "well"), ("Yes",), ("Ada", "sings", "well")]
    assert found[1].rows == ((str(start), "Yes", "O"),)


@pytest.mark.parametrize("content", ["1 CD\n2 CD\n\n1 CD\n3 CD\n", "1\n2\n3\n", "1 CD\n\n1 CD\n"])
def test_numbers_that_do_not_count_are_words(content: str) -> None:
    with file_with(content) as path:
        assert {one.word for one in columns.read(path)} == {0}
