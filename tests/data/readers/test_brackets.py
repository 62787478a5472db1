from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import SourceLocation, Tree
from catena.data.readers import brackets
from catena.errors import FormatError
from tests.data.readers.writing import file_with, tokens

# A tree as nested tuples, which know nothing of the reader: (label, word) or (label, [trees]).
atoms = tokens.filter(lambda t: not t.startswith("\ufeff"))
leaves = st.tuples(atoms, atoms)
inner = st.recursive(leaves, lambda t: st.tuples(atoms, st.lists(t, min_size=1, max_size=3)), max_leaves=8)
trees = inner | inner.map(lambda t: ("", [t]))
gaps = st.sampled_from([" ", "\n  ", "\t", " \r\n "])


def written(tree, gap: str) -> str:
    label, held = tree
    if isinstance(held, str):
        return f"({label} {held})"
    return f"({label}{gap}" + gap.join(written(child, gap) for child in held) + ")"


def as_tuples(tree: Tree):
    if tree.word is not None:
        return (tree.label, tree.word)
    return (tree.label, [as_tuples(child) for child in tree.children])


@given(st.lists(trees, min_size=1, max_size=4), gaps, st.sampled_from(["\n", " ", "\n\n"]))
def test_round_trip_on_one_line_or_many(forest: list, gap: str, between: str) -> None:
    with file_with(between.join(written(tree, gap) for tree in forest)) as path:
        found = list(brackets.read(path))
    assert [as_tuples(tree) for tree in found] == forest
    with file_with("\n".join(map(brackets.to_text, found))) as path:
        assert [as_tuples(tree) for tree in brackets.read(path)] == forest


def test_the_outer_bracket_may_have_no_label_and_no_gap() -> None:
    with file_with("((S (NN a)))( (S (NN b)) )") as path:
        found = list(brackets.read(path))
    assert [(tree.label, tree.words()) for tree in found] == [("", ("a",)), ("", ("b",))]
    assert brackets.to_text(found[0]) == "( (S (NN a)))"


def test_nodes_know_the_line_in_which_they_open() -> None:
    with file_with("\n(S\n  (NP (DT the)\n      (NN cat)))\n(X y)\n") as path:
        tree, last = brackets.read(path)
    assert tree.location.line == 2
    assert [leaf.location.line for leaf in tree.leaves()] == [3, 4]
    assert last.location.line == 5


def test_escaped_brackets_are_words_and_can_be_unescaped() -> None:
    with file_with(r"(NP (-LRB- -LRB-) (NN 1\/2) (-RRB- -RRB-))") as path:
        (tree,) = brackets.read(path)
    assert tree.words() == ("-LRB-", r"1\/2", "-RRB-")
    assert [brackets.unescape(word) for word in tree.words()] == ["(", "1/2", ")"]


def test_spoken_drops_traces() -> None:
    tree = brackets.parse(r"(S (NP (-NONE- *)) (VP (VB go) (-LRB- -LRB-) (NP (NN 1\/2))))")
    assert brackets.spoken(tree) == ["go", "(", "1/2"]


def test_trees_deeper_than_the_stack() -> None:
    depth = 20_000
    with file_with("(X " * depth + "(N w)" + ")" * depth) as path:
        (tree,) = brackets.read(path)
        assert tree.words() == ("w",)
        assert brackets.to_text(tree).count("(X") == depth


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("(S (NN a))\n\n(S\n (NN b)\n", r"txt:3 opens a tree that is not closed: 1 bracket is missing; .* '\(S'"),
        ("(S (NP (NN a))\n(S (NN b))\n", r"txt:1 opens .* 1 bracket is missing, and line 2 seems to begin the next"),
        ("(S (NP (NN a\n", r"txt:1 opens a tree that is not closed: 3 brackets are missing"),
        ("(S (NN a)))\n", r"txt:1 closes a bracket that was never opened"),
        ("(S (NN a))\nand (NN b)\n", r"txt:2 has 'and' outside a tree"),
        ("(S (NN a)\n the)\n", r"txt:2 has the word 'the' next to other nodes"),
        ("(NP the (NN a))\n", r"txt:1 closes a node that has the word 'the' next to other nodes"),
        ("(S (NN a)\n (NP))\n", r"txt:2 closes a node \(NP\) that is neither \(TAG word\) nor"),
        ("(S (NN a b))\n", r"txt:1 closes a node \(NN a b\)"),
        ("()\n", r"txt:1 closes a node \(\)"),
    ],
)
def test_invalid_tree_raises_error_with_line(content: str, problem: str) -> None:
    with file_with(content) as path, pytest.raises(FormatError, match=problem):
        list(brackets.read(path))


def test_unclosed_bracket_does_not_consume_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(brackets, "MOST_LINES", 10)
    path = tmp_path / "trees"
    path.write_text("(S (NN a)\n" + "(S (NN b))\n" * 20 + "(NN c) and text outside a tree\n")
    with pytest.raises(FormatError, match=r"trees:1 opens a tree that is not closed.* line 2 seems to begin the next"):
        list(brackets.read(path))
    path.write_text("(S" + "\n" * 9 + "(NN b))\n(S (NN c))\n")
    assert len(list(brackets.read(path))) == 2


def test_parse_reads_one_tree() -> None:
    tree = brackets.parse("(S (NP dogs)\n   (VP bark))")
    assert brackets.to_text(tree) == "(S (NP dogs) (VP bark))"
    assert tree.children[1].location == SourceLocation("the tree", 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("(S (NP dogs) (VP bark)", "the tree:1 opens a tree that is not closed: 1 bracket is missing"),
        ("(S (NP dogs)))", "closes a bracket that was never opened"),
        ("dogs bark", "has 'dogs' outside a tree"),
        ("", "the tree must be one tree in brackets, got 0"),
        ("(N a) (N b)", "the tree must be one tree in brackets, got 2"),
    ],
)
def test_parse_of_other_text_raises_error(text: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=re.escape(sentence)):
        brackets.parse(text)
