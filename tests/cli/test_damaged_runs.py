"""Damaged run folders: every command prints one sentence, and none ends in a traceback or waits forever.

Each file of a run of a linear model, an n-gram model and a network is damaged in turn. The manifest is made valid
again, so that the content itself has to be checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from catena.cli.main import main
from catena.files import digest, file_sha256
from tests.cli.conftest import Catena, Said

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes and alarms")

SECONDS = 60
"""Time after which a command counts as waiting forever."""


@pytest.fixture(scope="module")
def ngram_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ngram")
    (folder / "text.txt").write_text("the cat sat\na dog ran\nthe dog sat\na cat ran\n" * 10, encoding="utf-8")
    words = ["train", "lm", folder / "text.txt", "--model", "ngram", "-q", "-o", folder / "run"]
    assert main([str(word) for word in words]) == 0
    return folder / "run"


@pytest.fixture(params=["loglinear", "ngram", "lstm"])
def intact(request: pytest.FixtureRequest, trained: Path, ngram_run: Path, language_model: Path) -> Path:
    return {"loglinear": trained, "ngram": ngram_run, "lstm": language_model}[request.param]


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Context that fails the test if it lasts too long. A TimeoutError would be reported like other OSErrors."""

    def stop(*_: object) -> None:
        pytest.fail(f"a command took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def reseal(checkpoint: Path) -> None:
    """Make the manifest fit the files again."""
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest.pop("checksum")
    for name, entry in manifest["files"].items():
        if (file := checkpoint / name).is_file():
            entry.update(size=file.stat().st_size, sha256=file_sha256(file))
    path.write_text(json.dumps({**manifest, "checksum": digest(manifest)}), encoding="utf-8")


def check_commands(catena: Catena, run: Path, name: str) -> list[Said]:
    """Run commands that read a run in different ways. Return the results of those that failed."""
    texts = run.parent / "texts.txt"
    texts.write_text("weather\tthe cat sat\nplay_music\ta dog ran\n", encoding="utf-8")
    failed = []
    for command in (("predict", run, texts), ("inspect", run), ("resume", run, "-q")):
        with limited():
            said = catena(*command)
        if said.code:
            assert said.code in (1, 2), f"{name}: {said}"
            assert said.err.rstrip().endswith((".", "?")), f"{name}: {said.err}"
            assert said.err.count("\n") <= 12, f"{name}: {said.err}"
            failed.append(said)
    return failed


def check_damage(catena: Catena, intact: Path, tmp_path: Path, damage: Callable[[Path], None], name: str) -> list[Said]:
    """Damage one file of a copy of a run, and run every command."""
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(intact, run, symlinks=True)
    path = run / name
    damage(path)
    if path.name != "manifest.json" and path.parent != run:
        reseal(run / "best")
    return check_commands(catena, run, name)


def names(run: Path, *endings: str) -> list[str]:
    """The files of a run, those of its best checkpoint by the link."""
    inside = [path for path in (run / "best").rglob("*") if path.is_file()]
    found = [path for path in (*run.iterdir(), *inside) if path.is_file() and path.name.endswith(endings)]
    return sorted(str(path.relative_to(run)) for path in found)


def overwrite(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


CONTENTS = {
    "deep": overwrite(b"[" * 100_000),
    "empty": overwrite(b""),
    "null": overwrite(b"null\n"),
    "object": overwrite(b"{}\n"),
    "noise": overwrite(bytes(range(256))),
    "half": cut,
}


@pytest.mark.parametrize("damage", CONTENTS)
def test_damaged_json_and_toml_gives_one_sentence(damage: str, catena: Catena, intact: Path, tmp_path: Path) -> None:
    files = names(intact, ".json", ".jsonl", ".toml")
    failed = {name: check_damage(catena, intact, tmp_path, CONTENTS[damage], name) for name in files}
    assert len(failed) >= 5
    assert all(failed[name] for name in ("meta.json", "best/manifest.json"))


def edit_key(key: str, change: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        value = json.loads(
            path.read_text(encoding="utf-8").splitlines()[0] if path.suffix == ".jsonl" else path.read_text()
        )
        if change == "removed":
            value.pop(key, None)
        else:
            value[key] = None if change == "null" else [["x"]]
        if path.name == "manifest.json":
            value.pop("checksum", None)
            value = {**value, "checksum": digest(value)}
        path.write_text(json.dumps(value) + "\n", encoding="utf-8")

    return edit


@pytest.mark.parametrize("change", ["removed", "null"])
def test_missing_and_invalid_keys_give_one_sentence(change: str, catena: Catena, intact: Path, tmp_path: Path) -> None:
    tried = 0
    for name in names(intact, ".json", ".jsonl"):
        lines = (intact / name).read_text(encoding="utf-8")
        value: Any = json.loads(lines.splitlines()[0] if name.endswith(".jsonl") else lines)
        for key in value if isinstance(value, dict) else ():
            check_damage(catena, intact, tmp_path, edit_key(key, change), name)
            tried += 1
    assert tried >= 20


def change_tensors(change: Callable[[torch.Tensor], torch.Tensor], prefix: str = "") -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        tensors = {prefix + name: change(tensor).contiguous() for name, tensor in load_file(path).items()}
        save_file(tensors, path)

    return edit


def fill_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.full_like(tensor, 255 if tensor.dtype == torch.uint8 else 1)


TENSORS = {
    "other names": change_tensors(torch.clone, "x."),
    "other shapes": change_tensors(lambda tensor: torch.cat([tensor.flatten(), tensor.flatten()[:1]])),
    "no elements": change_tensors(lambda tensor: tensor.flatten()[:0]),
    "other type": change_tensors(lambda tensor: tensor.to(torch.int16)),
    "filled": change_tensors(fill_bytes),
    "huge header": overwrite((1 << 62).to_bytes(8, "little") + b"{}"),
    "header with noise": overwrite((2).to_bytes(8, "little") + b"[]"),
}


@pytest.mark.parametrize("damage", {**TENSORS, **CONTENTS})
def test_damaged_tensors_give_one_sentence(damage: str, catena: Catena, intact: Path, tmp_path: Path) -> None:
    change = {**TENSORS, **CONTENTS}[damage]
    files = names(intact, ".safetensors") if damage in TENSORS else names(intact, ".safetensors", ".npz", ".bin")
    assert files
    for name in files:
        failed = check_damage(catena, intact, tmp_path, change, name)
        has_tensors = (intact / name).stat().st_size > 100
        if name.endswith("model.safetensors") and has_tensors and damage != "filled":
            assert failed, name


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "missing"])
def test_special_files_give_one_sentence(kind: str, catena: Catena, intact: Path, tmp_path: Path) -> None:
    def replace(path: Path) -> None:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "folder":
            path.mkdir()

    files = [name for name in names(intact, "") if name != "dropped.tsv"]
    failed = {name: check_damage(catena, intact, tmp_path, replace, name) for name in files}
    assert len(failed) >= 6
    assert all(failed[name] for name in files if name.startswith("best/"))
    if kind != "missing":
        assert all(failed[name] for name in ("config.toml", "meta.json", "metrics.jsonl"))


def test_pointer_out_of_the_run_gives_one_sentence(catena: Catena, trained: Path, tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    shutil.copytree(trained, run, symlinks=True)
    shutil.copytree(trained / "best", other)
    (run / "best").unlink()
    (run / "best").symlink_to(other)
    said = catena("inspect", run)
    assert said.code == 1
    assert said.sentence == f"{run / 'best'} points to {other}, outside the run. Pass that checkpoint itself."
    assert catena("inspect", other).code == 0


def test_index_with_fewer_texts_than_rows_is_an_error(catena: Catena, tmp_path: Path) -> None:
    rows = "".join(f"where is lamp {i}\tin box {i}\n" for i in range(20))
    (tmp_path / "train.tsv").write_text(rows, encoding="utf-8")
    (tmp_path / "texts.txt").write_text("where is lamp 3\n", encoding="utf-8")
    run = tmp_path / "run"
    assert catena("train", "converse", tmp_path / "train.tsv", "--model", "bm25", "-q", "-o", run).code == 0
    overwrite(b"[\n")(run / "best" / "index" / "responses.txt")
    reseal(run / "best")
    said = catena("predict", run, tmp_path / "texts.txt")
    assert said.code == 1
    assert "must have one response and one context for each row" in said.err
