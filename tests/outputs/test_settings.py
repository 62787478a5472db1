from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from catena.outputs.config import AdaptiveSoftmaxConfig, OutputConfig, SoftmaxConfig

ANY: TypeAdapter[Any] = TypeAdapter(OutputConfig)


def test_output_config_kind_selects_the_class() -> None:
    kinds = ["softmax", "adaptive", "hierarchical", "nce", "negative", "sampled", "partitioned"]
    assert [ANY.validate_python({"kind": kind}).kind for kind in kinds] == kinds
    assert ANY.validate_python({"kind": "softmax"}) == SoftmaxConfig()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"kind": "adaptive", "cutoffs": [500, 100]},
            r"cutoffs must be increasing, got \[500, 100\]. Use \[100, 500\]",
        ),
        ({"kind": "adaptive", "cutoffs": [5, 5]}, r"cutoffs must be increasing, got \[5, 5\]. Use \[5\]"),
        ({"kind": "hierarchical", "n_classes": 7}, "tree must be 'classes' if n_classes is set, got 'huffman'"),
        ({"kind": "softmax", "temperature": 0}, "greater than 0"),
        ({"kind": "nce", "k": 0}, "greater than 0"),
        ({"kind": "sampled", "temperature": 1.0}, "temperature"),
    ],
)
def test_output_config_invalid_values_raise(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ANY.validate_python(values)


def test_output_config_accepts_increasing_cutoffs() -> None:
    assert AdaptiveSoftmaxConfig(cutoffs=(100, 500)).cutoffs == (100, 500)


def test_output_config_does_not_import_torch() -> None:
    code = "import sys, catena.outputs.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
