"""Words of the sources and docs: no private idiom, and errors, docstrings and names in one form.

Every finding is printed as ``file:line: phrase -> word``. ``style_baseline.json`` counts what was there when the lint
was introduced, for each rule and file; a count may fall and never rise. ``pytest tests/test_style.py --update-style``
writes the file after texts have been improved. A line may opt out by a trailing ``# style: <reason>``.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
BASELINE = Path(__file__).parent / "style_baseline.json"

HARD = {
    r"\b[Aa]sk(s|ed|ing)?\b": "request, query, 'if n_best is set'",
    r"\b[Mm]embers?\b": "structure, sequence, tree; of an ensemble: model",
    r"\b([Tt]old|[Tt]ells?|[Tt]elling)\b|what is (told|said|asked)": "given, reported, shows, returns",
    r"\b([Hh]ouse|[Rr]ooms?)\b": "package, subpackage; of memory: buffer, capacity",
    r"\b[Ss]lopes?\b|\b[Cc]hances?\b": "gradient, probability",
    r"(?<!there )(?<!There )\b(is|are|was|were|be) no\b": "is not a",
    r"\banew\b|\b[Ll]ikewise\b|\balike\b|\b[Bb]ut for\b": "again, also, the same, except",
    r"\b[Ss]o many\b": "N, the number of",
    r"\b[Ww]ish(es)?\b": "constraint",
    r"is that of|are those of": "name the thing again",
    r"\b(learnt|spelt|spoilt)\b": "learned, spelled, invalid",
    r"\b[Aa] person\b|\b[Ww]hoever\b|\bgoes? on\b|of (one|another|either) make": "you, any, continue, of the same kind",
    r"\blikeliest\b|in falling order|whole numbers?\b": "most probable, in descending order, integer",
}
SOFT = {
    r"\b([Bb]eside|[Bb]eyond|of which|[Ww]hatever|[Pp]eople|[Aa]t once|drawn|weigh|twin)\b": "a plainer word",
    r"\bstands? (in|at|for|before|behind)\b": "is",
    r"\balone\b": "only",
    r"\bshare\b": "fraction",
    r"(?<!in )\bplace\b": "index, position, slot, location",
}
NAMES = re.compile(r"``[^`]+``|^ +\w+: ")
"""Names in docstrings: code, and the parameters of ``Args:``. They are not prose; ``check_names`` reads them."""
WORDS = re.compile("|".join(HARD | SOFT))
DOCSTRING_ONLY = {r"\b[Rr]efuse[sd]?\b": "Raise X if ..."}
ERROR_ONLY = {r", and (is|has|are) |but it (is|has)\b": "must be ..., got {value}. Cure."}
BRITISH = re.compile(r"(is(e|ed|er|ing|ation)$|[a-z]is(e|ed|er)_|colour|neighbour|labelled|metre)", re.IGNORECASE)
NOT_BRITISH = re.compile(r"(raise|noise|rise|wise|precise|exercise|promise|raised|noised|advertise|otherwise)(_|$)")


class Finding(NamedTuple):
    rule: str
    file: str
    line: int
    text: str


def python_files() -> list[Path]:
    folders = ("src", "tests", "benchmarks", "examples")
    mine = Path(__file__).resolve()
    return [p for f in folders for p in sorted((ROOT / f).rglob("*.py")) if p.resolve() != mine]


def doc_files() -> list[Path]:
    return [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]


class Parsed:
    """The nodes of a source that the rules read, found in one walk: most of the time of the lint is here."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self.strings: list[ast.Constant] = []
        self.tests: list[ast.FunctionDef] = []
        self.docstrings: list[ast.Constant] = []
        self.raised: list[tuple[int, str]] = []
        """The texts of ``raise`` statements, with {} for values."""
        nodes: list[ast.AST] = [tree]
        while nodes:
            node = nodes.pop()
            self._read(node)
            for field in node._fields:
                child = getattr(node, field, None)
                if isinstance(child, list):
                    nodes += [one for one in child if isinstance(one, ast.AST)]
                elif isinstance(child, ast.AST) and child._fields:  # Load, Store and operators have none
                    nodes.append(child)

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.strings.append(node)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                self.docstrings.append(node.body[0].value)  # type: ignore[attr-defined]
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                self.tests.append(node)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = literal(node.exc.args[0])
            if text:
                self.raised.append((node.lineno, text))


def literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return ""


