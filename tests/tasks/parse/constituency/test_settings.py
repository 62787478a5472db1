"""The config of phrase-structure parsers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from catena.tasks.parse.constituency.config import (
    ConstituencyParserConfig,
    GrammarParserConfig,
    PCFGParserConfig,
    SpanParserConfig,
)


@pytest.mark.parametrize(
    ("model", "by_recall"),
    [
        (PCFGParserConfig(), True),
        (PCFGParserConfig(decoding="best"), False),
        (GrammarParserConfig(), False),
        (GrammarParserConfig(decoding="recall"), True),
        (SpanParserConfig(), True),
        (SpanParserConfig(loss="margin"), False),
        (SpanParserConfig(loss="margin", decoding="recall"), True),
        (SpanParserConfig(decoding="best"), False),
    ],
)
def test_expected_brackets_are_for_models_with_probabilities(model: ConstituencyParserConfig, by_recall: bool) -> None:
    assert model.by_recall == by_recall


def test_config_does_not_import_torch() -> None:
    code = "import sys, catena.tasks.parse.constituency.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
