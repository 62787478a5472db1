"""The settings of phrase-structure parsers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from catena.tasks.parse.constituency.settings import GrammarModel, PcfgModel, SpanModel, TreeModel


@pytest.mark.parametrize(
    ("model", "by_recall"),
    [
        (PcfgModel(), True),
        (PcfgModel(decoding="best"), False),
        (GrammarModel(), False),
        (GrammarModel(decoding="recall"), True),
        (SpanModel(), True),
        (SpanModel(loss="margin"), False),
        (SpanModel(loss="margin", decoding="recall"), True),
        (SpanModel(decoding="best"), False),
    ],
)
def test_expected_brackets_are_for_models_with_probabilities(model: TreeModel, by_recall: bool) -> None:
    assert model.by_recall == by_recall


def test_settings_cost_no_torch() -> None:
    code = "import sys, catena.tasks.parse.constituency.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
