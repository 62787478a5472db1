"""Trees to brackets and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import SourceLocation, Tree
from catena.data.readers.brackets import read, to_text
from catena.tasks.parse.constituency.trees import (
    NO_PARSE,
    LabeledSpan,
    bracketing,
    clean_tree,
    flat,
    phrases_to_tree,
    relabel_tree,
    tree_tags,
    tree_to_phrases,
)

HERE = SourceLocation("trees", 1)


def leaf(tag: str, word: str) -> Tree:
    return Tree(tag, (), word, HERE)


def over(label: str, children: list[Tree]) -> Tree:
    return Tree(label, tuple(children), None, HERE)


LEAVES = st.builds(leaf, st.sampled_from("NV"), st.sampled_from("ab"))
TREES = st.builds(
    over,
    st.sampled_from("ST"),
    st.lists(
        st.recursive(
            LEAVES, lambda below: st.builds(over, st.sampled_from("ABC"), st.lists(below, min_size=1, max_size=3))
        ),
        min_size=1,
        max_size=3,
    ),
)


def parse(text: str) -> Tree:
    (tree,) = read_text(text)
    return tree


def read_text(text: str) -> list[Tree]:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trees.mrg"
        path.write_text(text, encoding="utf-8")
        return list(read(path))


@given(tree=TREES)
def test_phrases_restore_the_tree(tree: Tree) -> None:
    again = phrases_to_tree(tree.words(), tree_tags(tree), tree_to_phrases(tree), "TOP")
    assert to_text(again) == to_text(tree)


@given(tree=TREES)
def test_bracketing_equals_a_recursive_walk(tree: Tree) -> None:
    found = []

    def walk(node: Tree, at: int) -> int:
        first = at
        if node.word is not None:
            return at + 1
        place = len(found)
        found.append(None)
        for child in node.children:
            at = walk(child, at)
        found[place] = (node.label, first, at)
        return at

    walk(tree, 0)
    assert list(bracketing(tree).spans) == found
    assert bracketing(tree).words == tree.words()


def test_chains_are_one_phrase() -> None:
    tree = parse("(S (VP (V go) (NP (N home))))")
    assert tree_to_phrases(tree) == [LabeledSpan(0, 2, ("S", "VP")), LabeledSpan(1, 2, ("NP",))]


def test_phrases_to_tree_adds_a_top() -> None:
    assert to_text(phrases_to_tree(("a", "b"), ("A", "B"), [], "TOP")) == "(TOP (A a) (B b))"
    assert to_text(phrases_to_tree(("a",), ("A",), [], "TOP")) == "(TOP (A a))"
    assert (
        to_text(phrases_to_tree(("a", "b"), ("A", "B"), [LabeledSpan(0, 1, ("X",))], "TOP")) == "(TOP (X (A a)) (B b))"
    )
    assert to_text(flat(("a", "b"), ("A", "B"))) == f"({NO_PARSE} (A a) (B b))"


def test_clean_tree_removes_traces_functions_and_outer_bracket() -> None:
    tree = parse("( (S-TPC (NP-SBJ-1 (-NONE- *)) (VP (VB go) (PRT=2 (RP on)) (-LRB- -LRB-))))")
    clean = clean_tree(tree)
    assert clean is not None
    assert to_text(clean) == "(S (VP (VB go) (PRT (RP on)) (-LRB- -LRB-)))"
    kept = clean_tree(tree, functions=True)
    assert kept is not None
    assert to_text(kept) == "(S-TPC (VP (VB go) (PRT=2 (RP on)) (-LRB- -LRB-)))"
    assert clean_tree(parse("(S (NP (-NONE- *)))")) is None
    several = clean_tree(parse("( (S (N a)) (. .))"))
    assert several is not None
    assert to_text(several) == "(ROOT (S (N a)) (. .))"


def test_relabel_tree_gets_the_span_of_each_node() -> None:
    tree = parse("(S (NP (N a)) (VP (V b) (N a)))")
    assert to_text(relabel_tree(tree, lambda i, j, node: f"{node.label}{i}{j}")) == (
        "(S03 (NP01 (N01 a)) (VP13 (V12 b) (N23 a)))"
    )


def test_deep_trees_do_not_recurse() -> None:
    tree = leaf("N", "a")
    for _ in range(5000):
        tree = over("X", [tree])
    clean = clean_tree(tree)
    assert clean is not None
    assert len(tree_to_phrases(clean)[0].labels) == 5000
