"""``catena train lm``, ``generate`` and ``score`` with recordings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from catena.cli.main import main
from catena.data.audio import read_audio, write_wav
from catena.data.mulaw import decode_mulaw
from catena.randomness import counted_uniforms
from catena.tasks.runs import load_task
from tests.cli.conftest import Catena, matches
from tests.cli.families import sounds

pytest.importorskip("soundfile")
pytest.importorskip("soxr")

SIZE = ("--d", "6", "--d-skip", "8", "--n-layers", "4", "--n-blocks", "1", "--sample-rate", "2000")
QUICK = ("--max-steps", "3", "--threads", "1", "-q")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings, and a run of a model with two speakers."""
    folder = tmp_path_factory.mktemp("sounds")
    sounds(folder)
    words = ("train", "lm", folder / "train", "--speakers", *SIZE, *QUICK, "-o", folder / "run")
    assert main([str(word) for word in words]) == 0
    return folder


def step_by_step(run: Path, speaker: str, n: int, seed: int, temperature: float) -> list[float]:
    """Samples by single steps of the model of a run, with the uniform numbers of the seed and the time."""
    task = load_task(run, "cpu")
    wavenet = task.recording_network.wavenet  # type: ignore[attr-defined]
    stepper = wavenet.conditioned(torch.tensor([task.encoding.speakers.id(speaker)]))  # type: ignore[attr-defined]
    state, levels = stepper.start(1), []
    for u in counted_uniforms(seed, 0, 0, n).tolist():
        edges = torch.softmax(stepper.log_probs(state)[0].double() / temperature, dim=0).cumsum(dim=0)
        levels.append(int((edges <= u * edges[-1]).sum()) - wavenet.first)
        state = stepper.advance(state, torch.tensor([wavenet.first + levels[-1]]))
    return decode_mulaw(np.array(levels)).tolist()


def test_generated_file_equals_single_steps(catena: Catena, folder: Path) -> None:
    words = ("generate", folder / "run", "-o", "out.wav", "--seconds", "0.05", "--speaker", "low")
    said = catena(*words, "--temperature", "0.7", "--seed", "3")
    assert said.code == 0, said.err
    assert said.out.startswith("out.wav: 0.05 s at 2000 Hz, ")
    audio = read_audio("out.wav")
    np.testing.assert_allclose(audio.samples, step_by_step(folder / "run", "low", 100, 3, 0.7), atol=1 / 32768)
    before = Path("out.wav").read_bytes()
    catena(*words, "--temperature", "0.7", "--seed", "3")
    assert Path("out.wav").read_bytes() == before
    catena(*words, "--temperature", "0.7", "--seed", "4")
    assert Path("out.wav").read_bytes() != before


def test_prompt_begins_the_file_and_several_get_numbers(catena: Catena, folder: Path) -> None:
    prompt = folder / "input" / "low" / "1.wav"
    words = ("generate", folder / "run", prompt, "-o", "out.wav", "--n", "2", "--max-length", "30", "--top-k", "9")
    rows = [json.loads(line) for line in catena(*words, "--format", "jsonl").out.splitlines()]
    assert [row["file"] for row in rows] == ["out-1.wav", "out-2.wav"]
    assert [row["seconds"] for row in rows] == [0.015, 0.015]
    made, own = read_audio("out-2.wav").samples, read_audio(prompt).samples
    assert len(made) == 430
    np.testing.assert_allclose(made[:400], own, atol=0.02)  # up to the mu-law levels
    assert catena("generate", folder / "run", "-o", "x.wav", "--seconds", "0.01", "--format", "tsv").out.endswith(
        "\tx.wav\n"
    )
    Path("names.txt").write_text(f"{prompt}\n{prompt}\n", encoding="utf-8")
    catena("generate", folder / "run", "--file", "names.txt", "-o", "y.wav", "--seconds", "0.01")
    assert len(read_audio("y-2.wav").samples) == 420


def test_ensemble_and_fusion_generate(catena: Catena, folder: Path) -> None:
    words = ("generate", folder / "run", "-o", "out.wav", "--seconds", "0.01")
    for more in (("--ensemble", folder / "run"), ("--fuse", folder / "run"), ("--search", "beam")):
        said = catena(*words, *more)
        assert said.code == 0, said.err
        assert len(read_audio("out.wav").samples) == 20