def prose(parsed: Parsed) -> Iterator[tuple[int, str]]:
    """Comments, string literals and test names, line by line."""
    after_hash = "\n".join(line.partition("#")[2] for line in parsed.source.split("\n") if "#" in line)
    if WORDS.search(after_hash):  # only tokens decide whether it is a comment, and they take long
        for token in tokenize.generate_tokens(io.StringIO(parsed.source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in parsed.strings:
        for offset, line in enumerate(node.value.split("\n")):  # type: ignore[union-attr]
            yield node.lineno + offset, NAMES.sub("", line)
    for test in parsed.tests:
        yield test.lineno, test.name.replace("_", " ")


def match(patterns: dict[str, str], file: str, lines: Iterator[tuple[int, str]]) -> Iterator[Finding]:
    quick = re.compile("|".join(patterns))
    for number, text in lines:
        if not quick.search(text):
            continue
        for pattern, word in patterns.items():
            for found in re.finditer(pattern, text):
                yield Finding(pattern, file, number, f"{found.group()} -> {word}")


@cache
def findings() -> tuple[Finding, ...]:
    found: list[Finding] = []
    for path in python_files():
        file, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        found += check_python(file, source, tree)
    for path in doc_files():
        lines = page_prose(path.read_text(encoding="utf-8"))
        found += match(HARD | SOFT, path.relative_to(ROOT).as_posix(), lines)
    return tuple(found)


def page_prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page without data and names of options.

    Data are quoted strings in blocks of code, and block quotes such as generated texts.
    """
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        in_code ^= line.startswith("```")
        if not line.startswith(">"):
            yield number, re.sub(r'"[^"]*"|\'[^\']*\'' if in_code else "`--[^`]*`", "", line)


def check_python(file: str, source: str, tree: ast.Module) -> list[Finding]:
    exempt = {number for number, line in enumerate(source.split("\n"), 1) if "# style: " in line}
    parsed = Parsed(source, tree)
    found = list(match(HARD | SOFT, file, prose(parsed)))
    if file.startswith("src/"):
        docs = [(c.lineno + i, line) for c in parsed.docstrings for i, line in enumerate(str(c.value).split("\n"))]
        found += match(DOCSTRING_ONLY, file, iter(docs))
        found += match(ERROR_ONLY, file, iter(parsed.raised))
        found += check_errors(file, parsed)
        found += check_first_sentences(file, parsed)
        found += check_names(file, tree)
    return [finding for finding in found if finding.line not in exempt]


def check_errors(file: str, parsed: Parsed) -> Iterator[Finding]:
    for line, text in parsed.raised:
        if " must " in text and not re.search(r"must .+, got .+\. ([A-Z].+\.|\{\})$", text, re.DOTALL):
            yield Finding("error form", file, line, f"{text[:60]!r} -> <name> must be <need>, got <value>. <Cure>.")


def check_first_sentences(file: str, parsed: Parsed) -> Iterator[Finding]:
    for constant in parsed.docstrings:
        first = str(constant.value).strip().split("\n\n")[0]
        line = first.split("\n")[0]
        if not re.search(r"[.!?]($|\s)", line) or line.rstrip().endswith((";", ":", ",")):
            yield Finding("first sentence", file, constant.lineno, f"{line[:60]!r} -> one sentence on one line")


def check_names(file: str, tree: ast.Module) -> Iterator[Finding]:
    for node in tree.body:
        name = getattr(node, "name", "")
        if isinstance(node, ast.FunctionDef) and not name.startswith("_") and re.search(r"_of$", name):
            yield Finding("x_of", file, node.lineno, f"{name} -> verb and object")
        if name and BRITISH.search(name) and not NOT_BRITISH.search(name):
            yield Finding("american spelling", file, node.lineno, name)


def counted() -> dict[str, dict[str, int]]:
    """The number of findings for each rule and file."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for finding in findings():
        counts[finding.rule][finding.file] += 1
    return {rule: dict(sorted(files.items())) for rule, files in sorted(counts.items())}


def test_findings_of_every_file_equal_the_baseline(request: pytest.FixtureRequest) -> None:
    """A text may improve, and what was improved stays improved."""
    now = counted()
    if request.config.getoption("--update-style"):
        BASELINE.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    before = json.loads(BASELINE.read_text(encoding="utf-8"))
    grown = {(r, f) for r, files in now.items() for f, n in files.items() if n > before.get(r, {}).get(f, 0)}
    lines = [f"{f.file}:{f.line}: {f.text}" for f in findings() if (f.rule, f.file) in grown]
    assert not lines, "\n".join(lines)
    slack = [f"{f}: {r}" for r, fs in before.items() for f, n in fs.items() if now.get(r, {}).get(f, 0) < n]
    assert not slack, "run pytest tests/test_style.py --update-style:\n" + "\n".join(slack)


def test_baseline_has_only_soft_findings() -> None:
    assert set(json.loads(BASELINE.read_text(encoding="utf-8"))) <= set(SOFT)


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('"""What is asked of it."""', r"\b[Aa]sk(s|ed|ing)?\b"),
        ("x = 1  # a person reads it", r"\b[Aa] person\b|\b[Ww]hoever\b|\bgoes? on\b|of (one|another|either) make"),
        ('def f(x):\n    raise ValueError(f"x must be 1, and is {x}")', "error form"),
        ('"""Half a\nsentence."""', "first sentence"),
        ("def scores_of(x): ...", "x_of"),
        ("class Tokeniser: ...", "american spelling"),
    ],
)
def test_lint_finds_each_kind_of_fault(source: str, rule: str) -> None:
    assert rule in {f.rule for f in check_python("src/catena/x.py", source, ast.parse(source))}


def test_lint_skips_lines_that_opt_out() -> None:
    source = "x = 1  # a person reads it  # style: quoted"
    assert check_python("src/catena/x.py", source, ast.parse(source)) == []


def test_lint_of_pages_skips_data_and_reads_the_rest() -> None:
    page = 'So many houses.\n```python\nx = "the house"  # a house\n```\n> It is no more.\nA room.\n'
    assert [line for number, line in page_prose(page) if number in (1, 3, 6)] == [
        "So many houses.",
        "x =   # a house",
        "A room.",
    ]
    assert all(number != 5 for number, _ in page_prose(page))


def test_lint_accepts_plain_text() -> None:
    source = '"""Sum of scores."""\ndef f(x):\n    raise ValueError(f"x must be 1, got {x}. Pass 1.")\n'
    assert check_python("src/catena/x.py", source, ast.parse(source)) == []
