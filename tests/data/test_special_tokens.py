from __future__ import annotations

import ast
from pathlib import Path

import catena
from catena.data import special_tokens


def test_special_tokens_are_distinct_and_complete() -> None:
    named = {value for name, value in vars(special_tokens).items() if name.endswith("_SYMBOL")}
    assert set(special_tokens.SPECIAL_TOKENS) == named
    assert len(special_tokens.SPECIAL_TOKENS) == len(named)


def test_no_other_module_defines_a_special_token() -> None:
    found = []
    for path in sorted(Path(catena.__file__).parent.rglob("*.py")):
        if path.name == "special_tokens.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in special_tokens.SPECIAL_TOKENS:
                found.append(f"{path}:{node.lineno}")
    assert not found
