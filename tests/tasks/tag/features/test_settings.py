"""Incompatible options are rejected; default training options depend on the structure."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from catena.tasks.tag.config import FeatureTaggerConfig, TagConfig


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"templates": ["sufix3[0]"]}, "did you mean 'suffix3'"),
        (
            {"templates": ["tag[-1]|w[0]"], "structure": "memm"},
            "features of tag pairs need structure = 'crf'",
        ),
        ({"structure": "margin", "optimizer": "lbfgs"}, "a loss that is not differentiable"),
        ({"structure": "perceptron", "l1": 0.1}, "l1 = 0.1 needs optimizer = 'lbfgs'"),
        ({"templates": []}, "at least 1 item"),
    ],
)
def test_incompatible_options_are_rejected(values: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FeatureTaggerConfig(**values)


def test_training_penalties_are_rejected() -> None:
    with pytest.raises(ValidationError, match=r"training.l1 = 0.1 is only for networks\. Use model.l1"):
        TagConfig.model_validate({"model": {"kind": "features"}, "training": {"l1": 0.1}})


def test_columns_come_from_the_templates() -> None:
    assert FeatureTaggerConfig(templates=("w[0]", "column1[-1]|column3[0]")).columns == ("1", "3")
    assert FeatureTaggerConfig(templates=("w[0]", "B")).columns == ()


def test_each_optimizer_has_its_default_epochs() -> None:
    def training(**model: object) -> tuple[int | None, int | None]:
        found = TagConfig.model_validate({"model": {"kind": "features", **model}}).training
        return found.max_epochs, found.eval_every

    assert training() == (300, 10)
    assert training(structure="perceptron") == training(optimizer="sgd") == (20, 1)
