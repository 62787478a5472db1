"""The candidates of the tasks: valid configs, ranges, and options of the user that win."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.config import parse
from catena.data.examples import SourceLocation, Text
from catena.errors import ConfigError
from catena.tasks.auto.table import (
    TABLES,
    Candidate,
    DataSize,
    default_candidate,
    implied_kind,
    measure,
    merge,
    read_candidates,
    simplest_values,
    suitable,
)
from catena.tasks.spec import TASKS, get_spec

NAMES = sorted(path.stem for path in TABLES.glob("*.toml"))


def names(
    task: str, n: int, seconds: float, values: dict[str, Any] | None = None, words: int = 10, characters: int = 60
) -> list[str]:
    size = DataSize(n, n_words=n * words, n_characters=n * characters)
    return [candidate.name for candidate, _ in suitable(get_spec(task), values or {}, size, seconds)]


def test_every_table_belongs_to_a_task() -> None:
    assert set(NAMES) <= set(TASKS)
    assert {"classify", "tag", "parse", "transduce", "translate", "converse", "lm"} <= set(NAMES)


@pytest.mark.parametrize("task", NAMES)
def test_candidates_are_valid_configs_with_distinct_names(task: str) -> None:
    found = read_candidates(task)
    assert len({candidate.name for candidate in found}) == len(found) > 0
    for candidate in found:
        assert parse(get_spec(task).config_class(), candidate.config).task == task


@pytest.mark.parametrize("task", NAMES)
@pytest.mark.parametrize("n", [1, 300, 5000, 100_000])
def test_every_size_and_time_has_a_candidate(task: str, n: int) -> None:
    assert names(task, n, 1.0)


@pytest.mark.parametrize("task", [name for name in NAMES if any(c.default != (0, 0) for c in read_candidates(name))])
@pytest.mark.parametrize("n", [1, 300, 5000, 100_000])
def test_every_size_has_one_default(task: str, n: int) -> None:
    size = DataSize(n, n_words=10 * n)
    kind = implied_kind(get_spec(task), {})
    defaults = [candidate for candidate in read_candidates(task) if candidate.is_default(size, kind)]
    assert len(defaults) == 1
    assert default_candidate(get_spec(task), {}, size) == defaults[0]


@pytest.mark.parametrize(
    ("task", "first"), [("compose", "attention"), ("parse", "biaffine-small"), ("translate", "gru-tiny")]
)
def test_a_minute_is_not_divided_among_networks_on_small_data(task: str, first: str) -> None:
    assert names(task, 500, 60.0) == [first]
    assert names(task, 1000, 600.0)[1:]


def test_large_data_have_a_tagger_that_converges_in_a_few_passes() -> None:
    found = {candidate.name: config for candidate, config in suitable(get_spec("tag"), {}, DataSize(9000), 60.0)}
    assert found["perceptron"]["model"]["structure"] == "perceptron"
    assert not any("lemmas" in name for name in found)


def test_ranges_include_their_first_value_and_exclude_their_last() -> None:
    one = Candidate("a", "", examples=(10.0, 20.0), words=(2.0, 3.0), min_time=5.0)
    inside = DataSize(10, n_words=20)
    assert one.suits(inside, "", 5.0)
    assert not one.suits(DataSize(9, n_words=20), "", 5.0)
    assert not one.suits(DataSize(20, n_words=40), "", 5.0)
    assert not one.suits(DataSize(10, n_words=30), "", 5.0)
    assert not one.suits(DataSize(10, n_words=19), "", 5.0)
    assert not one.suits(inside, "", 4.9)


def test_kind_of_the_data_selects_candidates(tmp_path: Path) -> None:
    trees = tmp_path / "trees.mrg"
    trees.write_text("(S (NP (D the) (N dog)) (VP (V sleeps)))\n" * 3, encoding="utf-8")
    assert "pcfg" in names("parse", 300, 600.0, {"data": {"train": [str(trees)]}})
    assert "pcfg" not in names("parse", 300, 600.0)
    assert "biaffine-small" in names("parse", 300, 600.0)


def test_lemmas_have_candidates_without_transitions() -> None:
    kept = {"data": {"tags_column": "lemma"}}, {"tags": {"lemmas": True}}
    size = DataSize(300, n_words=3000)
    for values in kept:
        found = suitable(get_spec("tag"), values, size, 600.0)
        assert found
        assert {config["model"]["structure"] for _, config in found} == {"softmax"}
        assert default_candidate(get_spec("tag"), values, size) == found[0][0]
    assert not any("lemmas" in name for name in names("tag", 300, 600.0))
    assert not any("lemmas" in name for name in names("tag", 300, 600.0, {"data": {"segment": True}}))


def test_lists_of_names_and_text_without_blanks_are_modeled_by_characters() -> None:
    assert names("lm", 100, 20.0, words=2, characters=14) == ["ngram-characters"]
    assert names("lm", 100, 60.0, words=2, characters=14) == ["ngram-characters", "lstm-names"]
    assert names("lm", 100, 60.0, words=1, characters=300) == ["ngram-characters", "lstm-characters"]
    assert names("lm", 100, 20.0) == ["ngram"]


@pytest.mark.parametrize("n", [100, 5000])
@pytest.mark.parametrize(("words", "characters"), [(1, 8), (2, 15), (1, 300), (8, 40)])
def test_every_text_has_one_default(n: int, words: int, characters: int) -> None:
    size = DataSize(n, n_words=n * words, n_characters=n * characters)
    found = [one.name for one in read_candidates("lm") if one.is_default(size, "lstm")]
    assert len(found) == 1
    assert ("ngram" in found[0]) == (n == 100)


def test_words_and_characters_of_examples_are_measured() -> None:
    family = get_spec("lm").family(parse(get_spec("lm").config_class(), {}))
    size = measure(family, [Text(text, SourceLocation("a.txt", 1)) for text in ("ab cd", "efg")])
    assert (size.n_train, size.n_words, size.n_characters) == (2, 3, 8)


def test_masked_objective_excludes_ngrams() -> None:
    assert "ngram" not in names("lm", 5000, 600.0, {"objective": {"kind": "masked"}})


def test_options_of_the_user_win() -> None:
    size = DataSize(5000, n_words=50_000)
    found = suitable(
        get_spec("translate"), {"batches": {"batch_size": 64}, "tokenizer": {"kind": "words"}}, size, 200.0
    )
    assert [values["batches"]["batch_size"] for _, values in found] == [64, 64, 64]
    assert [values["tokenizer"] for _, values in found] == [{"kind": "words"}] * 3
    assert found[0][1]["batches"]["batch_by"] == "tokens"


def test_equal_candidates_are_tried_once() -> None:
    both = names("transduce", 100, 10.0)
    assert both == ["joint", "joint-short"]
    assert names("transduce", 100, 10.0, {"model": {"kind": "joint", "order": 4}}) == ["joint"]


def test_options_that_fit_no_candidate_raise() -> None:
    with pytest.raises(ConfigError, match="filters"):
        names("tag", 100, 10.0, {"model": {"filters": 3}})


def test_merge_replaces_sections_of_another_kind() -> None:
    lower = {"model": {"kind": "cnn", "d": 3, "deep": {"a": 1, "b": 2}}, "seed": 1}
    assert merge(lower, {"model": {"deep": {"b": 5}}}) == {
        "model": {"kind": "cnn", "d": 3, "deep": {"a": 1, "b": 5}},
        "seed": 1,
    }
    assert merge(lower, {"model": {"kind": "mlp"}})["model"] == {"kind": "mlp"}
    assert lower["model"]["deep"] == {"a": 1, "b": 2}


def test_simplest_values_keep_a_named_model_and_skip_models_that_lack_an_option() -> None:
    spec = get_spec("tag")
    assert simplest_values(spec, {})["model"]["kind"] == "features"
    assert simplest_values(spec, {"model": {"kind": "hmm"}}) == {"model": {"kind": "hmm"}}
    found = simplest_values(spec, {"training": {"weight_decay": 0.1}})  # features have their own penalty
    assert (found["model"]["kind"], found["training"]["weight_decay"]) == ("neural", 0.1)
