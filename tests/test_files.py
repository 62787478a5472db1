from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from catena.errors import FormatError
from catena.files import UNFINISHED, atomic_write, escape_controls, local_copy


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


def test_escape_controls_can_keep_marks_of_the_direction() -> None:
    assert escape_controls("\u200f\u2028\x1b\x85", direction=False) == "\u200f\u2028\\x1b\\x85"


def write_into(path: Path, content: bytes) -> threading.Thread:
    """A thread that writes into a pipe, which blocks until it is read."""
    thread = threading.Thread(target=path.write_bytes, args=(content,))
    thread.start()
    return thread


def test_local_copy_of_regular_file_and_folder_is_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert local_copy(tmp_path / "file") == tmp_path / "file"
    assert local_copy(tmp_path) == tmp_path


def test_local_copy_of_pipe_can_be_read_many_times(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = write_into(pipe, b"some bytes" * 20_000)
    copies = {local_copy(pipe) for _ in range(3)}
    thread.join()
    assert [copy.read_bytes() for copy in copies] == [b"some bytes" * 20_000]


def test_local_copy_of_a_new_pipe_with_the_same_name_is_new(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    for content in (b"first", b"second"):
        os.mkfifo(pipe)
        thread = write_into(pipe, content)
        assert local_copy(pipe).read_bytes() == content
        thread.join()
        pipe.unlink()


def test_local_copy_of_standard_input_and_process_substitution() -> None:
    program = (
        "import sys; from pathlib import Path; from catena.files import local_copy\n"
        "for _ in range(2): print([local_copy(Path(name)).read_text() for name in sys.argv[1:]])"
    )
    command = 'printf one | "$0" -c "$1" /dev/stdin <(printf two)'
    result = subprocess.run(
        ["bash", "-c", command, sys.executable, program], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == "['one', 'two']\n" * 2


def test_local_copy_of_device_raises_error() -> None:
    with pytest.raises(FormatError, match="/dev/zero is a device, not a file"):
        local_copy(Path("/dev/zero"))
    assert local_copy(Path(os.devnull)).read_bytes() == b""