def test_options_of_texts_and_sounds_are_not_mixed(catena: Catena, folder: Path, ngram_model: Path) -> None:
    words = ("generate", folder / "run", "-o", "out.wav")
    assert matches(
        catena(*words, "--include", "a").sentence, "--include cannot be used with a model of recordings. Remove it."
    )
    assert matches(
        catena("generate", ngram_model, "--seconds", "2").sentence,
        "--seconds cannot be used with a model of texts. Remove it.",
    )
    assert matches(catena(*words[:2]).sentence, "-o is missing: a model of recordings writes a sound. Add -o out.wav.")
    assert matches(
        catena(*words, "--seconds", "1", "--max-length", "5").sentence,
        "--seconds and --max-length both set the length. Remove one of them.",
    )
    assert matches(catena(*words, "--fuse", ngram_model).sentence, f"{ngram_model} is not a model of recordings. …")
    assert matches(catena(*words, "--speaker", "lwo").sentence, "Unknown speaker 'lwo': did you mean 'low'?")
    assert matches(catena("generate", ngram_model, "a", "-o", "none/x").sentence, "Cannot write none/x: there is no …")
    assert catena("generate", ngram_model, "a", "-o", "text.txt", "--max-length", "4").out == ""
    assert Path("text.txt").read_text(encoding="utf-8").startswith("a")


def test_score_writes_bits_of_each_recording(catena: Catena, folder: Path) -> None:
    whole = catena("score", folder / "run", folder / "test")
    assert whole.code == 0, whole.err
    assert whole.out.splitlines()[-1].startswith("2 recordings, 800 samples, 0.40 s: log-probability -")
    clip = folder / "test" / "low" / "1.wav"
    rows = [
        json.loads(catena("score", folder / "run", clip, "--format", "jsonl", *more).out)
        for more in ((), ("--speaker", "low"), ("--speaker", "high"))
    ]
    assert [row["speaker"] for row in rows] == [None, "low", "high"]
    assert len({row["log_prob"] for row in rows}) == 3
    assert rows[0]["samples"] == 400
    typo = catena("score", folder / "run", clip, "--speaker", "lwo")
    assert matches(typo.sentence, "Unknown speaker 'lwo': did you mean 'low'?")
    assert catena("evaluate", folder / "run", clip, "--speaker", "lwo").sentence == typo.sentence
    piped = catena("score", folder / "run", stdin=clip.read_bytes())
    assert f"{rows[0]['bits_per_sample']:.4f} bits per sample" in piped.out
    found = catena("evaluate", folder / "run", folder / "test", "--format", "json")
    lines = catena("score", folder / "run", folder / "test", "--format", "jsonl").out.splitlines()
    mean = sum(json.loads(line)["log_prob"] for line in lines) / 800 / -np.log(2)
    assert json.loads(found.out)["scores"]["bits_per_sample"] == pytest.approx(mean, abs=1e-4)


def test_damaged_recordings_are_listed(catena: Catena, folder: Path) -> None:
    write_wav("mixed/a.wav", np.zeros(50), 2000)
    Path("mixed/b.wav").write_bytes(b"")
    said = catena("score", folder / "run", "mixed")
    assert (said.code, said.out.count("\n")) == (0, 2)
    assert said.err == "catena score: mixed/b.wav: not decoded: mixed/b.wav is empty. Remove it, or record it again.\n"
    Path("mixed/a.wav").unlink()
    assert catena("score", folder / "run", "mixed").code == 1
    said = catena("train", "lm", "mixed", *SIZE, *QUICK)
    assert matches(said.sentence, "train has no recording that can be decoded. The first error: …")
    said = catena("score", folder / "run", folder / "test", "--tokens")
    assert matches(said.sentence, "--tokens cannot be used with a model of recordings. Use --format jsonl …")


def test_training_lists_dropped_files_and_names_speakers(catena: Catena, folder: Path, tmp_path: Path) -> None:
    write_wav("data/ada/a.wav", 0.1 * np.sin(np.arange(700)), 2000)
    write_wav("data/ada/b.wav", 0.1 * np.sin(np.arange(700)), 2000)
    Path("data/notes.txt").write_text("hello", encoding="utf-8")
    said = catena("train", "lm", "data", *SIZE, *QUICK[:-1], "-o", "run")
    assert said.code == 0, said.err
    assert "read 3; used 2; dropped 1 (1 not a sound by name), listed in dropped.tsv" in said.out
    assert "notes.txt" in (tmp_path / "run" / "dropped.tsv").read_text(encoding="utf-8")
    write_wav("flat/a.wav", np.zeros(700), 2000)
    assert matches(
        catena("train", "lm", "flat", "--speakers", *SIZE, *QUICK).sentence, "No recording of train has a speaker. …"
    )


def test_diagnose_says_that_it_needs_texts(catena: Catena, folder: Path) -> None:
    sentence = catena("diagnose", folder / "run").sentence
    assert sentence == f"{folder / 'run'} is a model of recordings. Pass a run of 'catena train lm' on texts."
