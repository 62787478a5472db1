"""Registries: unique names, mapping interface, suggestions for unknown names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from catena.errors import CatenaError, UnknownNameError
from catena.registry import Registry, did_you_mean, nearest

ROOT = Path(__file__).parent.parent


def test_docs_list_every_registry_with_its_file() -> None:
    source, page = ROOT / "src" / "catena", (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    found = 0
    for path in sorted(set(source.rglob("*.py")) - {source / "registry.py"}):
        for name in re.findall(r"^(\w+): Registry\[", path.read_text(encoding="utf-8"), re.MULTILINE):
            found += 1
            rows = [line for line in page.splitlines() if f"`{name}`" in line]
            assert any(f"`{path.relative_to(source).as_posix()}`" in row for row in rows), f"{name} of {path}"
    assert found > 10


def poolings() -> Registry[str]:
    table: Registry[str] = Registry("pooling")
    for name in ("max", "mean", "first-last"):
        table.register(name)(name.upper())
    return table


def test_registry_is_a_mapping() -> None:
    table = poolings()
    assert table["max"] == "MAX"
    assert "max" in table
    assert "min" not in table
    assert list(table) == ["max", "mean", "first-last"]
    assert len(table) == 3
    assert dict(table) == {"max": "MAX", "mean": "MEAN", "first-last": "FIRST-LAST"}
    assert table.get("min") is None


def test_register_returns_the_decorated_object() -> None:
    table: Registry[type] = Registry("encoder")

    @table.register("lstm")
    class Lstm:
        pass

    assert table["lstm"] is Lstm


def test_register_same_name_twice_raises() -> None:
    with pytest.raises(ValueError, match=r"^The pooling 'max' is already registered"):
        poolings().register("max")("other")


def test_unknown_name_error_suggests_similar_names() -> None:
    with pytest.raises(UnknownNameError, match=r"^no pooling is called 'maxx': did you mean 'max'\?$"):
        poolings()["maxx"]
    with pytest.raises(UnknownNameError, match=r"^no pooling is called 'zzz': known are 'first-last', 'max', 'mean'$"):
        poolings()["zzz"]
    with pytest.raises(UnknownNameError, match=r"^no model is called 'x': there are none$"):
        Registry("model")["x"]


def test_the_error_is_a_key_error_without_quotes_around_it() -> None:
    with pytest.raises(KeyError) as caught:
        poolings()["maxx"]
    assert isinstance(caught.value, CatenaError)
    assert str(caught.value).startswith("no pooling")


def test_nearest_ignores_case_and_hyphens() -> None:
    assert nearest("First_Last", ["first-last", "max"]) == ["first-last"]
    assert nearest("MAXI", ["max", "mean"]) == ["max"]
    assert nearest("zzz", ["max", "mean"]) == []
    assert nearest("x", []) == []


def test_nearest_is_best_first_and_leaves_out_what_is_much_worse() -> None:
    assert nearest("learning_rat", ["learning_rate", "learning_rates", "earning"])[0] == "learning_rate"
    assert nearest("windos", ["windows", "kind"]) == ["windows"]
    assert len(nearest("aaaa", ["aaab", "aaac", "aaad", "aaae"], most=2)) == 2


def test_did_you_mean_lists_similar_or_all_names() -> None:
    assert did_you_mean("aab", ["aaa", "aac"]) == "did you mean 'aac' or 'aaa'?"
    assert did_you_mean("q", ["b", "a"]) == "known are 'a', 'b'"
    assert did_you_mean("q", [f"name{i}" for i in range(21)]) == "21 names are known, none of them near"
    assert did_you_mean("q", []) == "there are none"
