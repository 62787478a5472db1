"""Grammars from treebanks: relative frequencies counted by hand, tree transformations, and their inverse."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from catena.data.examples import SourceLocation, Tree
from catena.data.readers import brackets
from catena.errors import DataError, ImpossibleError
from catena.grammar.files import format_grammar, parse_grammar
from catena.grammar.induction import InducedGrammar, Induction, induce, plain_label
from catena.grammar.word_classes import word_classes

TREES = """
( (S (NP-SBJ-1 (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (JJ big) (JJ red) (NN cat))) (. .)))
( (S (NP-SBJ (-NONE- *)) (VP (VBZ barks))))
( (S (NP=2 (NNP Rex)) (VP (VBD saw) (SBAR (-NONE- 0) (S (NP (DT the) (NN cat)) (VP (VBZ sleeps))))) (. .)))
"""


@pytest.fixture
def trees(tmp_path: Path) -> list[Tree]:
    (tmp_path / "trees.mrg").write_text(TREES)
    return list(brackets.read(tmp_path / "trees.mrg"))


def weights(induced: InducedGrammar) -> dict[str, float]:
    return {str(rule): rule.weight for rule in induced.grammar.rules}


def test_relative_frequencies(trees: list[Tree]) -> None:
    found = induce(trees)
    assert found.grammar.is_normalized()
    assert (found.trees, found.empty) == (3, 0)
    rules = weights(found)
    assert rules["S -> NP VP ."] == 0.5
    assert rules["S -> VP"] == rules["S -> NP VP"] == 0.25
    assert rules["VP -> VBD NP"] == rules["VP -> VBD SBAR"] == 0.25
    assert rules["VP -> VBZ"] == 0.5
    assert rules["NN -> 'cat'"] == pytest.approx(2 / 3)
    assert rules["SBAR -> S"] == rules["ROOT -> S"] == 1.0
    assert not any("-" in rule.left.name for rule in found.grammar.rules)


def test_labels_and_traces_are_kept_by_option(trees: list[Tree]) -> None:
    rules = weights(induce(trees, Induction(strip_functions=False, drop_traces=False)))
    assert rules["S -> NP-SBJ-1 VP ."] == 0.25
    assert rules["-NONE- -> '*'"] == 0.5
    assert [plain_label(label) for label in ("NP-SBJ-1", "NP=2", "-LRB-", "PRT|ADVP", "-NONE-", "=")] == [
        "NP",
        "NP",
        "-LRB-",
        "PRT|ADVP",
        "-NONE-",
        "=",
    ]


def test_vertical_markovization_annotates_parents(trees: list[Tree]) -> None:
    rules = weights(induce(trees, Induction(vertical=2)))
    assert rules["S^ROOT -> NP^S VP^S ."] == pytest.approx(2 / 3)
    assert rules["NP^S -> DT NN"] == pytest.approx(2 / 3)
    assert rules["NP^VP -> DT JJ JJ NN"] == 1.0
    assert "S^SBAR^VP -> NP^S^SBAR VP^S^SBAR" in weights(induce(trees, Induction(vertical=3)))


def test_horizontal_markovization_keeps_few_siblings(trees: list[Tree]) -> None:
    one = weights(induce(trees, Induction(horizontal=1)))
    assert one["NP -> DT NP|<DT>"] == 0.25
    assert one["NP|<DT> -> JJ NP|<JJ>"] == 1.0
    assert one["NP|<JJ> -> JJ NN"] == 1.0
    none = weights(induce(trees, Induction(horizontal=0)))
    assert none["NP|<> -> JJ NP|<>"] == none["NP|<> -> JJ NN"] == 0.5
    both = weights(induce(trees, Induction(horizontal=5, vertical=2)))
    assert both["NP^VP|<DT-JJ> -> JJ NN"] == 1.0


def test_chains_become_one_symbol(trees: list[Tree]) -> None:
    rules = weights(induce(trees, Induction(collapse_unary=True)))
    assert rules["ROOT -> S"] == pytest.approx(2 / 3)
    assert rules["ROOT -> S+VP"] == pytest.approx(1 / 3)
    assert rules["S+VP -> VBZ"] == 1.0
    assert rules["VP -> VBD SBAR+S"] == pytest.approx(1 / 3)
    assert "NP -> NNP" in rules  # a word keeps its tag


OPTIONS = [
    Induction(),
    Induction(collapse_unary=True),
    Induction(vertical=3),
    Induction(horizontal=0),
    Induction(horizontal=2, vertical=2, collapse_unary=True),
    Induction(strip_functions=False, drop_traces=False),
    Induction(rare=1, horizontal=1),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_restore_inverts_derivation(trees: list[Tree], options: Induction) -> None:
    found = induce(trees, options)
    plain = induce(trees, Induction(options.strip_functions, options.drop_traces))
    assert len(trees) > 0
    for tree in trees:
        parse = found.derivation(tree)
        assert parse.words() == plain.derivation(tree).words()
        # With cleaning as the only transformation, the parse is the tree.
        wanted = brackets.to_text(plain.restore(plain.derivation(tree)))
        assert brackets.to_text(found.restore(parse)) == wanted
        assert found.parser().parse(parse.words()).log_weight >= parse.log_weight - 1e-9


def test_rare_words_are_replaced_by_their_class(trees: list[Tree]) -> None:
    found = induce(trees, Induction(rare=1))
    rules = weights(found)
    assert rules["VBD -> 'saw'"] == 1.0
    assert rules["VBZ -> 'UNK:s'"] == 1.0  # barks and sleeps
    assert rules["NNP -> 'UNK'"] == 1.0  # Rex is the only word of its class
    assert rules["NN -> 'cat'"] == pytest.approx(2 / 3)
    parse = found.parser().parse("Fido sings .")
    assert parse.words() == ("Fido", "sings", ".")
    assert brackets.to_text(found.restore(parse)) == "(ROOT (S (NP (NNP Fido)) (VP (VBZ sings)) (. .)))"
    with pytest.raises(ImpossibleError, match="does not have the words 'Fido', 'sings'"):
        induce(trees).parser().parse("Fido sings .")


@pytest.mark.parametrize(
    ("word", "classes"),
    [
        ("running", ("UNK:ing", "UNK")),
        ("NATO", ("UNK:caps", "UNK")),
        ("A", ("UNK:cap", "UNK")),
        ("1,000s", ("UNK:num", "UNK")),
        ("Anglo-American", ("UNK:cap:dash", "UNK:cap", "UNK")),
        ("-", ("UNK",)),
        ("", ("UNK",)),
        ("as", ("UNK",)),
    ],
)
def test_classes_from_fine_to_coarse(word: str, classes: tuple[str, ...]) -> None:
    assert word_classes(word) == classes


def test_labels_of_any_characters_are_not_confused() -> None:
    place = SourceLocation("t", 1)
    word = Tree("N", (), "x", place)
    chain = Tree("A", (Tree("B", (word, word), None, place),), None, place)
    real = Tree("A+B", (word,), None, place)
    top = Tree("", (chain, real, Tree("B^A", (word,), None, place), Tree("ROOT", (word,), None, place)), None, place)
    found = induce([top], Induction(collapse_unary=True, vertical=2))
    assert brackets.to_text(found.restore(found.derivation(top))) == brackets.to_text(top).replace("( (", "(ROOT (", 1)
    assert parse_grammar(format_grammar(found.grammar)) == found.grammar


def test_trees_without_words_are_counted_and_skipped(trees: list[Tree]) -> None:
    place = SourceLocation("t.mrg", 7)
    trace = Tree("S", (Tree("-NONE-", (), "*", place),), None, place)
    found = induce([*trees, trace])
    assert (found.trees, found.empty) == (3, 1)
    with pytest.raises(DataError, match="cannot be induced: none of 1 trees has a word"):
        induce([trace])
    with pytest.raises(DataError, match=r"The tree at t.mrg:7 has no word left"):
        found.derivation(trace)
    strange = Tree("S", (Tree("XX", (), "cat", place),), None, place)
    with pytest.raises(DataError, match=r"The tree at t.mrg:7 uses .*, which is not in the grammar"):
        found.derivation(strange)
    with pytest.raises(DataError, match="vertical must be at least 1, horizontal and rare at least 0, got 0"):
        Induction(vertical=0)


def test_trees_deeper_than_stack() -> None:
    place = SourceLocation("t", 1)
    tree = Tree("N", (), "x", place)
    for _ in range(2000):
        tree = Tree("A", (tree, Tree("N", (), "x", place)), None, place)
    found = induce([tree], Induction(vertical=2, horizontal=1))
    assert len(found.derivation(tree).words()) == 2001


def test_real_treebank(real_data: Path) -> None:
    trees = []
    for tree in brackets.read(real_data / "ptb_sample_brackets" / "wsj_0001-0199.mrg"):
        trees.append(tree)
        if len(trees) == 500:
            break
    found = induce(trees, Induction(rare=1))
    assert found.grammar.is_normalized()
    assert found.trees == 500
    tops = Counter(tree.children[0].label.split("-")[0] for tree in trees)
    assert weights(found)["ROOT -> S"] == pytest.approx(tops["S"] / 500)
    assert not any(symbol.name == "-NONE-" for symbol in found.grammar.nonterminals)
    parser = found.parser()
    for tree in trees[1:60]:
        gold = found.derivation(tree)
        if len(gold.words()) <= 12:
            best = parser.parse(gold.words())
            assert gold.log_weight <= best.log_weight + 1e-9 <= parser.log_total(gold.words()) + 2e-9
            assert found.restore(best).words() == gold.words()
    assert parse_grammar(format_grammar(found.grammar)) == found.grammar
