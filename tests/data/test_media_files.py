"""Which files are pictures and sounds, by their names."""

from __future__ import annotations

from pathlib import Path

from catena.data.media_files import common_kind, label_media_folders, media_kind, split_folders


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_kind_is_the_ending_in_any_case() -> None:
    assert [media_kind(name) for name in ("a.PNG", "b.wav", "c.txt", "d")] == ["picture", "sound", None, None]


def test_common_kind_needs_more_than_half() -> None:
    assert common_kind(["a.wav", "b.wav", "c.txt"]) == "sound"
    assert common_kind(["a.wav", "b.png"]) is None
    assert common_kind([]) is None


def test_label_folders_may_have_subfolders_and_a_few_other_files(tmp_path: Path) -> None:
    touch(tmp_path / "cat" / "first" / "a.jpg", tmp_path / "dog" / "b.jpg", tmp_path / "dog" / ".hidden.txt")
    touch(tmp_path / "dog" / "c.jpg", tmp_path / "dog" / "notes.txt", tmp_path / ".git" / "x")
    kind, folders = label_media_folders(tmp_path) or (None, [])
    assert kind == "picture"
    assert [folder.name for folder in folders] == ["cat", "dog"]
    assert split_folders(tmp_path) == []


def test_parts_of_the_data_are_not_labels(tmp_path: Path) -> None:
    touch(tmp_path / "train" / "cat" / "a.jpg", tmp_path / "test" / "cat" / "b.jpg", tmp_path / "other" / "c.jpg")
    assert [folder.name for folder in split_folders(tmp_path)] == ["test", "train"]
