from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from catena.files import UNFINISHED, atomic_write, escape_controls


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("sync", [False, True])
def test_atomic_write_creates_folder_and_replaces_file(sync: bool, tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    for text in ("first", "second"):
        with atomic_write(path, sync=sync) as unfinished:
            unfinished.write_text(text)
            assert unfinished.parent == path.parent
            assert unfinished.name.startswith(UNFINISHED)
        assert path.read_text() == text
        assert names(path.parent) == ["file.txt"]


def test_atomic_write_keeps_old_file_if_block_fails(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as unfinished:
            unfinished.write_text("half")
            assert path.read_text() == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_atomic_write_has_the_permissions_of_a_new_file(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as unfinished:
        unfinished.write_text("x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_atomic_write_to_pipe_does_not_replace_it(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    handle = os.open(path, os.O_RDWR)
    try:
        with atomic_write(path) as unfinished:
            unfinished.write_text("x")
        assert path.is_fifo()
        assert os.read(handle, 10) == b"x"
    finally:
        os.close(handle)


def test_atomic_write_names_the_file_if_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "large"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="too large") as raised, atomic_write(path) as unfinished:
            unfinished.write_bytes(bytes(200_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.filename == str(path)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nübung 日本", "plain\ttext\nübung 日本"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\rb\x00\x7f\x9b", "a\\x0db\\x00\\x7f\\x9b"),
        ("abc\u202etxt\u2066\u200f", "abc\\u202etxt\\u2066\\u200f"),
        ("\udce9 \u2028", "\\udce9 \\u2028"),
        ("👩\u200d👧", "👩\u200d👧"),
    ],
)
def test_escape_controls_shows_what_would_act_on_a_terminal(text: str, shown: str) -> None:
    assert escape_controls(text) == shown
    assert escape_controls(shown) == shown
