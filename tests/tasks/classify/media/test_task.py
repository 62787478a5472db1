"""Classifiers of pictures and sounds: learning, order, padding, saving, resuming, damaged files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.checkpoint import open_checkpoint
from catena.data.audio import read_audio
from catena.data.media import list_labeled_files
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.classify.config import ClassifyConfig, ClassifyOptions
from catena.tasks.classify.media.task import MediaTask
from catena.tasks.runs import load_task, resume_run, train_run
from catena.training.report import SilentReporter
from tests.tasks.classify.media.conftest import KINDS, MODELS, make_config

ENCODERS: dict[str, list[dict[str, Any]]] = {
    "picture": [
        {"kind": "resnet", "depth": 8, "width": 4, "residual": False},
        {"kind": "vgg", "width": 0.05, "d_dense": 8, "variant": "A"},
        {"kind": "alexnet", "small": True, "width": 0.05, "d_dense": 8},
        {"kind": "googlenet", "small": True, "width": 0.05, "batch_norm": True},
        {"kind": "highway_image", "n_layers": 3, "d": 4},
    ],
    "sound": [
        {"kind": "dilated", "d": 8, "n_layers": 3},
        {"kind": "recurrent", "d": 8, "n_layers": 2},
        {"kind": "spectrogram", "channels": [4, 4]},
    ],
}
FIRST_PARAMETERS = [(kind, encoder) for kind, encoders in ENCODERS.items() for encoder in encoders]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_task(folder, "cpu").tensors()


def test_sounds_of_five_kinds_are_learned(tasks: dict[str, Any], folders: dict[str, Path]) -> None:
    examples = list(tasks["sound"].read(tasks["sound"].config, folders["sound"], ReadCounter()))
    assert tasks["sound"].evaluate(examples).scores()["accuracy"] >= 0.8


def test_pictures_of_two_colors_are_learned(tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for label, color in (("red", (190, 90, 90)), ("blue", (90, 90, 190))):
        (tmp_path / "data" / label).mkdir(parents=True)
        for i in range(16):
            pixels = np.clip(rng.normal(color, 40, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / label / f"{i}.png")
    train_run(make_config("picture", tmp_path / "data", 8), tmp_path / "run", SilentReporter())
    task = load_task(tmp_path / "run", "cpu")
    examples = list(task.read(task.config, tmp_path / "data", ReadCounter()))
    assert task.evaluate(examples).scores()["accuracy"] == 1.0


@pytest.mark.parametrize(("kind", "encoder"), FIRST_PARAMETERS, ids=lambda value: str(getattr(value, "kind", "")))
def test_every_encoder_trains(kind: str, encoder: dict[str, Any], folders: dict[str, Path], tmp_path: Path) -> None:
    size = {"input": {"height": 32, "width": 32}} if kind == "picture" else {}
    model = {**MODELS[kind], "encoder": encoder, **size}
    config = make_config(kind, folders[kind], 1, model=model, training={"max_steps": 2, "max_epochs": None})
    scores = train_run(config, tmp_path / "run", SilentReporter()).scores
    assert set(scores) == {"accuracy", "macro_f1", "log_loss"}
    assert np.isfinite(scores["log_loss"])


def test_waveform_features_train(folders: dict[str, Path], tmp_path: Path) -> None:
    model = {"kind": "sound", "input": {"features": "waveform"}, "encoder": {"kind": "dilated", "d": 8}}
    config = make_config("sound", folders["sound"], 1, model=model)
    assert np.isfinite(train_run(config, tmp_path / "run", SilentReporter()).scores["log_loss"])


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_do_not_depend_on_the_rest_of_the_batch(
    kind: str, tasks: dict[str, Any], folders: dict[str, Path]
) -> None:
    task = tasks[kind]
    paths = [file.path for file in list_labeled_files(folders[kind])][:12]
    together = task.log_probabilities(paths)
    for i in (0, 5, 11):
        np.testing.assert_allclose(task.log_probabilities([paths[i]])[0], together[i], atol=1e-5)
    np.testing.assert_allclose(task.log_probabilities(paths[::-1])[::-1], together, atol=1e-5)
    assert len({len(task.to_example(path).content) for path in paths}) > 1 or kind == "picture"


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_have_the_names_of_the_files(kind: str, tasks: dict[str, Any], folders: dict[str, Path]) -> None:
    path = list_labeled_files(folders[kind])[0].path
    (prediction,) = tasks[kind].predict([path], ClassifyOptions(n_best=2, scores=True))
    row = prediction.to_dict()
    assert row["file"] == str(path)
    assert row["label"] == tasks[kind].labels[int(tasks[kind].log_probabilities([path])[0].argmax())]
    assert len(row["n_best"]) == 2
    assert sum(row["probabilities"].values()) == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_run_resumes_to_the_same_weights(
    kind: str, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(kind, folders[kind], 3)
    train_run(config, tmp_path / "whole", SilentReporter())
    plain, n = MediaTask.loss, 0

    def die(self: MediaTask, batch: Any) -> Any:
        nonlocal n
        n += 1
        if n == 6:
            raise KeyError("killed")
        return plain(self, batch)

    monkeypatch.setattr(MediaTask, "loss", die)
    with pytest.raises(KeyError):
        train_run(config, tmp_path / "killed", SilentReporter())
    monkeypatch.setattr(MediaTask, "loss", plain)
    resume_run(tmp_path / "killed", SilentReporter())
    whole, resumed = (open_checkpoint(tmp_path / name / "last").folder for name in ("whole", "killed"))
    assert whole.name == resumed.name
    expected, actual = weights(whole), weights(resumed)
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, atol=0, rtol=0, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_augmentation_depends_on_the_file_and_epoch_only(
    kind: str, tasks: dict[str, Any], folders: dict[str, Path]
) -> None:
    task, randomness = tasks[kind], Randomness(3)
    rows = task.encode(list(task.read(task.config, folders[kind], ReadCounter())))
    alone = task.augment_batch(rows, np.array([4]), 1, randomness)
    together = task.augment_batch(rows, np.array([7, 4, 0]), 1, randomness)
    other = task.augment_batch(rows, np.array([4]), 2, randomness)
    n = alone.x.shape[1]
    torch.testing.assert_close(together.x[1, :n], alone.x[0])
    assert not torch.equal(other.x, alone.x)


def test_loss_is_the_mean_cross_entropy(tasks: dict[str, Any], folders: dict[str, Path]) -> None:
    task = tasks["sound"]
    examples = list(task.read(task.config, folders["sound"], ReadCounter()))
    rows = task.encode(examples)
    batch = task.collate(rows, np.arange(4))
    plain = torch.nn.functional.cross_entropy(task.network(batch).scores, batch.targets)
    torch.testing.assert_close(task.loss(batch).total, plain)
    task = type(task)(
        make_config("sound", folders["sound"], loss={"class_weights": "balanced"}), task.encoding, task.network
    )
    task._set_class_weights(rows)
    torch.testing.assert_close(task.loss(batch).total, plain)  # all classes are equally frequent
    few = task.encode(examples[:15])
    task._set_class_weights(few)
    losses = torch.nn.functional.cross_entropy(task.network(batch).scores, batch.targets, reduction="none")
    torch.testing.assert_close(task.loss(batch).total, (losses * (15 / (5 * 10))).mean())  # 10 of 15 have this class


# --- copies of a sound ------------------------------------------------------------------------------------------------


def test_stereo_copy_at_44_khz_gets_the_same_label(
    tasks: dict[str, Any], folders: dict[str, Path], tmp_path: Path
) -> None:
    import soundfile
    import soxr

    task = tasks["sound"]
    files = list_labeled_files(folders["sound"])[::5]
    assert files
    for file in files:
        mono = read_audio(file.path).samples
        fine = soxr.resample(mono, 8000, 44100)
        left = 0.3 * np.sin(np.arange(len(fine)) / 7)
        copy = tmp_path / "copy.flac"
        soundfile.write(copy, np.stack((fine + left, fine - left), axis=1).clip(-1, 1), 44100)
        labels = [prediction.label for prediction in task.predict([file.path, copy])]
        assert labels[0] == labels[1], file.path


# --- damaged and unusual files ----------------------------------------------------------------------------------------


def test_damaged_files_are_dropped_and_listed(folders: dict[str, Path], tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(folders["sound"], data)
    good = len(list_labeled_files(data))
    (data / "noise" / "broken.wav").write_bytes(b"RIFFnothing")
    (data / "steady" / "empty.wav").write_bytes(b"")
    train_run(make_config("sound", data, 1), tmp_path / "run", SilentReporter())
    listed = (tmp_path / "run" / "dropped.tsv").read_text().splitlines()
    assert [Path(line.split("\t")[0]).name for line in listed[1:]] == ["broken.wav", "empty.wav"]
    task = load_task(tmp_path / "run", "cpu")
    counter = ReadCounter()
    assert len(list(task.read(task.config, data, counter))) == good == counter.used
    assert counter.counts(good).sentence("") == f"read {good + 2}; used {good}; dropped 2 (2 not decoded)"


def test_folder_of_damaged_files_shows_the_first_error(tmp_path: Path) -> None:
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "x.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"train has no picture that can be decoded\. .*is not a picture"):
        train_run(make_config("picture", tmp_path), tmp_path / "run", SilentReporter())


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.png", b""), ("broken.jpg", b"\xff\xd8\xff\xe0broken"), ("text.png", b"hello")],
)
def test_damaged_picture_to_predict_is_one_sentence(
    name: str, content: bytes, tasks: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        tasks["picture"].predict([path])
    assert name in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_cmyk_exif_and_animated_pictures_equal_plain_ones(
    tasks: dict[str, Any], folders: dict[str, Path], tmp_path: Path
) -> None:
    from PIL import Image

    source = list_labeled_files(folders["picture"])[0].path
    with Image.open(source) as picture:
        picture.convert("CMYK").save(tmp_path / "cmyk.tiff")
        exif = Image.Exif()
        exif[0x0112] = 6
        picture.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
        picture.save(tmp_path / "animated.png", save_all=True, append_images=[picture.rotate(90)])
    names = ("cmyk.tiff", "turned.png", "animated.png")
    plain = tasks["picture"].log_probabilities([source])
    for name in names:
        np.testing.assert_allclose(tasks["picture"].log_probabilities([tmp_path / name]), plain, atol=0.05)


def test_sound_longer_than_max_seconds_is_dropped(tasks: dict[str, Any], tmp_path: Path) -> None:
    from catena.data.audio import write_wav

    write_wav(tmp_path / "long.wav", np.zeros(61 * 8000, np.float32), 8000)
    with pytest.raises(DataError, match="must be at most 60 s, got 61"):
        tasks["sound"].predict([tmp_path / "long.wav"])


# --- configs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": {"kind": "picture"}, "data": {"text_column": "x"}}, "data.text_column is only for models on texts"),
        ({"model": {"kind": "sound"}, "pretrained": "runs/lm"}, "pretrained is only for models on texts"),
        ({"model": {"kind": "cnn"}, "data": {"cache": "x"}}, "data.cache is only for pictures"),
        ({"model": {"kind": "sound"}, "data": {"cache": "x"}}, "data.cache is only for pictures"),
        (
            {"model": {"kind": "sound", "input": {"features": "waveform"}, "augmentation": {"gain": 3}}},
            "model.augmentation changes log-mel energies",
        ),
    ],
)
def test_options_of_other_models_are_errors(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        configs.parse(ClassifyConfig, values)


def test_folder_of_splits_is_an_error(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["picture"], tmp_path / "train")
    with pytest.raises(FormatError, match="must have one subfolder for each label, got train"):
        train_run(make_config("picture", tmp_path), tmp_path / "run", SilentReporter())
