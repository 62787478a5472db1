"""SoundModel: fit on files and arrays, scores, generation, parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import catena
from catena import SoundModel
from catena.data.audio import Audio
from catena.errors import ConfigError
from catena.search.config import GreedyConfig
from tests.tasks.lm.sound.conftest import RATE, make_voice

QUICK = {
    "d": 6, "d_skip": 8, "n_layers": 3, "n_blocks": 1, "sample_rate": RATE, "max_steps": 2, "batch_size": 2,
    "length": 100, "device": "cpu", "threads": 1,
}  # fmt: skip


def test_folders_paths_and_arrays_fit(voices: Path) -> None:
    paths = sorted(voices.rglob("*.wav"))
    speakers = [path.parent.name for path in paths]
    for x, y in ((voices, None), (str(voices), None), (paths, speakers)):
        model = SoundModel(speakers=True, **QUICK).fit(x, y)
        assert model.task_.encoding.speakers.names == ("high", "low")
        assert list(model.scores_) == ["bits_per_sample"]
    arrays = [make_voice(0.05, 400, i) for i in range(3)]
    model = SoundModel(**QUICK).fit(arrays)
    one, two = model.predict([arrays[0], Audio(arrays[0].astype(np.float32), RATE)])
    assert one.log_prob == pytest.approx(two.log_prob, abs=1e-3)
    assert model.evaluate(arrays).scores()["bits_per_sample"] > 0


def test_generate_takes_seconds_speaker_and_search(runs: dict[str, Path], voices: Path, tmp_path: Path) -> None:
    model = catena.load(runs["speakers"], "cpu")
    assert isinstance(model, SoundModel)
    first, again = (model.generate(seconds=0.02, speaker="low", temperature=0.9, seed=4)[0] for _ in range(2))
    assert first.levels.tolist() == again.levels.tolist()
    assert len(first.levels) == 40
    both = model.generate([None, voices / "high" / "0.wav"], GreedyConfig(max_length=3))
    assert [(len(one.prompt), len(one.levels)) for one in both] == [(0, 3), (500, 3)]
    condition = voices / "low" / "1.wav"
    (found,) = catena.load(runs["log_mel"], "cpu").generate(condition=condition)
    assert len(found.levels) == 640
    found.save(tmp_path / "out.wav")
    assert (tmp_path / "out.wav").exists()


def test_loaded_model_has_the_parameters_of_the_run(runs: dict[str, Path]) -> None:
    model = catena.load(runs["series"], "cpu")
    params = model.get_params()
    assert (params["model"], params["local"], params["sample_rate"], params["speakers"]) == (
        "wavenet", "series", RATE, True,
    )  # fmt: skip


def test_trained_by_name_is_a_sound_model(voices: Path, tmp_path: Path) -> None:
    options = {name: value for name, value in QUICK.items() if name not in ("device",)}
    model = catena.train(voices, "lm", options, output=tmp_path / "run")
    assert isinstance(model, SoundModel)


def test_other_models_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"model must be 'wavenet', got 'lstm'. Use LanguageModel for texts."):
        SoundModel("lstm").fit([np.zeros(5)])
