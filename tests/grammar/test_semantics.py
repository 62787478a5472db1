"""Meanings of rules and logical forms of sentences."""

from __future__ import annotations

import pytest

from catena.errors import DataError, FormatError, LimitError
from catena.grammar.cfg import Rule
from catena.grammar.files import format_grammar, parse_grammar
from catena.grammar.lambda_calculus import alpha_equal
from catena.grammar.parse import CFGParser
from catena.grammar.semantics import check_meaning, distinct, rule_meaning
from catena.grammar.term_notation import parse_term
from tests.grammar.grammars import N

FRAGMENT = r"""
S -> NP VP           {sem: NP.sem(VP.sem)}
S -> NP V NP         {sem: NP[2].sem(\y.NP[1].sem(\x.V.sem(x,y)))}
NP -> Det N          {sem: Det.sem(N.sem)}
NP -> 'Rex'          {sem: \P.P(rex)}
NP -> NP 'and' NP    {sem: \P.(NP[1].sem(P) & NP[2].sem(P))}
VP -> V NP           {sem: \x.NP.sem(\y.V.sem(x,y))}
VP -> 'barks'        {sem: bark}
VP -> 'does' 'not' 'bark' {sem: \x.-bark(x)}
Det -> 'every'       {sem: \P Q.all x.(P(x) -> Q(x))}
Det -> 'a'           {sem: \P Q.exists x.(P(x) & Q(x))}
Det -> 'no'          {sem: \P Q.-exists x.(P(x) & Q(x))}
N -> 'dog'           {sem: dog}
N -> 'cat'           {sem: cat}
N -> Adj N           {sem: \x.(Adj.sem(x) & N.sem(x))}
Adj -> 'big'         {sem: big}
V -> 'chases'        {sem: chase}
"""


@pytest.fixture(scope="module")
def parser() -> CFGParser:
    return CFGParser(parse_grammar(FRAGMENT))


@pytest.mark.parametrize(
    ("sentence", "form"),
    [
        ("Rex barks", "bark(rex)"),
        ("Rex does not bark", "-bark(rex)"),
        ("every dog barks", "all x.(dog(x) -> bark(x))"),
        ("no big dog barks", "-(exists x.((big(x) & dog(x)) & bark(x)))"),
        ("a dog and Rex barks", "(exists x.(dog(x) & bark(x))) & bark(rex)"),
    ],
)
def test_logical_forms_of_sentences(parser: CFGParser, sentence: str, form: str) -> None:
    assert alpha_equal(parser.parse(sentence).logical_form(), parse_term(form))
    assert len(parser.logical_forms(sentence)) == 1


def test_quantifiers_have_two_scopes(parser: CFGParser) -> None:
    forms = parser.logical_forms("every dog chases a cat")
    narrow = parse_term("all x.(dog(x) -> exists y.(cat(y) & chase(x,y)))")
    wide = parse_term("exists y.(cat(y) & all x.(dog(x) -> chase(x,y)))")
    assert len(forms) == 2
    assert any(alpha_equal(form, narrow) for form in forms)
    assert any(alpha_equal(form, wide) for form in forms)
    assert len(parser.logical_forms("Rex chases Rex")) == 1  # two parses with the same meaning


def test_variables_of_different_phrases_are_not_confused() -> None:
    # Every noun phrase binds x: without renaming the inner one would capture the outer.
    text = FRAGMENT.replace("\\y.", "\\x.").replace("V.sem(x,y)", "V.sem(z,x)").replace("\\x.NP.sem", "\\z.NP.sem")
    form = CFGParser(parse_grammar(text)).logical_forms("every dog chases a cat")
    assert any(alpha_equal(one, parse_term("all x.(dog(x) -> exists y.(cat(y) & chase(x,y)))")) for one in form)


def test_rule_over_one_symbol_passes_its_meaning_on() -> None:
    grammar = parse_grammar("S -> NP\nNP -> 'Rex' {sem: rex}")
    assert str(CFGParser(grammar).parse("Rex").logical_form()) == "rex"
    assert str(rule_meaning(Rule(N("S"), (N("NP"),)))) == r"\part_1.part_1"


def test_names_with_special_characters() -> None:
    grammar = parse_grammar(
        "S -> <PRP$> N' {sem: N'.sem(<PRP$>.sem)}\n<PRP$> -> 'his' {sem: he}\nN' -> 'dog' {sem: dog_of}"
    )
    assert str(CFGParser(grammar).parse("his dog").logical_form()) == "dog_of(he)"
    assert parse_grammar(format_grammar(grammar)) == grammar


def test_part_named_like_variable() -> None:
    rule = Rule(N("S"), (N("x"), N("y")), 1.0, r"\x.y.sem(x, x.sem)")
    assert str(rule_meaning(rule)) == r"\part_1 part_2 x.part_2(x,part_1)"
    assert str(rule_meaning(Rule(N("S"), ("a",), 1.0, r"\x.sem(x)"))) == r"\x.sem(x)"


@pytest.mark.parametrize(
    ("right", "meaning", "words"),
    [
        (
            (N("NP"), N("VP")),
            "VPP.sem(NP.sem)",
            r"means VPP.sem, but S -> NP VP has no part 'VPP': did you mean 'VP'\?",
        ),
        ((N("NP"), N("NP")), "NP.sem", r"means NP.sem, but S -> NP NP has 2 parts 'NP': write NP\[1\].sem"),
        ((N("NP"), N("NP")), "NP[3].sem", r"means NP\[3\].sem, but S -> NP NP has 2 parts 'NP'"),
        ((N("NP"), N("NP")), "NP[0].sem", r"means NP\[0\].sem, but"),
        (("a",), "x.sem", "means x.sem, but S -> 'a' has no part 'x': there are none"),
        (("a",), "f(", "has an invalid meaning: The term 'f\\('"),
    ],
)
def test_invalid_meanings_raise(right: tuple, meaning: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        check_meaning(Rule(N("S"), right, 1.0, meaning))


def test_parses_without_logical_form_raise() -> None:
    grammar = parse_grammar("S -> NP VP\nNP -> 'Rex' {sem: rex}\nVP -> 'barks'")
    with pytest.raises(DataError, match="The rule VP -> 'barks' has no meaning, so its parses have no logical form"):
        CFGParser(grammar).parse("Rex barks").logical_form()
    endless = parse_grammar(r"S -> 'a' {sem: (\x.x x x)(\x.x x x)}")
    with pytest.raises(LimitError, match="no normal form within 50 steps"):
        CFGParser(endless).parse("a").logical_form(steps=50)


def test_distinct_forms() -> None:
    forms = [parse_term(text) for text in (r"\x.x", r"\y.y", "dog", r"\x.y", "dog")]
    assert [str(form) for form in distinct(forms)] == [r"\x.x", "dog", r"\x.y"]
