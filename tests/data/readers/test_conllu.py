from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.readers import conllu
from catena.errors import FormatError
from tests.data.readers.writing import file_with, texts

field = texts(without="\t", min_size=1)


@st.composite
def sentences(draw: st.DrawFn) -> str:
    """A sentence as text: comments, words, ranges and empty nodes."""
    n = draw(st.integers(1, 4))
    lines = [f"# {draw(field)}" for _ in range(draw(st.integers(0, 2)))]
    pool = draw(st.lists(field, min_size=1, max_size=4))

    def row(name: str, head: str) -> str:
        free = [draw(st.sampled_from([*pool, "_"])) for _ in range(8)]
        return "\t".join([name, *free[:5], head, *free[5:]])

    covered = 0
    for i in range(1, n + 1):
        if i == 1 and draw(st.booleans()):
            lines.append(row("0.1", "_"))
        if i > covered and i < n and draw(st.booleans()):
            covered = draw(st.integers(i + 1, n))
            lines.append(row(f"{i}-{covered}", "_"))
        lines.append(row(str(i), draw(st.sampled_from(["_", *map(str, range(n + 1))]))))
        lines += [row(f"{i}.{k}", "_") for k in range(1, draw(st.integers(1, 3)))]
    return "".join(line + "\n" for line in lines) + "\n"


@given(st.lists(sentences(), min_size=1, max_size=3))
def test_written_file_has_the_same_bytes(parts: list[str]) -> None:
    content = "".join(parts)
    with file_with(content) as path:
        found = list(conllu.read(path))
        copy = path.with_name("copy")
        assert conllu.write(copy, found) == len(parts)
        assert copy.read_bytes() == content.encode()
    assert len(found) == len(parts)


EXAMPLE = (
    "# sent_id = a-1\n# text = Vámonos al mar\n"
    "1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "1\tVamos\tir\tVERB\t_\tMood=Imp\t0\troot\t0:root\t_\n"
    "2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t1:obj|1.1:nsubj\t_\n"
    "2.1\tvamos\tir\tVERB\t_\t_\t_\t_\t0:root\t_\n"
    "3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "3\ta\ta\tADP\t_\t_\t5\tcase\t5:case\t_\n"
    "4\tel\tel\tDET\t_\t_\t5\tdet\t5:det\t_\n"
    "5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t1:obl\t_\n"
)


def test_words_ranges_and_empty_nodes_are_separated() -> None:
    with file_with(EXAMPLE) as path:
        (sentence,) = conllu.read(path)
    assert [word.form for word in sentence.words] == ["Vamos", "nos", "a", "el", "mar"]
    assert [(row.id, row.form) for row in sentence.multiwords] == [("1-2", "Vámonos"), ("3-4", "al")]
    assert [row.id for row in sentence.empty_nodes] == ["2.1"]
    assert sentence.words[1].deps == "1:obj|1.1:nsubj"
    assert sentence.words[0].xpos == "_"
    assert (sentence.comment("text"), sentence.comment("sent_id")) == ("Vámonos al mar", "a-1")
    assert sentence.comment("newdoc") is None
    assert sentence.location.line == 3


def changed(old: str, new: str) -> str:
    assert EXAMPLE.count(old) == 1
    return "# first\n1\tx\tx\tX\t_\t_\t0\troot\t_\t_\n\n" + EXAMPLE.replace(old, new)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (changed("\tNOUN\t_\t_\t1", "\tNOUN\t_\t1"), r"txt:13 must have 10 tab-separated fields, got 9"),
        (changed("4\tel\t", "6\tel\t"), r"txt:12 must have the word number 4, got 6"),
        (changed("3-4\t", "4-5\t"), r"txt:10 must have a range that begins at word 3, got 4-5"),
        (changed("3-4\t", "3-3\t"), r"txt:10 must have a range that begins at word 3, got 3-3"),
        (changed("3-4\t", "3-9\t"), r"txt:6 begins a range to word 9 of 5"),
        (changed("3-4\t", "3-" + "9" * 5000 + "\t"), r"txt:10 must have a range that begins at word 3, got 3-9999"),
        (changed("2.1\t", "2.2\t"), r"txt:9 must have the empty node 2.1, got 2.2"),
        (changed("2.1\t", "x\t"), r"txt:9 must begin with a word number, range or empty node, got 'x'"),
        (changed("\t1\tobl", "\t6\tobl"), r"txt:13 must have a head from 0 to 5 or _, got '6'"),
        (changed("\t1\tobl", "\tx\tobl"), r"txt:13 must have a head from 0 to 5 or _, got 'x'"),
        (changed("3\ta\ta\t", "# no\n3\ta\ta\t"), r"txt:11 is a comment inside a sentence, without a blank line"),
        (changed("4\tel\t", "1\tel\t"), r"txt:12 must have the word number 4, got 1 \(a blank line is required"),
        ("# alone\n\n" + EXAMPLE, r"txt:1 is a comment with no words after it"),
        (EXAMPLE + "\n# alone", r"txt:12 is a comment with no words after it"),
        ("1-2\tx\t_\t_\t_\t_\t_\t_\t_\t_\n", r"txt:1 begins a sentence without words"),
        ("1 x x X _ _ 0 root _ _\n", r"txt:1 must have 10 tab-separated fields, got fields separated by blanks"),
        (
            "1-3\tx" + "\t_" * 8 + "\n1\tx" + "\t_" * 8 + "\n2-3\tx" + "\t_" * 8 + "\n",
            r"txt:3 must have a range that begins at word 2, got 2-3",
        ),
    ],
)
def test_invalid_line_raises_error(content: str, problem: str) -> None:
    with file_with(content) as path, pytest.raises(FormatError, match=problem):
        list(conllu.read(path))
