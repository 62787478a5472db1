"""Choice of a tagger for a time limit: the largest that fits, features for little data."""

from __future__ import annotations

from pathlib import Path

from catena.tasks.spec import get_spec
from catena.tasks.tag.auto import SIZES, choose
from catena.tasks.tag.config import NeuralTaggerConfig, TagConfig
from tests.tasks.tag.helpers import config, write


def test_more_time_gives_a_larger_model() -> None:
    sizes = []
    for seconds in (1e9, 120.0, 40.0, 0.001):
        model, why = choose(8000, 200_000, seconds, speed=1e11)
        assert why
        sizes.append(model.encoder.d if isinstance(model, NeuralTaggerConfig) else 0)  # type: ignore[union-attr]
    assert sizes[0] == SIZES[0]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 0
    assert choose(100, 2000, 1e9, speed=1e11)[0].kind == "features"


def test_fit_to_time_keeps_other_options(tmp_path: Path) -> None:
    made = config(write(tmp_path / "train.conll"), training={"max_time": "30s", "max_epochs": None}, seed=5)
    chosen, lines = get_spec("tag").fit_to_time(made)
    assert isinstance(chosen, TagConfig)
    assert chosen.model.kind == "features"
    assert chosen.seed == 5
    assert chosen.training.max_time == "30s"
    assert chosen.data == made.data
    assert lines[0].startswith("chosen for 16 sentences, 72 words, 30 s: a conditional random field on features")
