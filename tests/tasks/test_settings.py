"""Default training options of each model."""

from __future__ import annotations

import pytest

from catena.config import parse
from catena.errors import ConfigError
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.config import with_suggestions
from catena.tasks.lm.config import LmConfig
from catena.tasks.transduce.config import TransduceConfig
from catena.tasks.translate.config import TranslateConfig

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
def test_user_values_override_suggestions(data: dict[str, object], training: dict[str, object]) -> None:
    before = repr(data)
    assert with_suggestions(data, SUGGESTED, "a")["training"] == training
    assert repr(data) == before


def test_suggestions_return_other_types_unchanged() -> None:
    assert with_suggestions("text", SUGGESTED, "a") == "text"


@pytest.mark.parametrize(
    ("schema", "kind", "optimizer"),
    [(LmConfig, "transformer", "adamw"), (LmConfig, "lstm", "adam"), (ClassifyConfig, "transformer", "adamw")],
)
def test_each_kind_has_its_training_defaults(schema: type, kind: str, optimizer: str) -> None:
    assert parse(schema, {"model": {"kind": kind}}).training.optimizer == optimizer
    assert parse(schema, {"model": {"kind": kind}, "training": {"optimizer": "sgd"}}).training.optimizer == "sgd"


WARM = [
    (TranslateConfig, {"kind": "transformer"}),
    (TranslateConfig, {"kind": "convolutional"}),
    (LmConfig, {"kind": "transformer"}),
    (ClassifyConfig, {"kind": "transformer"}),
    (TransduceConfig, {"kind": "seq2seq", "network": {"kind": "transformer"}}),
]


@pytest.mark.parametrize(("schema", "model"), WARM)
def test_suggested_warm_up_is_shorter_than_max_steps(schema: type, model: dict[str, object]) -> None:
    usual = parse(schema, {"model": model}).training.warmup_steps
    assert usual >= 100

    def warm(**training: int) -> int:
        return parse(schema, {"model": model, "training": training}).training.warmup_steps

    assert [warm(max_steps=n) for n in (1, 5, 60, usual - 1)] == [0, 0, 6, (usual - 1) // 10]
    assert [warm(max_steps=n) for n in (usual, 10 * usual)] == [usual, usual]
    assert warm(max_steps=60, warmup_steps=50) == 50
    with pytest.raises(ConfigError, match=r"warmup_steps must be at most max_steps = 60, got 70"):
        warm(max_steps=60, warmup_steps=70)


@pytest.mark.parametrize(("schema", "model"), WARM)
def test_max_steps_removes_suggested_epochs(schema: type, model: dict[str, object]) -> None:
    def epochs(**training: int) -> int | None:
        return parse(schema, {"model": model, "training": training}).training.max_epochs

    assert epochs() is not None
    assert epochs(max_steps=500) is None
    assert epochs(max_steps=500, max_epochs=7) == 7
