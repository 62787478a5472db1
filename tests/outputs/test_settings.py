from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from catena.outputs.config import AdaptiveSoftmaxConfig, OutputConfig, SoftmaxConfig

ANY: TypeAdapter[Any] = TypeAdapter(OutputConfig)


def test_the_kind_alone_chooses_the_layer() -> None:
    kinds = ["softmax", "adaptive", "hierarchical", "nce", "negative", "sampled", "partitioned"]
    assert [ANY.validate_python({"kind": kind}).kind for kind in kinds] == kinds
    assert ANY.validate_python({"kind": "softmax"}) == SoftmaxConfig()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "adaptive", "cutoffs": [500, 100]}, r"cutoffs = \[500, 100\] must grow: write \[100, 500\]"),
        ({"kind": "adaptive", "cutoffs": [5, 5]}, r"cutoffs = \[5, 5\] must grow: write \[5\]"),
        ({"kind": "hierarchical", "n_classes": 7}, "n_classes = 7 is for tree = 'classes', but tree is 'huffman'"),
        ({"kind": "softmax", "temperature": 0}, "greater than 0"),
        ({"kind": "nce", "k": 0}, "greater than 0"),
        ({"kind": "sampled", "temperature": 1.0}, "temperature"),
    ],
)
def test_settings_that_do_not_fit_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ANY.validate_python(values)


def test_growing_cutoffs_are_taken() -> None:
    assert AdaptiveSoftmaxConfig(cutoffs=(100, 500)).cutoffs == (100, 500)


def test_settings_cost_no_torch() -> None:
    code = "import sys, catena.outputs.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
