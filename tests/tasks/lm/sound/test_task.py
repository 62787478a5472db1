"""Language models of recordings: steps, order, padding, causality, saving, resuming, ensembles, learning."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from catena import load
from catena.checkpoint import open_checkpoint
from catena.data.audio import Audio, write_wav
from catena.data.mulaw import encode_mulaw
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.base import BaseTask
from catena.tasks.lm.sound.data import RecordingExample
from catena.tasks.lm.sound.estimator import SoundModel
from catena.tasks.lm.sound.predict import ScoredRecording
from catena.tasks.lm.sound.task import SoundLmTask
from catena.tasks.runs import load_task, resume_run, train_run
from catena.training.report import SilentReporter
from tests.tasks.lm.sound.conftest import KINDS, RATE, make_config, make_voice


def read(task: SoundLmTask, path: Path) -> list[RecordingExample]:
    return list(task.read(task.config, path, ReadCounter()))


def step_log_prob(task: SoundLmTask, example: RecordingExample) -> float:
    """The log-probability of a recording, one step of the stepper at a time."""
    network = task.recording_network
    wavenet = network.wavenet
    speakers = torch.from_numpy(task.encoding.speaker_ids([example.speaker])) if wavenet.n_speakers else None
    series = network.open_series(task.encode([example]))
    frames = None if series is None else network.frames_from_start(series)
    stepper, total = wavenet.conditioned(speakers, frames), 0.0
    state = stepper.start(1)
    for level in np.asarray(example.levels).tolist():
        total += float(stepper.log_probs(state)[0, wavenet.first + level])
        state = stepper.advance(state, torch.tensor([wavenet.first + level]))
    return total


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_scores_equal_single_steps(kind: str, tasks: dict[str, SoundLmTask], voices: Path) -> None:
    example = read(tasks[kind], voices)[1]
    assert example.speaker == "high"
    (scored,) = tasks[kind].predict([example])
    assert scored.log_prob == pytest.approx(step_log_prob(tasks[kind], example), rel=1e-5)
    assert scored.bits_per_sample == pytest.approx(-scored.log_prob / math.log(2) / len(np.asarray(example.levels)))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_do_not_depend_on_order_batch_and_window(kind: str, tasks: dict[str, SoundLmTask], voices: Path) -> None:
    task = tasks[kind]
    examples = read(task, voices)
    assert len({len(np.asarray(example.levels)) for example in examples}) > 1
    together = [one.log_prob for one in task.predict(examples)]
    assert [one.log_prob for one in task.predict(examples[::-1])][::-1] == pytest.approx(together, rel=1e-5)
    batches = task.config.batches.model_copy(update={"length": 90, "batch_size": 1})
    other = SoundLmTask(task.config.model_copy(update={"batches": batches}), task.encoding, task.recording_network)
    assert [one.log_prob for one in other.predict(examples)] == pytest.approx(together, rel=1e-5)


def test_later_samples_do_not_change_earlier_scores(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    example = read(tasks["plain"], voices)[0]
    levels = np.asarray(example.levels)
    cut = replace(example, levels=levels[:300])
    changed = replace(example, levels=np.concatenate((levels[:300], 255 - levels[300:])))
    rows = [tasks["plain"].encode([one]) for one in (example, cut, changed)]
    found = [next(tasks["plain"].window_log_probs(one))[1][0, :200] for one in rows]
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=1e-5)


def test_known_speaker_and_series_change_the_score(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    example = read(tasks["speakers"], voices)[0]
    strangers = [replace(example, speaker=name) for name in (None, "nobody", "low")]
    own, unknown, nobody, other = tasks["speakers"].predict([example, *strangers])
    assert (own.speaker, unknown.speaker, nobody.speaker, other.speaker) == ("high", None, None, "low")
    assert unknown.log_prob == nobody.log_prob
    assert len({own.log_prob, unknown.log_prob, other.log_prob}) == 3
    example = read(tasks["series"], voices)[0]
    wrong = replace(example, series=voices / "low" / "1.npy")
    one, two = tasks["series"].predict([example, wrong])
    assert one.log_prob != two.log_prob


@pytest.mark.parametrize("kind", KINDS)
def test_saved_model_scores_the_same(kind: str, runs: dict[str, Path], voices: Path, tmp_path: Path) -> None:
    model = load(runs[kind], "cpu")
    assert isinstance(model, SoundModel)
    model.save(tmp_path / "saved")
    before, after = (one.evaluate(voices).scores() for one in (model, load(tmp_path / "saved", "cpu")))
    assert before == after


@pytest.mark.parametrize("kind", KINDS)
def test_killed_run_resumes_to_the_same_weights(
    kind: str, voices: Path, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, n = SoundLmTask.loss, 0

    def die(self: SoundLmTask, batch: Any) -> Any:
        nonlocal n
        n += 1
        if n == 4:
            raise KeyError("killed")
        return plain(self, batch)

    monkeypatch.setattr(SoundLmTask, "loss", die)
    config = make_config(voices, kind, training={"save_every": 2})
    with pytest.raises(KeyError, match="killed"):
        train_run(config, tmp_path / "killed", SilentReporter())
    monkeypatch.setattr(SoundLmTask, "loss", plain)
    resume_run(tmp_path / "killed", SilentReporter())
    whole, resumed = (open_checkpoint(folder / "last") for folder in (runs[kind], tmp_path / "killed"))
    assert whole.folder.name == resumed.folder.name
    for name, tensor in whole.weights().items():
        assert torch.equal(tensor, resumed.weights()[name]), name
    assert whole.weights().keys() == resumed.weights().keys()


def test_each_window_depends_only_on_seed_and_epoch(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    task = tasks["speakers"]
    rows = task.encode(read(task, voices))
    plans = [task.epoch(rows, 1, Randomness(0)), task.epoch(rows, 1, Randomness(0)), task.epoch(rows, 2, Randomness(0))]
    plans[1].batch(2)
    first, again, other = (plan.batch(1) for plan in plans)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.speakers, again.speakers)
    assert not torch.equal(first.inputs, other.inputs)


def test_windows_are_flipped_and_lose_their_speaker(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    task = tasks["speakers"]
    rows = task.encode(read(task, voices))
    own = task.encoding.speaker_ids(example.speaker for example in rows.examples)
    plan = task.epoch(rows, 1, Randomness(0))
    flipped = dropped = windows = 0
    for epoch in range(1, 9):
        plan = task.epoch(rows, epoch, Randomness(0))
        for i in range(len(plan)):
            plain, batch = plan.plan.batch(i), plan.batch(i)
            speakers = torch.from_numpy(own[plain.recordings])
            over = batch.targets != torch.from_numpy(plain.targets)
            turned = over.any(dim=1)
            assert torch.equal(batch.targets[turned], 255 - torch.from_numpy(plain.targets).long()[turned])
            assert torch.equal(batch.inputs[turned], 255 - torch.from_numpy(plain.inputs).long()[turned])
            assert ((batch.speakers == speakers) | (batch.speakers == -1)).all()
            windows += len(turned)
            flipped += int(turned.sum())
            dropped += int((batch.speakers == -1).sum())
    assert windows > 50
    assert 0.35 < flipped / windows < 0.65
    assert 0.15 < dropped / windows < 0.45


def test_ensemble_averages_the_probabilities(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    models = [tasks["plain"], tasks["speakers"], tasks["log_mel"]]
    example = read(models[0], voices)[0]
    parts = [next(model.window_log_probs(model.encode([example])))[1] for model in models]
    joined = models[0].ensemble(models[1:])
    found = next(joined.window_log_probs(joined.encode([example])))[1]
    np.testing.assert_allclose(np.exp(found), np.mean([np.exp(part) for part in parts], axis=0), rtol=1e-5)
    assert len(joined.networks) == 3
    with pytest.raises(DataError, match="models of recordings"):
        models[0].ensemble([Mock(spec=BaseTask)])
    odd = models[1].config.model_copy(update={"model": models[1].model_config.model_copy(update={"sample_rate": 8000})})
    with pytest.raises(DataError, match="sample_rate and n_levels of all models must be 2000 and 256, got 8000"):
        models[0].ensemble([SoundLmTask(odd, models[1].encoding, models[1].recording_network)])


def test_models_of_other_fields_are_averaged(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    config = make_config(voices, model={"n_layers": 2})
    torch.manual_seed(0)
    other = SoundLmTask(config, tasks["plain"].encoding, SoundLmTask.build_network(config, tasks["plain"].encoding))
    other.recording_network.eval()
    example = read(other, voices)[0]
    one, two = (next(model.window_log_probs(model.encode([example])))[1] for model in (tasks["plain"], other))
    for joined in (tasks["plain"].ensemble([other]), other.ensemble([tasks["plain"]])):
        found = next(joined.window_log_probs(joined.encode([example])))[1]
        np.testing.assert_allclose(np.exp(found), (np.exp(one) + np.exp(two)) / 2, rtol=1e-5)


def test_bits_of_a_second_are_of_its_samples(tasks: dict[str, SoundLmTask]) -> None:
    samples = make_voice(0.05, 2 * RATE + 300, 8)
    (scored,) = tasks["plain"].predict([samples])
    wavenet = tasks["plain"].recording_network.wavenet
    ids = torch.from_numpy(encode_mulaw(samples).astype(np.int64))[None] + wavenet.first
    log_probs = wavenet.token_log_probs(ids, torch.tensor([len(samples)]))[0].double()
    expected = [float(part.sum()) for part in log_probs.split(RATE)]
    assert list(scored.seconds_log_probs) == pytest.approx(expected, rel=1e-5)


def test_training_learns_the_voices(voices: Path, tmp_path: Path) -> None:
    config = make_config(voices, "plain", epochs=12, model={"d": 16})
    result = train_run(config, tmp_path / "run", SilentReporter())
    task = load_task(tmp_path / "run", "cpu")
    rows = task.read(task.config, voices, ReadCounter())
    bits = task.evaluate(rows).scores()["bits_per_sample"]
    assert bits < 5.0  # 8 for a model that knows nothing
    assert result.scores["bits_per_sample"] < 6.5


def test_stereo_copy_at_another_rate_scores_the_same(tasks: dict[str, SoundLmTask], tmp_path: Path) -> None:
    import soundfile
    import soxr

    samples = make_voice(0.05, 2 * RATE, 3).astype(np.float32)
    write_wav(tmp_path / "mono.wav", samples, RATE)
    high = soxr.resample(samples, RATE, 16000)
    soundfile.write(tmp_path / "stereo.flac", np.stack((high, high), axis=1), 16000)
    mono, stereo = tasks["plain"].predict([tmp_path / "mono.wav", tmp_path / "stereo.flac"])
    assert abs(mono.n_samples - stereo.n_samples) <= 1
    assert mono.bits_per_sample == pytest.approx(stereo.bits_per_sample, abs=0.1)


def test_arrays_and_audio_are_examples(tasks: dict[str, SoundLmTask]) -> None:
    samples = make_voice(0.05, 700, 3).astype(np.float32)
    audio = Audio(samples, RATE)
    one, two = tasks["plain"].predict([samples, audio])
    assert (one.n_samples, one.log_prob) == (700, two.log_prob)
    with pytest.raises(DataError, match="must be a path, an Audio or an array of one channel, got ndarray of shape"):
        tasks["plain"].predict([np.zeros((2, 5))])
    with pytest.raises(DataError, match="samples must be floats"):
        tasks["plain"].predict([np.zeros(5, np.int64)])


def test_report_states_the_protocol(tasks: dict[str, SoundLmTask], voices: Path) -> None:
    result = tasks["speakers"].evaluate(read(tasks["speakers"], voices))
    text = "\n".join(result.lines())
    assert "levels:256|rate:2000|before:silence|context:16|speakers:6 of 6|recordings:6|n=" in text
    assert "high  3 recordings" in text
    values = [one.log_prob for one in result.scored]
    n = sum(one.n_samples for one in result.scored)
    assert result.scores()["bits_per_sample"] == pytest.approx(-sum(values) / n / math.log(2))
    assert tasks["speakers"].find_metric("bits_per_sample").higher_is_better is False
    with pytest.raises(ConfigError, match="metric must be one of bits_per_sample, got 'perplexity'"):
        tasks["speakers"].find_metric("perplexity")


def test_bits_by_second_sum_to_the_log_probability() -> None:
    one = ScoredRecording("a.wav", None, 2500, 1000, (-100.0, -200.0, -300.0))
    assert one.log_prob == -600
    assert one.bits_per_sample_by_second == pytest.approx([x / math.log(2) for x in (0.1, 0.2, 0.6)])
    assert one.to_rows() == [
        {"log_prob": -600.0, "bits_per_sample": one.bits_per_sample, "seconds": 2.5, "file": "a.wav"}
    ]


def test_describe_names_the_speakers_and_conditions(tasks: dict[str, SoundLmTask]) -> None:
    lines = "\n".join(tasks["series"].describe(5))
    assert "2 speakers: high, low" in lines
    assert "conditioned on series, 2 features for each 20 samples" in lines
    assert "a sample depends on the 16 before it, 8 ms" in lines
