"""Grammar files: three styles, round trips, errors with file and line, and arbitrary content."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import CatenaError, DataError, FormatError
from catena.grammar.cfg import Grammar, Rule
from catena.grammar.files import format_grammar, parse_grammar, read_grammar, write_grammar
from tests.grammar.grammars import N

NLTK = """
# a comment
%start S
S -> NP VP [0.8] | 'yes' [0.2]   # and another
NP -> Det N' [1.0]
Det -> 'the' [0.5] | "a" [0.25] \\
     | '' [0.25]
N' -> 'dog' [0.75]
    | 'cat' [0.25]
VP->'barks'[1]
"""
BNF = """
<S> ::= <NP> <VP> [0.8] | yes [0.2]
<NP> ::= <Det> <N'> [1]
<Det> ::= the [.5] | "a" [.25] | "" [.25]
<N'> ::= dog [.75]
  | 'cat' [25e-2]
<VP> ::= barks [1]
"""
WEIGHTED = (
    "# The start symbol is S.\n0.8\tS\tNP VP\n.2 S yes\n1\tNP\tDet N'\n0.5\tDet\tthe  # the article\n0.25\tDet\ta\n"
)
WEIGHTED += "0.25\tDet\t\n0.75\tN'\tdog\n0.25\tN'\tcat\n1\tVP\tbarks\n"


def expected() -> Grammar:
    return Grammar.of(
        [
            Rule(N("S"), (N("NP"), N("VP")), 0.8),
            Rule(N("S"), ("yes",), 0.2),
            Rule(N("NP"), (N("Det"), N("N'"))),
            Rule(N("Det"), ("the",), 0.5),
            Rule(N("Det"), ("a",), 0.25),
            Rule(N("Det"), (), 0.25),
            Rule(N("N'"), ("dog",), 0.75),
            Rule(N("N'"), ("cat",), 0.25),
            Rule(N("VP"), ("barks",)),
        ]
    )


@pytest.mark.parametrize("text", [NLTK, BNF, WEIGHTED], ids=["nltk", "bnf", "weighted"])
def test_three_styles_give_same_grammar(text: str) -> None:
    assert parse_grammar(text) == expected()


@pytest.mark.parametrize("style", ["nltk", "bnf", "weighted"])
def test_written_grammar_reads_back(style: str, tmp_path: Path) -> None:
    write_grammar(expected(), tmp_path / "grammar", style=style)
    assert read_grammar(tmp_path / "grammar") == expected()
    (tmp_path / "grammar.gz").write_bytes(gzip.compress((tmp_path / "grammar").read_bytes()))
    assert read_grammar(tmp_path / "grammar.gz", style=style) == expected()


def test_several_files_give_one_grammar(tmp_path: Path) -> None:
    (tmp_path / "rules.gr").write_text("99\tSTART\tS1\n1\tSTART\tS2\n1\tS1\tNoun .\n1\tS2\n")
    (tmp_path / "words.gr").write_text("1\tNoun\tcastle\n2\tNoun\tking\n1\tNoun\tcastle\n")
    grammar = read_grammar([tmp_path / "rules.gr", tmp_path / "words.gr"])
    assert grammar.start == N("START")
    assert [(str(rule), rule.weight) for rule in grammar.rules] == [
        ("START -> S1", 99.0),
        ("START -> S2", 1.0),
        ("S1 -> Noun '.'", 1.0),
        ("S2 -> ε", 1.0),
        ("Noun -> 'castle'", 2.0),  # twice in the file, so the sum
        ("Noun -> 'king'", 2.0),
    ]


def test_start_symbol_comes_from_argument_or_file() -> None:
    text = "A -> 'a'\nS -> A"
    assert parse_grammar(text).start == N("A")
    assert parse_grammar("%start S\n" + text).start == N("S")
    assert parse_grammar("%start S\n" + text, start="A").start == N("A")
    assert parse_grammar("1 A a\n1 ROOT A").start == N("ROOT")


def test_duplicate_rule_in_unweighted_file_is_one_rule() -> None:
    assert len(parse_grammar("S -> 'a' | 'a'\nS -> 'a'").rules) == 1


def test_names_and_words_of_any_characters() -> None:
    text = "%start <,>\n<,> -> ',' <PRP$> | \"don't\" <''>\n"
    text += "<PRP$> -> '\\\\/' | '\\''\n<''> -> 'ε' | ε X/Y^<Z>\nX/Y^<Z> -> '#'"
    grammar = parse_grammar(text)
    comma, pronoun, quote, slash = N(","), N("PRP$"), N("''"), N("X/Y^<Z>")
    assert [(rule.left, rule.right) for rule in grammar.rules] == [
        (comma, (",", pronoun)),
        (comma, ("don't", quote)),
        (pronoun, ("\\/",)),
        (pronoun, ("'",)),
        (quote, ("ε",)),
        (quote, (slash,)),
        (slash, ("#",)),
    ]
    assert parse_grammar(format_grammar(grammar)) == grammar


ANY_TEXT = st.text(min_size=1, max_size=4) | st.sampled_from(
    ["'", '"', "#", "->", "→", "::=", "|", "[1]", "{}", "<a>", "%start", "\\", "ε", "a b", "\n", "N'", "\x00", "\ud800"]
)


@given(
    rules=st.lists(
        st.tuples(ANY_TEXT, st.lists(st.tuples(st.booleans(), ANY_TEXT), max_size=3), st.floats(0, 1e300)),
        min_size=1,
        max_size=5,
    ),
    style=st.sampled_from(["nltk", "bnf"]),
)
def test_any_grammar_reads_back(rules: list, style: str) -> None:
    found = {}
    for left, parts, weight in rules:
        right = tuple(N(name) if is_name else name for is_name, name in parts)
        found[left, right] = Rule(N(left), right, weight)
    lefts = {rule.left for rule in found.values()}
    undefined = {s for rule in found.values() for s in rule.right if not isinstance(s, str)} - lefts
    closing = {("", s): Rule(s, ("x",), 0.5) for s in undefined}
    grammar = Grammar.of([*found.values(), *closing.values()])
    if not grammar.is_weighted:
        grammar = grammar.unweighted()
    assert parse_grammar(format_grammar(grammar, style=style)) == grammar


def test_grammars_that_style_cannot_represent_raise() -> None:
    with pytest.raises(
        DataError, match=r"cannot be written in the style 'weighted', because a -> 'a' would read differently. Use"
    ):
        format_grammar(parse_grammar("a -> 'a'"), style="weighted")
    with pytest.raises(DataError, match=r"cannot be written in the style 'nltk': .* uses the nonterminal 'X'"):
        format_grammar(Grammar.of([Rule(N("S"), (N("X"),))]))
    with pytest.raises(DataError, match="cannot be written in the style 'nltk': the text:2 has"):
        format_grammar(Grammar.of([Rule(N("S"), ("a",), 1.0, "bank} here")]))
    with pytest.raises(DataError, match=r"style must be one of 'nltk', 'bnf', 'weighted', got 'ntlk'"):
        format_grammar(parse_grammar("a -> 'a'"), style="ntlk")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "S -> 'a'\nS NP VP",
            r"g:2 has no arrow after its first symbol; the line is 'S NP VP'. Write a rule as S -> NP",
        ),
        ("\n\nS -> 'a' -> 'b'", "g:3 has a second arrow '->'"),
        ("S -> 'a", "g:1 has a quote that is not closed at character 6"),
        ("S -> [0.5", r"g:1 has a \[ that is not closed at character 6"),
        ("S -> 'a' [x]", "g:1 has 'x' instead of a weight such as 0.25"),
        ("S -> 'a' [-1]", "g:1 has the weight -1, which is negative or not finite"),
        ("S -> 'a' [nan]", "g:1 has the weight nan"),
        ("S -> 'a' [1] [2]", r"g:1 has a second weight \[2\]"),
        ("S -> 'a' [1] 'b'", "g:1 has 'b' after the weight or meaning; write these last"),
        ("S -> 'a' [1]\nS -> 'b'", "g:2 has no weight at an alternative, but the previous ones have a weight"),
        ("S -> 'a'\nS -> 'b' [1]", "g:2 has a weight at an alternative, but the previous ones have no weight"),
        ("'S' -> 'a'", "g:1 has 'S' before its arrow instead of a nonterminal"),
        ("<s> ::= a\nt ::= b", "g:2 has 't' before its arrow"),
        ("<> ::= a", "g:1 has a nonterminal <> without a name"),
        ("S -> NP\nNPP -> 'a'", r"g:1 uses the nonterminal 'NP', which has no rule \(did you mean 'NPP'\?\)"),
        ("%begin S\nS -> 'a'", "g:1 has the unknown command %begin; the only command is %start"),
        ("%start\nS -> 'a'", "g:1 does not name one nonterminal after %start"),
        ("%start X\nS -> 'a'", "g: The start symbol 'X' has no rule: known are 'S'"),
        ("0.5 S a\nx S b", "g:2 has 'x' instead of a weight such as 0.25; .* such as 0.8 S NP VP"),
        ("0.5 S a\n1", "g:2 has no left side after its weight"),
        ("hello world", "g:1 is not a rule of any style"),
        ("# nothing\n", "g contains no rule: it is empty or has only comments"),
        ("S -> 'a' {sem: NP.sem}", "g:1 means NP.sem, but S -> 'a' has no part 'NP'"),
        ("S -> 'a' {sem: dog(}", r"g:1 has an invalid meaning: The term 'dog\(' ends before a term"),
        ("S -> 'a' {a} {b}", "g:1 has a second meaning {b}"),
        ("S -> 'a' {}", "g:1 has a meaning {} without a term"),
    ],
)
def test_errors_name_file_and_line(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        parse_grammar(text, name="g")


def test_missing_and_binary_files_raise(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="File not found"):
        read_grammar(tmp_path / "grammar.cfg")
    (tmp_path / "grammar.cfg").write_bytes(b"S -> 'caf\xe9'\n")
    with pytest.raises(FormatError, match=r"grammar.cfg:1 is not UTF-8"):
        read_grammar(tmp_path / "grammar.cfg")
    assert read_grammar(tmp_path / "grammar.cfg", encoding="latin-1").terminals == {"café"}
    with pytest.raises(DataError, match="could not be written to"):
        write_grammar(expected(), tmp_path / "no" / "folder")
    with pytest.raises(FormatError, match="contains no rule"):
        read_grammar([])


PIECES = [
    "S",
    "->",
    "::=",
    "|",
    "'a'",
    '"',
    "'",
    "[0.5]",
    "[",
    "]",
    "{sem: x}",
    "{",
    "<s>",
    "<",
    ">",
    "#",
    "%start",
    "\\",
    "\n",
]
PIECES += ["1", "0.5\tS\tA", "ε", "\t", " ", "→", "NP.sem", "\x00", "é", "|", "S -> A\n"]


@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join),
    st.sampled_from(["nltk", "bnf", "weighted", None]),
)
def test_any_text_raises_only_format_errors(text: str, style: str | None) -> None:
    try:
        grammar = parse_grammar(text, style=style)
    except CatenaError:
        return
    assert parse_grammar(format_grammar(grammar)) == grammar


def test_published_grammars_are_read(real_data: Path) -> None:
    folder = real_data / "grammars"
    atis = read_grammar(folder / "atis.cfg")
    assert atis.start == N("SIGMA")
    assert len(atis.rules) == 5517
    assert "o'clock" in atis.terminals
    weighted = read_grammar([folder / "holygrail_pcfg" / f"{name}.gr" for name in ("S1", "S2", "Vocab")])
    assert weighted.start == N("START")
    assert [rule.weight for rule in weighted.by_left[N("START")]] == [99.0, 1.0]
    assert "coconut" in weighted.terminals
    assert parse_grammar(format_grammar(weighted, style="weighted")) == weighted
    for grammar in (weighted, read_grammar(folder / "toy.cfg")):
        assert parse_grammar(format_grammar(grammar)) == grammar
    assert format_grammar(atis).count("\n") == 5518  # written, and read back by format_grammar
