"""Generated recordings: the kernel against single steps, prompts, conditions, ensembles, searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from catena.data.audio import read_audio
from catena.data.mulaw import decode_mulaw
from catena.errors import DataError
from catena.lm.base import AutoregressiveLM
from catena.randomness import counted_uniforms
from catena.search.combine import Ensemble
from catena.search.config import BeamConfig, GreedyConfig, SampleConfig
from catena.tasks.lm.sound.generate import SoundFusion, SoundGenerator, count_samples
from catena.tasks.lm.sound.task import SoundLmTask


def generate_slowly(stepper: AutoregressiveLM, prompt: list[int], first: int, n: int, seed: int, t: float) -> list[int]:
    """Levels by single steps and the inverse distribution function, with the uniform numbers of the row and time."""
    state = stepper.start(1)
    for level in prompt:
        state = stepper.advance(state, torch.tensor([first + level]))
    levels = []
    for u in counted_uniforms(seed, 0, len(prompt), n).tolist():
        scores = stepper.log_probs(state)[0, first:].double() / t
        edges = torch.softmax(scores, dim=0).cumsum(dim=0)
        levels.append(min(int((edges <= u * edges[-1]).sum()), len(scores) - 1))
        state = stepper.advance(state, torch.tensor([first + levels[-1]]))
    return levels


CONDITIONS = {
    "plain": {},
    "speakers": {"speaker": "low"},
    "log_mel": {"condition": Path("high/0.wav")},
    "series": {"speaker": "high", "condition": Path("high/0.npy")},
    "mixture": {},
}


@pytest.mark.parametrize("kind", CONDITIONS)
def test_generation_by_the_kernel_equals_single_steps(kind: str, tasks: dict[str, SoundLmTask], voices: Path) -> None:
    task, own = tasks[kind], dict(CONDITIONS[kind])
    if "condition" in own:
        own["condition"] = voices / own["condition"]
    generator = SoundGenerator(task, SampleConfig(max_length=60, temperature=0.8), **own)
    assert generator.is_plain
    ((found,),) = generator.write([voices / "low" / "1.wav"], seed=7)
    prompt = found.prompt.tolist()
    assert len(prompt) == 630
    first = task.recording_network.wavenet.first
    assert found.levels.tolist() == generate_slowly(generator.stepper, prompt, first, 60, 7, 0.8)
    np.testing.assert_array_equal(found.samples, decode_mulaw(np.concatenate((found.prompt, found.levels))))
    whole = np.concatenate((found.prompt, found.levels)).astype(np.int64)
    log_probs = generator.stepper.token_log_probs(torch.from_numpy(whole)[None] + first, torch.tensor([690]))
    assert found.log_prob == pytest.approx(float(log_probs[0, 630:].sum()), rel=1e-4)


def test_rows_have_numbers_of_their_own_and_seeds_repeat(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    generator = SoundGenerator(tasks["plain"], SampleConfig(max_length=40, n=2))
    prompts = [None, voices / "high" / "0.wav"]
    found = generator.write(prompts, seed=1)
    again, other = generator.write(prompts, seed=1), generator.write(prompts, seed=2)
    levels, repeated, changed = ([one.levels.tolist() for row in rows for one in row] for rows in (found, again, other))
    assert [len(row) for row in found] == [2, 2]
    assert levels == repeated != changed
    assert len({tuple(one) for one in levels}) == 4
    assert [len(row[0].prompt) for row in found] == [0, 500]
    wavenet = tasks["plain"].recording_network.wavenet
    for one in (found[0][1], found[1][0]):
        ids = torch.from_numpy(np.concatenate((one.prompt, one.levels)).astype(np.int64))[None] + wavenet.first
        log_probs = wavenet.token_log_probs(ids, torch.tensor([ids.shape[1]]))[0]
        assert one.log_prob == pytest.approx(float(log_probs[len(one.prompt) :].sum()), abs=1e-2)


def test_searches_generate_by_steps(tasks: dict[str, SoundLmTask]) -> None:
    task = tasks["plain"]
    first = task.recording_network.wavenet.first
    ((greedy,),) = SoundGenerator(task, GreedyConfig(max_length=12)).write([None])
    ((one,),) = SoundGenerator(task, SampleConfig(max_length=12, top_k=1)).write([None])
    ((beam,),) = SoundGenerator(task, BeamConfig(max_length=12, beam_size=1)).write([None])
    stepper, levels = task.recording_network.wavenet, []
    state = stepper.start(1)
    for _ in range(12):
        levels.append(int(stepper.log_probs(state)[0].argmax()) - first)
        state = stepper.advance(state, torch.tensor([first + levels[-1]]))
    assert greedy.levels.tolist() == one.levels.tolist() == beam.levels.tolist() == levels
    assert not SoundGenerator(task, SampleConfig(top_p=0.5)).is_plain
    assert not SoundGenerator(task, SampleConfig(no_repeat=3)).is_plain


def test_ensemble_and_fusion_generate_from_combined_models(tasks: dict[str, SoundLmTask]) -> None:
    joined = tasks["plain"].ensemble([tasks["speakers"]])
    generator = SoundGenerator(joined, GreedyConfig(max_length=10), speaker=None)
    ((found,),) = generator.write([None])
    steppers = [tasks[name].recording_network.wavenet for name in ("plain", "speakers")]
    mixed = Ensemble(steppers)
    state, levels = mixed.start(1), []
    for _ in range(10):
        levels.append(int(mixed.log_probs(state)[0].argmax()))
        state = mixed.advance(state, torch.tensor(levels[-1:]))
    assert found.levels.tolist() == [level - steppers[0].first for level in levels]
    assert not SoundGenerator(joined, SampleConfig()).is_plain
    fused = SoundGenerator(tasks["plain"], GreedyConfig(max_length=10), SoundFusion(tasks["speakers"], 0.5))
    state = steppers[0].start(1), steppers[1].start(1)
    scores = steppers[0].log_probs(state[0]) + 0.5 * steppers[1].log_probs(state[1])
    assert int(fused.write([None])[0][0].levels[0]) == int(scores[0].argmax()) - steppers[0].first


def test_saved_sound_is_read_back(tasks: dict[str, SoundLmTask], tmp_path: Path) -> None:
    ((found,),) = SoundGenerator(tasks["plain"], SampleConfig(max_length=50)).write([None])
    found.save(tmp_path / "out.wav")
    audio = read_audio(tmp_path / "out.wav")
    assert audio.sample_rate == 2000
    np.testing.assert_allclose(audio.samples, found.samples, atol=1 / 32768)
    assert found.seconds == 50 / 2000


def test_length_is_of_the_seconds_or_of_the_condition(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    assert count_samples(tasks["plain"], None, 1.5) == 3000
    assert count_samples(tasks["plain"], None, None) == 4000
    assert count_samples(tasks["log_mel"], voices / "low" / "1.wav", None) == 640
    assert count_samples(tasks["series"], voices / "low" / "1.npy", None) == 640


def test_wrong_conditions_raise_one_sentence(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    config = SampleConfig(max_length=5)
    with pytest.raises(DataError, match=r"Unknown speaker 'lwo': did you mean 'low'\?"):
        SoundGenerator(tasks["speakers"], config, speaker="lwo")
    with pytest.raises(DataError, match=r"speaker = 'low' cannot be used: the model has no speakers"):
        SoundGenerator(tasks["plain"], config, speaker="low")
    with pytest.raises(DataError, match=r"condition = .* cannot be used: the model has no local condition"):
        SoundGenerator(tasks["plain"], config, condition=voices / "low" / "1.wav")
    with pytest.raises(DataError, match=r"local = 'log_mel' needs a recording as condition"):
        SoundGenerator(tasks["log_mel"], config)
    with pytest.raises(DataError, match=r"1.npy must have 2 features|needs a .npy file"):
        SoundGenerator(tasks["series"], config)
