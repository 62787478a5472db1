"""Pictures with captions: counted, split with all their captions together, as pixels or features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena import config as configs
from catena.data.reading import ReadCounter
from catena.errors import DataError
from catena.tasks.caption.config import CaptionConfig
from catena.tasks.caption.data import list_pictures, load_examples, load_parts
from catena.tasks.caption.task import CaptionTask
from catena.tasks.sources import Sources

pytest.importorskip("PIL")


def config(**data: Any) -> CaptionConfig:
    return configs.parse(CaptionConfig, {"data": data, "model": {"input": {"height": 8, "width": 8}}})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four pictures, one of them damaged, and a table with splits."""
    from PIL import Image

    for i, name in enumerate(("a.png", "b.png", "c.png")):
        Image.new("RGB", (9, 7), (40 * i, 10, 200)).save(tmp_path / name)
    (tmp_path / "bad.png").write_bytes(b"not a picture")
    rows = [
        ("a.png", "train", "A dog ."),
        ("a.png", "train", "The dog, again!"),
        ("bad.png", "train", "nothing"),
        ("b.png", "val", "A cat"),
        ("c.png", "test", "A bird"),
    ]
    text = "".join("\t".join(row) + "\n" for row in [("image", "split", "caption"), *rows])
    (tmp_path / "captions.tsv").write_text(text, encoding="utf-8")
    return tmp_path


def test_damaged_pictures_are_counted_and_listed(folder: Path) -> None:
    counter = ReadCounter()
    examples = list(CaptionTask.read(config(), folder / "captions.tsv", counter))
    assert [(e.path.name, e.captions) for e in examples] == [
        ("a.png", ("a dog", "the dog again")),
        ("b.png", ("a cat",)),
        ("c.png", ("a bird",)),
    ]
    assert counter.counts(3).sentence() == "read 4; used 3; dropped 1 (1 not decoded), listed in dropped.tsv"
    assert counter.dropped[0].location.file.endswith("bad.png")
    assert examples[1].content.shape == (8, 8, 3)
    assert examples[1].content[0, 0].tolist() == [40, 10, 200]


def test_punctuation_can_be_kept(folder: Path) -> None:
    found = list_pictures(config(punctuation=True).data, folder / "captions.tsv", ReadCounter())
    assert found[0].captions == ("A dog .", "The dog, again!")


def test_part_selects_a_split(folder: Path) -> None:
    counter = ReadCounter()
    found = list_pictures(config(part="dev").data, folder / "captions.tsv", counter)
    assert [one.path.name for one in found] == ["b.png"]
    assert counter.read == 1


def test_folders_and_pictures_are_inputs_without_captions(folder: Path) -> None:
    (folder / "notes.txt").write_text("no picture")
    found = list_pictures(config().data, folder, ReadCounter(), gold=False)
    assert [one.path.name for one in found] == ["a.png", "b.png", "bad.png", "c.png"]
    assert [one.path for one in list_pictures(config().data, folder / "a.png", ReadCounter(), gold=False)] == [
        folder / "a.png"
    ]
    with pytest.raises(DataError, match=r"File not found: .*nowhere\.png"):
        list_pictures(config().data, folder / "nowhere.png", ReadCounter(), gold=False)
    with pytest.raises(DataError, match="has no captions"):
        list_pictures(config().data, folder, ReadCounter())


def test_splits_of_the_training_file_are_used(folder: Path) -> None:
    made = config(train=[str(folder / "captions.tsv")])
    sources = Sources(CaptionTask, made)
    pictures, contents, parts = load_parts(made, sources)
    assert {part: [pictures[i].path.name for i in index] for part, index in parts.items()} == {
        "train": ["a.png"], "dev": ["b.png"], "test": ["c.png"],
    }  # fmt: skip
    assert contents.shape == (3, 8, 8, 3)
    assert contents[parts["test"][0], 0, 0].tolist() == [80, 10, 200]
    assert sources.counter.counts(3).read == 4


def test_captions_of_a_picture_stay_in_one_part(tmp_path: Path) -> None:
    from catena.data.samples.shapes import write_scenes

    made = config(train=[str(write_scenes(tmp_path, 40, size=8))], dev_fraction=0.3)
    pictures, _, parts = load_parts(made, Sources(CaptionTask, made))
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(40))
    assert 4 < len(parts["dev"]) < 22
    assert all(len(one.captions) == 2 for one in pictures)
    again = load_parts(made.model_copy(update={"seed": 7}), Sources(CaptionTask, made))[2]
    assert np.array_equal(again["dev"], parts["dev"])


def test_features_are_found_by_name_and_missing_ones_counted(folder: Path) -> None:
    grids = {name: np.full((4, 3), i, np.float32) for i, name in enumerate(("a.png", "c.png"))}
    np.savez(folder / "grids.npz", **grids)
    made = CaptionTask.complete(config(features=str(folder / "grids.npz")), print)
    assert (made.model.encoder.d_features, made.model.encoder.n_positions) == (3, 4)  # type: ignore[union-attr]
    counter = ReadCounter()
    pictures = list_pictures(made.data, folder / "captions.tsv", counter)
    examples = load_examples(made, pictures, counter)
    assert [(e.path.name, e.content[0, 0]) for e in examples] == [("a.png", 0), ("c.png", 1)]
    assert [(d.reason, d.text.split(". ")[0]) for d in counter.dropped] == [
        ("without features", f"{folder / 'grids.npz'} has no features of bad.png"),
        ("without features", f"{folder / 'grids.npz'} has no features of b.png"),
    ]
    np.savez(folder / "grids.npz", **{"a.png": np.zeros((4, 2))})
    with pytest.raises(DataError, match=r"must have the shape \(4, 3\) or fewer rows, got \(4, 2\)"):
        load_examples(made, pictures[:1], counter)


def test_nothing_to_train_on_raises(folder: Path) -> None:
    (folder / "only.csv").write_text("image,caption\nbad.png,one\nbad.png,two\n")
    made = config(train=[str(folder / "only.csv")])
    with pytest.raises(DataError, match="is not a picture"):
        load_parts(made, Sources(CaptionTask, made))
