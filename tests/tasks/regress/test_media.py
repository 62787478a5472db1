"""Regression on pictures and sounds: it learns, drops broken files, and is as exact as other tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catena
from catena import config as configs
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError
from catena.tasks.regress.config import RegressConfig
from catena.tasks.regress.estimator import Regressor
from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter

image = pytest.importorskip("PIL.Image")
soundfile = pytest.importorskip("soundfile")
pytest.importorskip("soxr")

MODELS: dict[str, dict[str, Any]] = {
    "picture": {
        "kind": "picture",
        "encoder": {"kind": "resnet", "depth": 8, "width": 4},
        "input": {"height": 16, "width": 16},
        "augmentation": {"padding": 1},
    },
    "sound": {
        "kind": "sound",
        "encoder": {"kind": "convolution", "windows": [3], "filters": 16, "n_layers": 2, "norm": "batch"},
        "augmentation": {"time_mask": 2},
        "pooling": "mean",
    },
}
KINDS = ("picture", "sound")


def write_files(folder: Path, kind: str, n: int, seed: int = 0) -> Path:
    """A table of gray pictures and their brightness, or of tones and their pitch in octaves."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    lines = ["file,weight,value"]
    for i in range(n):
        value, name = rng.uniform(0, 1), f"{i:03}.{'png' if kind == 'picture' else 'wav'}"
        if kind == "picture":
            pixels = np.clip(255 * value + rng.normal(0, 8, (18, 18, 3)), 0, 255)
            image.fromarray(pixels.astype(np.uint8)).save(folder / name)
        else:
            samples = 0.3 * np.sin(2 * np.pi * 200 * 8**value * np.arange(2000) / 8000)
            soundfile.write(folder / name, samples + 0.01 * rng.normal(size=2000), 8000)
        lines.append(f"{name},{rng.normal():.3f},{10 + value:.4f}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "table.csv"


def make_config(kind: str, table: Path, **sections: Any) -> RegressConfig:
    values: dict[str, Any] = {
        "model": MODELS[kind],
        "data": {"train": [str(table)], "dev_fraction": 0.2, **sections.pop("data", {})},
        "batches": {"batch_size": 16},
        "training": {"max_epochs": 8, "patience": 0, **sections.pop("training", {})},
        "machine": {"device": "cpu", "threads": 1},
        **sections,
    }
    return configs.parse(RegressConfig, values)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("files")
    return {kind: write_files(root / kind, kind, 120) for kind in KINDS}


@pytest.fixture(scope="module")
def runs(tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        train_run(make_config(kind, tables[kind]), root / kind, SilentReporter())
    return {kind: root / kind for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_learns_what_a_file_shows(kind: str, runs: dict[str, Path], tmp_path: Path) -> None:
    task = load_task(runs[kind], "cpu")
    new = write_files(tmp_path, kind, 40, seed=1)
    assert task.evaluate(list(task.read(task.config, new, ReadCounter()))).scores()["r2"] > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_do_not_depend_on_the_batch_or_on_saving(
    kind: str, tables: dict[str, Path], runs: dict[str, Path], tmp_path: Path
) -> None:
    model = catena.load(runs[kind])
    paths = sorted(str(path) for path in tables[kind].parent.glob("0*.[pw]*"))[:9]
    values, deviations = model.predict(paths, return_std=True)
    assert np.allclose(model.predict(paths[::-1]), values[::-1], atol=1e-5)
    assert np.allclose(model.predict(paths[:1]), values[:1], atol=1e-5)
    assert (deviations > 0).all()
    model.save(tmp_path / "model")
    assert np.array_equal(catena.load(tmp_path / "model").predict(paths), values)


def test_table_folder_and_file_give_the_same(tables: dict[str, Path], runs: dict[str, Path]) -> None:
    task = load_task(runs["picture"], "cpu")
    folder = tables["picture"].parent
    by_input = {
        str(path): {p.text: p.value for p in task.predict_stream(task.read_inputs(path, ReadCounter()))}
        for path in (tables["picture"], folder, folder / "000.png")
    }
    table, listed, one = by_input.values()
    assert table == listed
    assert one == pytest.approx({str(folder / "000.png"): table[str(folder / "000.png")]})


@pytest.mark.parametrize("kind", KINDS)
def test_broken_files_are_dropped_and_listed(kind: str, tmp_path: Path) -> None:
    table = write_files(tmp_path / "data", kind, 30)
    broken = tmp_path / "data" / ("003.png" if kind == "picture" else "003.wav")
    broken.write_bytes(b"no")
    (tmp_path / "data" / broken.name.replace("003", "004")).unlink()
    train_run(make_config(kind, table, training={"max_epochs": 1}), tmp_path / "run", SilentReporter())
    listed = (tmp_path / "run" / "dropped.tsv").read_text(encoding="utf-8")
    assert "003." in listed
    assert "004." in listed
    with pytest.raises(DataError, match="003"):
        load_task(tmp_path / "run", "cpu").predict([str(broken)])


def test_numbers_are_added_to_files(tables: dict[str, Path], tmp_path: Path) -> None:
    config = make_config("picture", tables["picture"], data={"number_columns": ["weight"]}, training={"max_epochs": 1})
    train_run(config, tmp_path / "run", SilentReporter())
    task = load_task(tmp_path / "run", "cpu")
    found = list(task.predict_stream(task.read_inputs(tables["picture"], ReadCounter())))
    assert list(found[0].numbers) == ["weight"]
    with pytest.raises(DataError, match="must be the path of a picture"):
        task.predict([str(tables["picture"].parent / "000.png")])


def test_learned_variance_has_two_outputs(tables: dict[str, Path], tmp_path: Path) -> None:
    config = make_config("sound", tables["sound"], output={"variance": "learned"}, training={"max_epochs": 1})
    train_run(config, tmp_path / "run", SilentReporter())
    task = load_task(tmp_path / "run", "cpu")
    found = list(task.predict_stream(task.read_inputs(tables["sound"], ReadCounter())))
    assert len({prediction.std for prediction in found}) > 1


def test_estimator_takes_paths(tables: dict[str, Path]) -> None:
    folder = tables["picture"].parent
    paths = [str(folder / f"{i:03}.png") for i in range(40)]
    model = Regressor("picture", max_steps=2, depth=8)
    assert model.fit(paths, np.arange(40.0)).predict(paths[:2]).shape == (2,)


def test_no_baselines(tables: dict[str, Path], runs: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match="Regression on pictures has no baselines"):
        load_task(runs["picture"], "cpu").baselines()
