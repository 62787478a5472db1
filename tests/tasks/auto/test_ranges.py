"""Ranges of config options: their syntax, even coverage, and the candidates that they give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from catena.errors import ConfigError
from catena.tasks.auto.ranges import OptionRange, combine, parse_range
from catena.tasks.spec import get_spec

SPEC = get_spec("classify")
SCHEMA = SPEC.config_class()
CNN = {"model": {"kind": "cnn"}}


def test_lists_and_ranges_are_parsed_by_short_and_dotted_names() -> None:
    assert parse_range("filters=50,100", SCHEMA, CNN) == OptionRange("model.convolution.filters", (50, 100))
    assert parse_range("training.learning-rate=0.001..0.1", SCHEMA, CNN) == OptionRange(
        "training.learning_rate", (0.001, 0.1), True
    )
    assert parse_range("model=cnn,loglinear", SCHEMA, {}).choices == ("cnn", "loglinear")
    assert parse_range("tokenizer.lowercase=true,false", SCHEMA, {}).choices == (True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("filters", "--over must be KEY=VALUES, got 'filters'"),
        ("filters=", "--over must be KEY=VALUES"),
        ("filtres=1,2", "Unknown config key filtres in --over"),
        ("filters=10..5", "must be a range LOW..HIGH of positive numbers"),
        ("learning_rate=0..1", "must be a range LOW..HIGH of positive numbers"),
        ("learning_rate=a..b", "must be a range LOW..HIGH of positive numbers"),
    ],
)
def test_invalid_ranges_raise(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_range(text, SCHEMA, CNN)


def test_range_has_one_value_in_each_part_of_its_logarithmic_scale() -> None:
    values = OptionRange("x", (0.001, 1.0), True).spread(6, np.random.default_rng(0))
    parts = sorted(int((np.log10(value) + 3) / 3 * 6) for value in values)
    assert parts == [0, 1, 2, 3, 4, 5]
    assert all(isinstance(value, int) for value in OptionRange("x", (1, 100), True).spread(5, np.random.default_rng(0)))


def test_values_of_a_list_occur_equally_often() -> None:
    values = OptionRange("x", ("a", "b", "c")).spread(9, np.random.default_rng(0))
    assert sorted(values) == list("aaabbbccc")


def test_small_products_are_tried_completely() -> None:
    ranges = [parse_range("filters=50,100", SCHEMA, CNN), parse_range("seed=0,1,2", SCHEMA, CNN)]
    found = combine(SPEC, CNN, ranges, 6, 0)
    made = [(values["model"]["convolution"]["filters"], values["seed"]) for _, values in found]
    assert made == list(itertools.product((50, 100), (0, 1, 2)))
    assert all(values["model"]["kind"] == "cnn" for _, values in found)
    assert found[0][0].about == "model.convolution.filters = 50, seed = 0"
    assert len(combine(SPEC, CNN, ranges, 5, 0)) <= 5


def test_combinations_depend_on_the_seed_only() -> None:
    ranges = [parse_range("filters=50..500", SCHEMA, CNN), parse_range("learning_rate=0.0001..0.01", SCHEMA, CNN)]
    first, again, other = (combine(SPEC, CNN, ranges, 4, seed) for seed in (0, 0, 1))
    assert [values for _, values in first] == [values for _, values in again]
    assert [values for _, values in first] != [values for _, values in other]


def test_invalid_values_raise_before_training() -> None:
    with pytest.raises(ConfigError, match="learning_rate"):
        combine(SPEC, CNN, [OptionRange("training.learning_rate", (-1.0, 0.1))], 4, 0)
