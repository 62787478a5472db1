"""Which files are recordings, their speakers and series, the split, and damaged files."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from catena.data.audio import write_wav
from catena.data.mulaw import encode_mulaw
from catena.data.reading import ReadCounter
from catena.errors import DataError, FormatError
from catena.tasks.lm.sound.data import (
    choose_kind,
    cut_ends,
    decode_recordings,
    get_model,
    is_sound_file,
    list_recordings,
    read_parts,
    read_recording_files,
)
from catena.tasks.lm.sound.task import SoundLmTask
from catena.tasks.sources import Sources
from tests.tasks.lm.sound.conftest import RATE, make_config, make_voice, write_voices


def write_table(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_model_is_chosen_by_the_files(tmp_path: Path) -> None:
    write_voices(tmp_path / "voices", 2)
    flat = tmp_path / "flat"
    write_wav(flat / "a.wav", np.zeros(50), RATE)
    book = write_table(tmp_path / "book.txt", ["once upon a time", "there was a.wav"])
    table = write_table(tmp_path / "table.csv", ["file,speaker", "flat/a.wav,ada"])
    texts = write_table(tmp_path / "texts.csv", ["file,text", "flat/a.wav,good morning"])
    odd = write_table(tmp_path / "odd.csv", ["clip,n", "flat/a.wav,3"])
    for path in (tmp_path / "voices", flat, flat / "a.wav", table):
        assert choose_kind([path]) == "wavenet"
    for path in (book, texts, odd, tmp_path / "missing"):
        assert choose_kind([path]) is None
    assert choose_kind([odd], "clip") == choose_kind([texts], "file") == "wavenet"


def test_sound_without_an_ending_is_recognized_by_its_bytes(tmp_path: Path) -> None:
    write_wav(tmp_path / "clip", np.zeros(50), RATE)
    write_wav(tmp_path / "clip.01", np.zeros(50), RATE)
    (tmp_path / "film.avi").write_bytes(b"RIFF1234AVI LIST")
    (tmp_path / "notes").write_text("hello")
    assert [path.name for path in sorted(tmp_path.iterdir()) if is_sound_file(path)] == ["clip", "clip.01"]


def test_speakers_are_subfolders_or_columns(tmp_path: Path) -> None:
    write_voices(tmp_path / "voices", 4)
    write_wav(tmp_path / "voices" / "loose.wav", np.zeros(50), RATE)
    config = make_config(tmp_path / "voices", "speakers", data={"speaker": "guest"})
    counter = ReadCounter()
    found = {e.path.name: e.speaker for e in list_recordings(config, tmp_path / "voices", counter)}
    assert found == {"0.wav": "high", "1.wav": "low", "2.wav": "high", "3.wav": "low", "loose.wav": "guest"}
    assert (counter.read, [dropped.reason for dropped in counter.dropped]) == (9, ["not a sound by name"] * 4)
    table = write_table(tmp_path / "t.tsv", ["file\tvoice\tn", "voices/high/0.wav\tada\t1", "voices/low/1.wav\t\t2"])
    found = {e.path.name: e.speaker for e in list_recordings(config, table, ReadCounter())}
    assert found == {"0.wav": "ada", "1.wav": "guest"}
    named = make_config(table, "speakers", data={"speaker_column": "n"})
    assert [e.speaker for e in list_recordings(named, table, ReadCounter())] == ["1", "2"]


def test_series_have_the_name_of_the_recording_or_a_column(tmp_path: Path) -> None:
    write_voices(tmp_path / "voices", 2)
    config = make_config(tmp_path / "voices", "series")
    counter = ReadCounter()
    found = [e.series for e in list_recordings(config, tmp_path / "voices", counter)]
    assert found == [tmp_path / "voices/high/0.npy", tmp_path / "voices/low/1.npy"]
    assert (counter.read, counter.dropped) == (2, [])
    table = write_table(tmp_path / "t.csv", ["file,speaker,series", "voices/high/0.wav,ada,voices/low/1.npy"])
    assert [e.series for e in list_recordings(config, table, ReadCounter())] == [tmp_path / "voices/low/1.npy"]


def test_levels_encode_the_samples(voices: Path) -> None:
    (example,) = read_recording_files(make_config(voices), voices / "high" / "0.wav", ReadCounter())
    samples = np.rint(np.clip(make_voice(0.11, 500, 0), -1, 1) * 32768) / 32768
    assert np.asarray(example.levels).tolist() == encode_mulaw(samples).tolist()


def test_whole_recordings_are_split_by_their_names(tmp_path: Path) -> None:
    write_voices(tmp_path / "a" / "voices", 10)
    config = make_config(tmp_path / "a" / "voices", data={"dev_fraction": 0.2, "test_fraction": 0.1})
    parts, counts = read_parts(config, Sources(SoundLmTask, config))
    names = {part: [e.path.name for e in rows.examples] for part, rows in parts.items()}
    assert {part: len(found) for part, found in names.items()} == {"train": 7, "dev": 2, "test": 1}
    assert sorted(name for found in names.values() for name in found) == sorted(f"{i}.wav" for i in range(10))
    assert counts == "read 20; used 10; dropped 10 (10 not a sound by name), listed in dropped.tsv"
    (tmp_path / "a").rename(tmp_path / "b")
    moved = make_config(tmp_path / "b" / "voices", data={"dev_fraction": 0.2, "test_fraction": 0.1}, seed=5)
    again, _ = read_parts(moved, Sources(SoundLmTask, moved))
    assert {part: [e.path.name for e in rows.examples] for part, rows in again.items()} == names


@pytest.mark.parametrize("split", ["random", "end"])
def test_single_recording_is_cut_at_its_end(split: str, tmp_path: Path) -> None:
    samples = make_voice(0.05, 1010, 1)
    write_wav(tmp_path / "a.wav", samples, RATE)
    data = {"dev_fraction": 0.2, "test_fraction": 0.1, "split": split}
    config = make_config(tmp_path / "a.wav", data=data)
    parts, _ = read_parts(config, Sources(SoundLmTask, config))
    pieces = {part: np.asarray(rows.recordings[0]) for part, rows in parts.items()}
    assert {part: len(piece) for part, piece in pieces.items()} == {"train": 700, "dev": 200, "test": 110}
    (whole,) = read_recording_files(config, tmp_path / "a.wav", ReadCounter())
    assert np.concatenate(list(pieces.values())).tolist() == np.asarray(whole.levels).tolist()
    assert [rows.examples[0].start for rows in parts.values()] == [0, 700, 900]


def test_ends_of_short_recordings_stay_in_train(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", np.zeros(25), RATE)
    write_wav(tmp_path / "b.wav", np.zeros(400), RATE)
    config = make_config(tmp_path)
    examples = list(list_recordings(config, tmp_path, ReadCounter()))
    rows = decode_recordings(get_model(config), examples, ReadCounter())
    cut = cut_ends(rows, {"dev": 0.1, "test": 0.0}, 40)
    assert {part: found.lengths.tolist() for part, found in cut.items()} == {"train": [360], "dev": [25, 40]}
    cut = cut_ends(rows, {"dev": 0.0, "test": 0.25}, 1)
    assert {part: found.lengths.tolist() for part, found in cut.items()} == {"train": [18, 300], "test": [7, 100]}


def test_damaged_files_are_counted_and_listed(tmp_path: Path) -> None:
    import soundfile

    write_voices(tmp_path, 4)
    good = (tmp_path / "high" / "0.wav").read_bytes()
    (tmp_path / "broken.flac").write_bytes(b"fLaC" + b"\0" * 30)
    (tmp_path / "cut.wav").write_bytes(good[:300])
    (tmp_path / "empty.wav").write_bytes(b"")
    (tmp_path / "header.wav").write_bytes(good[:40] + b"\0\0\0\0")
    (tmp_path / "movie.m4a").write_bytes(b"\0\0\0 ftypM4A " + b"\0" * 50)
    soundfile.write(tmp_path / "nan.wav", np.full(100, np.nan), RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "wide.wav", np.zeros((100, 9)), RATE)
    config = make_config(tmp_path)
    counter = ReadCounter()
    examples = list(read_recording_files(config, tmp_path, counter))
    assert len(examples) == 4
    reasons = [dropped.reason for dropped in counter.dropped]
    assert (reasons.count("not decoded"), reasons.count("not a sound by name")) == (7, 4)
    words = {Path(dropped.location.file).name: dropped.text for dropped in counter.dropped}
    for name, part in {"cut.wav": "incomplete", "empty.wav": "is empty", "header.wav": "no samples"}.items():
        assert part in words[name]
    assert counter.counts(4).sentence("").startswith("read 15; used 4; dropped 11")


def test_data_without_recordings_is_reported(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.wav").write_bytes(b"")
    config = make_config(tmp_path / "bad")
    with pytest.raises(DataError, match=r"train has no recording that can be decoded. The first error: .* is empty"):
        read_parts(config, Sources(SoundLmTask, config))
    nothing = make_config(tmp_path, data={"train": []})
    with pytest.raises(DataError, match=r"There is nothing to train on. Name a folder"):
        read_parts(nothing, Sources(SoundLmTask, nothing))
    write_wav(tmp_path / "short" / "a.wav", np.zeros(1), RATE)
    short = make_config(tmp_path / "short")
    with pytest.raises(DataError, match=r"train has no samples. Pass longer recordings"):
        read_parts(short, Sources(SoundLmTask, short))
    for part in ("train", "test"):
        write_wav(tmp_path / "parts" / part / "a.wav", np.zeros(50), RATE)
    with pytest.raises(FormatError, match=r"must be one part of the data, got the folders test, train. Pass .*train"):
        list(list_recordings(config, tmp_path / "parts", ReadCounter()))


def test_missing_file_of_a_table_is_dropped(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", np.zeros(50), RATE)
    table = write_table(tmp_path / "t.csv", ["file,speaker", "a.wav,ada", "gone.wav,ada"])
    counter = ReadCounter()
    found = list(read_recording_files(make_config(table), table, counter))
    assert [example.path.name for example in found] == ["a.wav"]
    assert counter.counts(1).dropped == {"not decoded": 1}


def test_long_recording_needs_a_byte_of_memory_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.data.recordings.IN_MEMORY", 1 << 20)
    path, n = tmp_path / "long.wav", 600 * 16000
    write_wav(path, np.zeros(n, np.float32), 16000)
    tracemalloc.start()
    (example,) = read_recording_files(make_config(path, model={"sample_rate": 16000}), path, ReadCounter())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(example.levels, np.memmap)
    assert len(example.levels) == n
    assert peak < 2.5 * n  # as float32 it has 4 n bytes
