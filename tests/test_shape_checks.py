"""The cache of shape checks: every wrong call is found, also after correct ones."""

from __future__ import annotations

import contextlib
import inspect
import sys
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Literal, get_type_hints

import beartype
import jaxtyping
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from tests.shape_checks import KEPT, LONG, jaxtyped, summary

checked = jaxtyped(typechecker=beartype.beartype)
refused = pytest.raises(TypeError, match="Type-check error whilst checking the")


@checked
def columns(x: Float[Tensor, "b d"], n: int = 2) -> Float[Tensor, "b {n}"]:
    return x[:, :2]


@checked
def first(texts: list[str] | tuple[str, ...] | dict[str, int], kind: Literal["a", "b"] = "a") -> object:
    return None


def test_arguments_are_checked_after_calls_that_were_right() -> None:
    for _ in range(3):
        assert columns(torch.ones(3, 4)).shape == (3, 2)
    with refused:
        columns(torch.ones(3))
    with refused:
        columns(torch.ones(3, 4, dtype=torch.int64))
    with refused:
        columns([[1.0]])
    with refused:
        columns(torch.ones(3, 4), n="2")
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        columns(torch.ones(3, 4), m=2)


def test_results_are_checked_after_calls_that_were_right() -> None:
    answers = [torch.ones(3), torch.ones(3), torch.ones(4), torch.ones(3, dtype=torch.int64), None]

    @checked
    def same_size(x: Float[Tensor, "t"]) -> Float[Tensor, "t"]:
        return answers.pop(0)  # type: ignore[return-value]

    same_size(torch.ones(3))
    same_size(torch.ones(3))
    while answers:
        with refused:
            same_size(torch.ones(3))


def test_sizes_that_are_other_arguments_are_checked_by_their_value() -> None:
    columns(torch.ones(3, 4), n=2)
    with refused:
        columns(torch.ones(3, 4), n=3)


@pytest.mark.parametrize("more", [0, LONG])
def test_items_are_checked_wherever_they_are(more: int) -> None:
    first(["a"] * (3 + more))
    first(("a", "b", "c"))
    first({"a": 1})
    with refused:
        first([1] * (3 + more))
    with refused:
        first((1, 1, 1))  # all of them: beartype checks a random item
    with refused:
        first({"a": "b"})
    with refused:
        first({1: 1})


def test_wrong_item_among_right_ones_is_found() -> None:
    for place in range(10):
        with refused:  # beartype checks a random item
            first([1 if i == place else "a" for i in range(10)])


def test_wrong_item_of_a_tuple_is_mostly_found() -> None:
    found = 0
    for place in range(10):
        try:
            first(tuple(1 if i == place else "a" for i in range(10)))
        except TypeError:
            found += 1
    assert found >= 7  # of 10; one check of each would find one


def test_wrong_item_of_a_result_is_found() -> None:
    @checked
    def mapped(texts: list[str]) -> list[str]:
        return [1 if text == "b" else text for text in texts]  # type: ignore[misc]

    mapped(["a", "c"])
    for _ in range(10):
        with refused:
            mapped([*"aaabaaaa"])


def test_texts_that_are_choices_are_checked_by_their_value() -> None:
    first(["a"], "b")
    with refused:
        first(["a"], "c")


def test_results_that_are_choices_are_checked_by_their_value() -> None:
    @checked
    def echo(text: str) -> Literal["a", "b"]:
        return text  # type: ignore[return-value]

    echo("a")
    with refused:
        echo("c")


def test_functions_inside_functions_are_prepared_once_and_keep_what_is_theirs() -> None:
    def make(n: int) -> Any:
        @checked
        def added(x: Float[Tensor, "t"]) -> Float[Tensor, "t"]:
            return x + n

        return added

    one, two = make(1), make(2)
    assert one(torch.zeros(2)).tolist() == [1, 1]
    assert two(torch.zeros(2)).tolist() == [2, 2]
    for function in (one, two):
        with refused:
            function(torch.zeros(2, 2))


def test_fields_of_dataclasses_are_checked() -> None:
    @checked
    @dataclass(frozen=True)
    class Scores:
        x: Float[Tensor, "t"]
        y: Float[Tensor, "t"]

    @checked
    class Special(Scores):
        pass

    for kind in (Scores, Special):
        assert kind(torch.ones(2), torch.ones(2)).y.shape == (2,)
        with refused:
            kind(torch.ones(2), torch.ones(3))


def test_names_and_the_function_itself_are_still_there() -> None:
    assert columns.__name__ == "columns"
    assert isinstance(columns.__wrapped__, FunctionType)


def test_it_can_be_switched_off_and_on() -> None:
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        assert first(3) is None
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    with refused:
        first(3)


def test_more_calls_than_are_remembered() -> None:
    @checked
    def itself(x: int) -> int:
        return x if x != KEPT + 1 else "many"  # type: ignore[return-value]

    for i in range(KEPT + 1):
        itself(i)
    with refused:
        itself(KEPT + 1)


def test_values_that_a_check_distinguishes_have_different_summaries() -> None:
    values = [
        0, False, 0.0, None, "", "a", int, str, (), [], {}, (0,), [0], {0: 0}, (False,), [""], (("a",),), ("a", "a"),
        torch.zeros(1), torch.zeros(2), torch.zeros(1, 1), torch.zeros(1).double(), torch.nn.Parameter(torch.zeros(1)),
        torch.zeros(1).numpy(), torch.Size([1]), (1,), {"a": 1}, {"a": "b"}, {1: "b"}, [[[1]]],
    ]  # fmt: skip
    found = [summary(x) for x in values]
    assert None not in found
    assert len(set(found)) == len(values)
    for unknown in (range(2), [0] * (LONG + 1), {0, ""}, {0: range(2)}, [[[[1]]]]):
        assert summary(unknown) is None


def test_lists_that_no_check_distinguishes_have_one_summary() -> None:
    two, three = torch.zeros(2), torch.zeros(3)
    one = [[["a"], ["a", ""]], ["a"], {"a"}, {"a": 1}, [two, three], ["a", None]]
    other = [[["b"]] * 3, ["b"] * (LONG + 1), {"b", "c"}, {"b": 2, "c": 3}, [three, two, two], [None, "b", "c"]]
    found = [summary(x, by_value=False) for x in one]
    assert found == [summary(x, by_value=False) for x in other]
    for different in ({0, ""}, ["a"] * LONG + [1], [[1]], [1], {1}, {1: 1}, [three], [None]):
        assert summary(different, by_value=False) not in found


def test_catena_is_imported_with_these_checks() -> None:
    from catena.numerics import log_sum_exp

    with refused:
        log_sum_exp(torch.zeros(2, dtype=torch.int64), 0)


def test_every_annotation_of_the_package_can_be_evaluated() -> None:
    """An annotation that jaxtyping rejects is never checked; names that only type checkers know are left out."""
    n = 0
    for module in loaded_modules():
        for owner in (module, *(one for one in vars(module).values() if isinstance(one, type))):
            for fn in vars(owner).values():
                if isinstance(fn, FunctionType) and fn.__module__ == module.__name__:
                    with contextlib.suppress(NameError):
                        n += bool(get_type_hints(inspect.unwrap(fn), include_extras=True))
    assert n > 500


def loaded_modules() -> list[ModuleType]:
    import_module("catena.structure.base")
    import_module("catena.tasks.classify.task")
    return [module for name, module in sys.modules.items() if name.startswith("catena.")]
