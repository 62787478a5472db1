"""Checkpoints are complete or rejected and can be moved, and paths are resolved as documented."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from catena.checkpoint import (
    LOCK,
    last_checkpoint,
    list_checkpoints,
    lock_run,
    open_checkpoint,
    read_checkpoint,
    write_checkpoint,
    write_pointer,
)
from catena.checkpoint.values import find_misfit, read_stored
from catena.errors import CheckpointError
from catena.files import digest, file_sha256, write_text_atomically
from catena.training.run import RunFolder, create_run

FIXTURES = Path(__file__).parent / "fixtures"


def save_config(folder: Path) -> None:
    (folder / "config.toml").write_text('kind = "test"\n', encoding="utf-8")
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer" / "words.json").write_text('["ein", "Wörterbuch"]\n', encoding="utf-8")


def write(folder: Path, value: float = 1.0) -> Path:
    weights = {"layer.weight": torch.full((2, 3), value), "layer.bias": torch.arange(2.0)}
    training = {"moment": torch.full((4,), value)}
    return write_checkpoint(folder, weights, save_config, training=training, state={"step": 3}).folder


def make_run(path: Path, steps: tuple[int, ...] = (5, 10)) -> RunFolder:
    run = create_run(path, 'kind = "test"\n', seed=0)
    for step in steps:
        write(run.folder_of(step), float(step))
        write_pointer(path, "last", run.folder_of(step))
    write_pointer(path, "best", run.folder_of(steps[0]))
    return run


def damage(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    path.write_bytes(bytes(content))


# --- writing ------------------------------------------------------------------------------------------------


def test_checkpoint_round_trips(tmp_path: Path) -> None:
    shared = torch.randn(3, 2)
    weights: dict[str, Tensor] = {
        "encoder.weight": shared,
        "decoder.weight": shared,
        "view": torch.arange(10.0)[2:5],
        "transposed": torch.arange(6.0).view(2, 3).T,
        "scalar": torch.tensor(3),
        "empty": torch.zeros(0, 4),
        "other empty": torch.zeros(0, 4),
        "half": torch.randn(5).bfloat16(),
        "flags": torch.tensor([True, False]),
    }
    write_checkpoint(tmp_path / "a", weights, save_config, state={"step": 7, "scores": {"f1": None}})
    found = read_checkpoint(tmp_path / "a")
    read = found.weights()
    assert read.keys() == weights.keys()
    for name, tensor in weights.items():
        assert torch.equal(read[name], tensor), name
        assert read[name].dtype == tensor.dtype, name
    assert found.state() == {"step": 7, "scores": {"f1": None}}
    assert (found.folder / "tokenizer" / "words.json").read_text(encoding="utf-8") == '["ein", "Wörterbuch"]\n'


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    table = torch.randn(1000, 8)
    tied = write_checkpoint(tmp_path / "tied", {"a": table, "b": table}, save_config).folder
    size = (tied / "model.safetensors").stat().st_size
    assert 32_000 < size < 33_000


def test_checkpoint_contains_no_pickle(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    assert {p.suffix for p in folder.rglob("*") if p.is_file()} == {".toml", ".json", ".safetensors"}


def test_files_have_default_permissions(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    plain = tmp_path / "plain"
    plain.write_text("", encoding="utf-8")
    modes = {stat.S_IMODE(p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}
    assert modes == {stat.S_IMODE(plain.stat().st_mode)}


def test_existing_checkpoint_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "a", 1.0)
    write(tmp_path / "a", 2.0)
    assert read_checkpoint(tmp_path / "a").weights()["layer.weight"][0, 0] == 2.0
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_failed_write_keeps_old_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "a", 1.0)

    def fails(folder: Path) -> None:
        save_config(folder)
        raise OSError("no space left on device")

    with pytest.raises(CheckpointError, match=r"Cannot write the checkpoint .*: no space left on device\. Free disk"):
        write_checkpoint(tmp_path / "a", {"w": torch.ones(1)}, fails)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert read_checkpoint(tmp_path / "a").weights()["layer.weight"][0, 0] == 1.0


@pytest.mark.parametrize("limit", [300, 10_000], ids=["state", "weights"])
def test_file_size_limit_keeps_old_checkpoint(limit: int, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    run = make_run(tmp_path / "run", (5,))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(CheckpointError, match=r"step-000010: File too large\. Free disk space, .*\(ulimit -f\)"):
            write_checkpoint(run.folder_of(10), {"w": torch.ones(10_000)}, save_config, state={"x": "y" * 2000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-000005"]
    assert last_checkpoint(run.path).folder == run.folder_of(5)


def test_text_file_is_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new folder" / "notes.txt"
    write_text_atomically(path, "eins\r\nzwei ü\n")
    assert path.read_bytes() == "eins\r\nzwei ü\n".encode()

    def fails(*_: object) -> None:
        raise OSError("disk gone")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="disk gone"):
        write_text_atomically(path, "other")
    assert path.read_bytes() == "eins\r\nzwei ü\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["notes.txt"]


# --- damage -------------------------------------------------------------------------------------------------


@given(bit=st.integers(0, 1 << 20), file=st.integers(0, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_flipped_bit_is_detected(tmp_path: Path, bit: int, file: int) -> None:
    folder = tmp_path / "a"
    if not folder.exists():
        write(folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    assert len(files) == 6
    before = files[file].read_bytes()
    damage(files[file], bit)
    with pytest.raises(CheckpointError, match=rf"{files[file].name} (is damaged|must be 1)"):
        read_checkpoint(folder)
    files[file].write_bytes(before)
    read_checkpoint(folder)


def test_settled_files_are_hashed_once_and_again_when_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a") / "model.safetensors"
    hashed: list[str] = []
    monkeypatch.setattr(
        "catena.checkpoint.folder.file_sha256", lambda path: (hashed.append(path.name), file_sha256(path))[1]
    )
    for _ in range(2):
        read_checkpoint(path.parent)
    assert hashed.count(path.name) == 2  # just written: another change could have the same time
    hour_ago = path.stat().st_mtime_ns - 3600 * 10**9
    os.utime(path, ns=(hour_ago, hour_ago))
    for _ in range(2):
        read_checkpoint(path.parent)
    assert hashed.count(path.name) == 3
    damage(path, 700)
    with pytest.raises(CheckpointError, match="sha256 differs"):
        read_checkpoint(path.parent)
    os.utime(path, ns=(hour_ago + 1, hour_ago + 1))
    with pytest.raises(CheckpointError, match="sha256 differs"):
        read_checkpoint(path.parent)


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "state.json", "config.toml"])
def test_truncated_file_raises_error_with_sizes(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a") / name
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CheckpointError, match=rf"{name} is damaged: it has {size - 3} bytes instead of {size}"):
        read_checkpoint(tmp_path / "a")


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors", "tokenizer/words.json"])
def test_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (write(tmp_path / "a") / name).unlink()
    with pytest.raises(CheckpointError, match=f"a is incomplete: {name} is missing"):
        open_checkpoint(tmp_path / "a")


def test_checkpoint_of_another_model_raises_error_with_differences(tmp_path: Path) -> None:
    found = read_checkpoint(write(tmp_path / "a"))

    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 5)
            self.head = nn.Linear(1, 1, bias=False)

    with pytest.raises(CheckpointError, match="belongs to another model") as error:
        found.load_into(Other())
    assert "head.weight is in the model only" in str(error.value)
    assert "float32 of shape (2, 3) in the checkpoint and float32 of shape (5, 3) in the model" in str(error.value)
    with pytest.raises(CheckpointError, match=r"float32 of shape .* float64 of shape"):
        found.load_into(nn.ModuleDict({"layer": nn.Linear(3, 2).double()}))


def test_checkpoint_of_same_model_is_loaded(tmp_path: Path) -> None:
    model = nn.ModuleDict({"layer": nn.Linear(3, 2)})
    read_checkpoint(write(tmp_path / "a", 4.0)).load_into(model)
    assert model["layer"].weight.tolist() == [[4.0] * 3] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_that_are_not_finite_raise_error(tmp_path: Path, value: float, dtype: torch.dtype) -> None:
    model = nn.Linear(3, 2).to(dtype)
    with torch.no_grad():
        model.weight[1, 2] = value
    checkpoint = write_checkpoint(tmp_path / "x", model.state_dict(), save_config)
    with pytest.raises(CheckpointError, match=rf"model.safetensors must hold finite weights, got {value} in weight: "):
        checkpoint.load_into(nn.Linear(3, 2).to(dtype))
    if value == float("-inf"):  # the log of 0 in a count-based model
        assert checkpoint.weights()["weight"][1, 2] == value
    else:
        with pytest.raises(CheckpointError, match=f"got {value} in weight"):
            checkpoint.weights()


def test_resume_without_training_state_raises_error(tmp_path: Path) -> None:
    found = write_checkpoint(tmp_path / "a", {"w": torch.ones(1)}, save_config)
    with pytest.raises(CheckpointError, match=r"cannot be resumed. Start a new run from its weights with --init-from"):
        found.training()


# --- the lock -----------------------------------------------------------------------------------------------


def test_lock_names_host_and_process(tmp_path: Path) -> None:
    with lock_run(tmp_path / "run"):
        assert (tmp_path / "run" / LOCK).read_text().split() == [socket.gethostname(), str(os.getpid())]
        sentence = f"run is in use: process {os.getpid()} on {socket.gethostname()} is training in it. Wait"
        with pytest.raises(CheckpointError, match=re.escape(sentence)), lock_run(tmp_path / "run"):
            raise AssertionError("locked twice")
    assert not (tmp_path / "run").exists()


def test_lock_is_released_by_an_error_and_by_a_killed_process(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run").path
    with pytest.raises(KeyError), lock_run(run):
        raise KeyError
    script = (
        f"import os, pathlib, catena.checkpoint as c\nlock = c.lock_run(pathlib.Path({str(run)!r}))\n"
        "lock.__enter__()\nos.abort()"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert killed.returncode != 0
    assert (run / LOCK).exists()
    with lock_run(run):
        assert (run / LOCK).read_text().split()[1] == str(os.getpid())
    assert not (run / LOCK).exists()
    assert (run / "meta.json").exists()


def test_lock_is_not_shared_by_processes(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, catena.checkpoint as c\n"
        f"try:\n    c.lock_run(pathlib.Path({str(tmp_path)!r})).__enter__()\n"
        "except Exception as error:\n    sys.exit(str(error))"
    )
    with lock_run(tmp_path):
        second = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"process {os.getpid()} on" in second.stderr


# --- versions -----------------------------------------------------------------------------------------------


def reseal(folder: Path, version: Any) -> None:
    """Change the version as a newer Catena would write it, with a matching checksum."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.pop("checksum")
    manifest["format_version"] = version
    manifest["checksum"] = digest(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_newer_format_raises_error(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    reseal(run.folder_of(5), 999)
    with pytest.raises(CheckpointError, match=r"format version of .* must be 2 for Catena .*, got 999"):
        open_checkpoint(run.path)
    meta = json.loads((run.path / "meta.json").read_text())
    (run.path / "meta.json").write_text(json.dumps({**meta, "format_version": 999}))
    with pytest.raises(CheckpointError, match=r"meta\.json must be 2 .*, got 999.*pip install --upgrade catena"):
        open_checkpoint(run.path)


@pytest.mark.parametrize("version", [1, 0, "2", None])
def test_older_format_raises_error(tmp_path: Path, version: Any) -> None:
    folder = write(tmp_path / "a")
    reseal(folder, version)
    with pytest.raises(CheckpointError, match=rf"must be 2 for Catena .*, got {version!r}\. Train the model again"):
        read_checkpoint(folder)


def test_run_of_version_2_is_loaded() -> None:
    """The folder was written by the first Catena of this version and must not be written again."""
    found = open_checkpoint(FIXTURES / "run_v2")
    assert found.state() == {"step": 2}
    assert found.weights()["output.weight"].tolist() == [[0.0, 0.5, 1.0], [1.5, 2.0, 2.5]]
    assert found.weights()["tied.weight"].tolist() == [[0.0, 0.5, 1.0], [1.5, 2.0, 2.5]]
    last = open_checkpoint(FIXTURES / "run_v2" / "last")
    assert last.state() == {"step": 4}
    assert last.training()["optimizer:output.weight/step"].item() == 4.0
    assert (last.folder / "config.toml").read_text(encoding="utf-8") == 'kind = "fixture"\n'


# --- paths --------------------------------------------------------------------------------------------------


def test_run_path_resolves_to_best_and_other_paths_to_themselves(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert open_checkpoint(run.path).folder == run.folder_of(5)
    assert open_checkpoint(run.path / "best").folder == run.folder_of(5)
    assert open_checkpoint(run.path / "last").folder == run.folder_of(10)
    assert open_checkpoint(run.folder_of(10)).folder == run.folder_of(10)
    (run.path / "best").unlink()
    assert open_checkpoint(run.path).folder == run.folder_of(10)


def test_run_and_checkpoint_can_be_moved(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    shutil.move(run.path, tmp_path / "moved")
    assert open_checkpoint(tmp_path / "moved").weights()["layer.weight"][0, 0] == 5.0
    shutil.move(tmp_path / "moved" / "checkpoints" / "step-000010", tmp_path / "alone")
    shutil.rmtree(tmp_path / "moved")
    assert open_checkpoint(tmp_path / "alone").weights()["layer.weight"][0, 0] == 10.0


def test_run_copied_without_links_is_loaded(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    shutil.copytree(run.path, tmp_path / "copy", symlinks=False)
    assert not (tmp_path / "copy" / "best").is_symlink()
    assert open_checkpoint(tmp_path / "copy").weights()["layer.weight"][0, 0] == 5.0
    write_pointer(tmp_path / "copy", "best", tmp_path / "copy" / "checkpoints" / "step-000010")
    assert open_checkpoint(tmp_path / "copy").weights()["layer.weight"][0, 0] == 10.0


def test_pointer_file_replaces_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("a required privilege is not held by the client")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    run = make_run(tmp_path / "run")
    assert (run.path / "best").read_text() == "checkpoints/step-000005\n"
    assert open_checkpoint(run.path).folder == run.folder_of(5)
    assert open_checkpoint(run.path / "last").folder == run.folder_of(10)
    assert open_checkpoint(run.path / "best").folder == run.folder_of(5)


def test_damaged_last_falls_back_to_newest_complete_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=(999_999, 1_000_000, 1_000_001))
    damage(run.folder_of(1_000_001) / "model.safetensors", 900)
    notes: list[str] = []
    assert open_checkpoint(run.path / "last", notes.append).folder == run.folder_of(1_000_000)
    assert len(notes) == 1
    assert "model.safetensors is damaged" in notes[0]
    assert f"Falling back to the newest complete checkpoint, {run.folder_of(1_000_000)}" in notes[0]
    shutil.rmtree(run.folder_of(1_000_001))
    assert last_checkpoint(run.path).folder == run.folder_of(1_000_000)
    for folder in list_checkpoints(run.path):
        (folder / "state.json").unlink()
    with pytest.raises(CheckpointError, match=r"No checkpoint of the run is usable: .*state\.json is missing"):
        last_checkpoint(run.path)


def test_damaged_best_raises_error(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    damage(run.folder_of(5) / "model.safetensors", 900)
    for path in (run.path, run.path / "best"):
        with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged.*Choose another checkpoint of"):
            open_checkpoint(path)
    shutil.rmtree(run.folder_of(5))
    with pytest.raises(CheckpointError, match=r"best points to .*step-000005, which is missing"):
        open_checkpoint(run.path)


def test_missing_path_suggests_similar_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "mr-cnn")
    with pytest.raises(CheckpointError, match=r"Run or checkpoint not found: .*mr-cn\. Did you mean .*mr-cnn\?"):
        open_checkpoint(tmp_path / "mr-cn")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"Run or checkpoint not found: gpt2 in .*\. Pass the folder that 'catena train' wrote"
    ):
        open_checkpoint(Path("gpt2"))
    make_run(tmp_path / "runs" / "lm-ngram-001")
    with pytest.raises(CheckpointError, match=r"not found: lm-ngram-001\. Did you mean runs/lm-ngram-001\?"):
        open_checkpoint(Path("lm-ngram-001"))
    with pytest.raises(CheckpointError, match=r"The folder nobody does not exist either"):
        open_checkpoint(Path("nobody/gpt2"))


def test_path_without_model_raises_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"neither a run .* nor a checkpoint .* that 'catena train' wrote"):
        open_checkpoint(tmp_path)
    (tmp_path / "file.tsv").write_text("x", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"file\.tsv is neither a run"):
        open_checkpoint(tmp_path / "file.tsv")
    empty = create_run(tmp_path / "empty", "", seed=0)
    with pytest.raises(CheckpointError, match=r"empty has no checkpoint yet"):
        open_checkpoint(empty.path)


@pytest.mark.parametrize(
    ("value", "kind", "misfit"),
    [
        ({"a": 1}, {"a": int}, ""),
        ({"a": True}, {"a": int}, "a must be int, got True"),
        ({"b": 1}, {"a": int}, "it must have the key 'a', got ['b']"),
        ([], {"a": int}, "it must be an object, got []"),
        ([1, 2.5], list[float], ""),
        ([1, float("nan")], list[float], "it[1] must be finite, got nan"),
        (["a", 1], list[str], "it must list str only"),
        ("ab", list[str], "it must be list[str], got 'ab'"),
        ([["a", 1]], list[tuple[str, int]], ""),
        ([["a"]], list[tuple[str, int]], "it[0] must have 2 values, got ['a']"),
        ({"x": None}, dict[str, float | None], ""),
        ({"x": "y"}, dict[str, float | None], "it['x'] must be float, got 'y'"),
        (True, bool, ""),
        (1, bool, "it must be bool, got 1"),
    ],
)
def test_stored_values_of_other_types_are_found(value: object, kind: object, misfit: str, tmp_path: Path) -> None:
    assert find_misfit(value, kind) == misfit
    (tmp_path / "value.json").write_text(json.dumps(value), encoding="utf-8")
    if misfit:
        with pytest.raises(CheckpointError, match=rf"value\.json is damaged: {re.escape(misfit)}"):
            read_stored(tmp_path / "value.json", kind)
    elif "nan" not in repr(value):
        assert read_stored(tmp_path / "value.json", kind) == value


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("files", "state.json", "size"), None),
        (("files", "state.json", "size"), {}),
        (("files", "state.json", "sha256"), 3),
        (("model", "tensors", "layer.bias"), 3.7),
        (("model", "tensors", "layer.bias"), []),
        (("model", "shared"), {"x": []}),
    ],
)
def test_manifest_with_other_types_is_damaged(at: tuple[str, ...], value: object, tmp_path: Path) -> None:
    path = write(tmp_path / "model") / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest.pop("checksum")
    part = manifest
    for key in at[:-1]:
        part = part[key]
    part[at[-1]] = value
    path.write_text(json.dumps({**manifest, "checksum": digest(manifest)}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="it does not list the files and tensors of the model"):
        read_checkpoint(tmp_path / "model")
