"""How models like to be trained, unless the config says so."""

from __future__ import annotations

import pytest

from catena.config import parse
from catena.tasks.classify.settings import ClassifyConfig
from catena.tasks.lm.settings import LmConfig
from catena.tasks.settings import with_suggestions

SUGGESTED = {"a": {"optimizer": "sgd", "momentum": 0.9}, "b": {"optimizer": "adam"}}


@pytest.mark.parametrize(
    ("data", "training"),
    [
        ({}, {"optimizer": "sgd", "momentum": 0.9}),
        ({"model": {"kind": "b"}}, {"optimizer": "adam"}),
        ({"model": {"kind": "unknown"}}, {}),
        ({"model": {}, "training": {"max_epochs": 3}}, {"optimizer": "sgd", "momentum": 0.9, "max_epochs": 3}),
        ({"training": {"momentum": 0.5}}, {"optimizer": "sgd", "momentum": 0.5}),
        ({"training": {"optimizer": "adam"}}, {"optimizer": "adam"}),
    ],
)
def test_suggestions_go_behind_what_is_said(data: dict[str, object], training: dict[str, object]) -> None:
    before = repr(data)
    assert with_suggestions(data, SUGGESTED, "a")["training"] == training
    assert repr(data) == before


def test_what_is_no_mapping_is_left_to_the_schema() -> None:
    assert with_suggestions("text", SUGGESTED, "a") == "text"


@pytest.mark.parametrize(
    ("schema", "kind", "optimizer"),
    [(LmConfig, "transformer", "adamw"), (LmConfig, "lstm", "adam"), (ClassifyConfig, "transformer", "adamw")],
)
def test_each_kind_is_trained_in_its_way(schema: type, kind: str, optimizer: str) -> None:
    assert parse(schema, {"model": {"kind": kind}}).training.optimizer == optimizer
    assert parse(schema, {"model": {"kind": kind}, "training": {"optimizer": "sgd"}}).training.optimizer == "sgd"
