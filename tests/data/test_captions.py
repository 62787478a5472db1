"""Files of captions: every format gives the same pictures, and nothing gets lost uncounted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.data.readers.captions import detect_captions, read_captions
from catena.data.reading import ReadCounter
from catena.errors import FormatError

ROWS = [
    ("a.jpg", "A dog runs .", "train"),
    ("b.jpg", "Two  cats", "val"),
    ("a.jpg", "A brown dog", "train"),
    ("c.jpg", "A bird", "test"),
]


def write(path: Path, format: str) -> Path:
    names = dict.fromkeys(name for name, _, _ in ROWS)
    own = {name: [caption for other, caption, _ in ROWS if other == name] for name in names}
    split = {name: part for name, _, part in ROWS}
    match format:
        case "flickr":
            text = "".join(f"{name}#{i}\t{caption}\n" for name in own for i, caption in enumerate(own[name]))
        case "karpathy":
            images = [
                {"filename": name, "split": split[name], "sentences": [{"raw": caption} for caption in own[name]]}
                for name in own
            ]
            text = json.dumps({"images": images, "dataset": "mine"})
        case "coco":
            images = [{"id": i, "file_name": name} for i, name in enumerate(own)]
            numbers = {name: i for i, name in enumerate(own)}
            listed = [{"image_id": numbers[name], "caption": caption} for name, caption, _ in ROWS]
            text = json.dumps({"images": images, "annotations": listed})
        case "jsonl":
            lines = [json.dumps({"image": name, "captions": own[name], "split": split[name]}) for name in own]
            text = "\n".join(lines) + "\n"
        case _:
            comma = "," if format == "csv" else "\t"
            text = "".join(comma.join(row) + "\n" for row in [("image", "caption", "split"), *ROWS])
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("format", ["flickr", "karpathy", "coco", "jsonl", "csv", "tsv"])
def test_every_format_gives_the_same_pictures(tmp_path: Path, format: str) -> None:
    ending = {"flickr": "txt", "karpathy": "json", "coco": "json"}.get(format, format)
    path, counter = write(tmp_path / f"captions.{ending}", format), ReadCounter()
    found = read_captions(path, counter, images=Path("pictures"))
    assert [(one.path.as_posix(), one.captions) for one in found] == [
        ("pictures/a.jpg", ("A dog runs .", "A brown dog")),
        ("pictures/b.jpg", ("Two cats",)),
        ("pictures/c.jpg", ("A bird",)),
    ]
    has_splits = format not in ("flickr", "coco")
    assert [one.part for one in found] == (["train", "dev", "test"] if has_splits else [""] * 3)
    assert detect_captions(path) == ("table" if format in ("jsonl", "csv", "tsv") else format)
    assert counter.counts(used=3).sentence() == "read 3; used 3; dropped 0"


def test_names_are_relative_to_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "captions.csv", "csv")
    assert read_captions(path, ReadCounter())[0].path == tmp_path / "a.jpg"


def test_columns_can_be_named_and_captions_left_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("shot\twords\nx.png\tone\ny.png\t\n")
    counter = ReadCounter()
    found = read_captions(path, counter, columns={"file": "shot", "caption": "words"})
    assert [one.captions for one in found] == [("one",)]
    assert counter.counts(used=1).sentence("") == "read 2; used 1; dropped 1 (1 without caption)"
    unlabeled = read_captions(path, ReadCounter(), columns={"file": "shot"}, gold=False)
    assert [(one.path.name, one.captions) for one in unlabeled] == [("x.png", ()), ("y.png", ())]


def test_damaged_flickr_lines_and_empty_captions_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "tokens.txt"
    path.write_text("a.jpg#0\tone\na.jpg two\n\na.jpg#1\t \n")
    counter = ReadCounter()
    found = read_captions(path, counter)
    assert [one.captions for one in found] == [("one",)]
    assert [(d.location.line, d.reason) for d in counter.dropped] == [
        (2, "without picture#number and a tab"),
        (4, "without a caption"),
    ]
    assert counter.counts(used=1).read == 3


def test_pictures_without_captions_are_dropped_unless_predicted(tmp_path: Path) -> None:
    path = tmp_path / "few.json"
    path.write_text(json.dumps({"images": [{"filename": "a.jpg", "filepath": "train2014", "sentences": []}]}))
    counter = ReadCounter()
    assert read_captions(path, counter) == []
    assert [d.reason for d in counter.dropped] == ["without a caption"]
    assert [one.path for one in read_captions(path, ReadCounter(), gold=False)] == [tmp_path / "train2014" / "a.jpg"]


def test_wrong_json_raises(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"pictures": []}')
    with pytest.raises(FormatError, match='must be a JSON object with a list "images"'):
        read_captions(path, ReadCounter(), format="karpathy")
