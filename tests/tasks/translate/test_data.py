"""Pairs from files: reading, dropping, splitting, and the ids of batches."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.data.examples import SourceLocation
from catena.data.vocabulary import PAD, UNK
from catena.errors import DataError, FormatError
from catena.tasks.translate.config import TranslateConfig
from catena.tasks.translate.data import TranslationExample, make_batch
from catena.tasks.translate.encoding import PairEncoding
from tests.tasks.translate.toy import prepare, sentences, texts, toy_config, write_files


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def of_columns(path: Path, **sections: Any) -> TranslateConfig:
    data = {"train": [str(path)], **sections.pop("data", {})}
    return configs.parse(TranslateConfig, {"data": data, "tokenizer": {"kind": "words"}, **sections})


def test_parallel_files_and_columns_give_the_same_pairs(files: Path) -> None:
    two = prepare(toy_config(files))
    one = prepare(of_columns(files / "all.tsv", data={"dev_fraction": 0.2}, vocabulary={"min_count": 1}))
    listed = sentences()
    assert (len(two.train), len(two.dev)) == (195, 30)
    assert texts(two.dev) == listed[195:]
    assert (len(one.train), len(one.dev)) == (180, 45)
    assert {*texts(one.dev)} < {*listed}
    tokens = [[one.train.pairs.names[n] for n in one.train.pairs.corpus[2 * row]] for row in one.dev.rows.tolist()]
    assert tokens == [one.encoding.source.tokenizer.tokens(source) for source, _ in texts(one.dev)]


def test_dev_texts_belong_to_their_rows_if_blank_pairs_are_dropped() -> None:
    texts_and_blanks = [("", "x"), *sentences()[:30], ("y", " "), *sentences()[30:60]]
    examples = [TranslationExample(x, y, SourceLocation("fit", i)) for i, (x, y) in enumerate(texts_and_blanks)]
    config = configs.parse(TranslateConfig, {"tokenizer": {"kind": "words"}, "data": {"dev_fraction": 0.5}})
    data = prepare(config, {"train": examples})
    pairs = data.train.pairs
    tokens = [[pairs.names[n] for n in pairs.corpus[2 * row]] for row in data.dev.rows.tolist()]
    assert tokens == [data.encoding.source.tokenizer.tokens(source) for source, _ in texts(data.dev)]
    assert len(tokens) == 30
    reasons = [dropped.reason for dropped in data.sources.counter.dropped]
    assert reasons == ["with an empty source", "with an empty target"]


def test_dev_does_not_depend_on_the_order_of_pairs(files: Path) -> None:
    lines = (files / "all.tsv").read_text(encoding="utf-8").splitlines()
    (files / "turned.tsv").write_text("\n".join(lines[::-1]) + "\n", encoding="utf-8")
    one, two = (prepare(of_columns(files / name)) for name in ("all.tsv", "turned.tsv"))
    assert texts(one.dev) == texts(two.dev)[::-1]
    assert len(one.dev) == 12


def test_batches_have_tokens_of_both_sides_with_end_symbols(files: Path) -> None:
    data = prepare(toy_config(files))
    rows = np.array([3, 0, 224, 17])  # the last one of all among them
    batch = make_batch(data.train.pairs, rows, torch.device("cpu"))
    for k, row in enumerate(rows.tolist()):
        source, target = sentences()[row]
        for side, ids, length, text in (
            (data.encoding.source, batch.source.ids[k], batch.source.lengths[k], source),
            (data.encoding.target, batch.targets[k], batch.lengths[k], target),
        ):
            tokens = side.tokenizer.tokens(text)
            assert ids.tolist()[: length - 1] == side.vocabulary.ids(tokens)
            assert ids[length - 1] == side.end
            assert set(ids[length:].tolist()) <= {PAD}
    assert batch.tokens == int(batch.lengths.sum())
    assert batch.read == batch.tokens + int(batch.source.lengths.sum())
    assert data.train.pairs.lengths[rows, 1].tolist() == batch.lengths.tolist()


def test_counts_of_train_include_end_symbols(files: Path) -> None:
    data = prepare(toy_config(files))
    counts = data.train.pairs.target_counts(data.train.rows)
    assert counts[data.encoding.end] == 195
    hund = data.encoding.target.vocabulary.ids(["Hund"])[0]
    assert counts[hund] == sum(y.count("Hund") for _, y in sentences()[:195])


def test_copied_unknown_words_have_extra_ids(files: Path) -> None:
    path = files / "few.tsv"
    path.write_text("meet Zorg and Bo and Zorg\tda sind Zorg und Bo\na b\tc d\nx y\tz z\n", encoding="utf-8")
    data = prepare(of_columns(path, vocabulary={"min_count": 2}, data={"dev_fraction": 0.001}))
    pairs = data.train.pairs
    row = next(i for i in range(3) if pairs.lengths[i, 0] == 7)
    coded, target = pairs.copied(row)
    v = len(data.encoding.target.vocabulary)
    assert coded.new == ("meet", "Zorg", "and", "Bo")
    assert coded.copies.tolist() == [v, v + 1, v + 2, v + 3, v + 2, v + 1, data.encoding.end]
    assert target.tolist() == [UNK, UNK, v + 1, UNK, v + 3, data.encoding.end]
    assert data.encoding.tokens(target[:-1].tolist(), coded.new) == ["<unk>", "<unk>", "Zorg", "<unk>", "Bo"]
    batch = make_batch(pairs, np.array([row]), torch.device("cpu"), copies=True)
    assert batch.source.n_new == 4
    assert batch.source.copies is not None
    assert batch.source.copies[0].tolist() == coded.copies.tolist()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "characters", "words", "whitespace"])
@pytest.mark.parametrize("joint", [True, False])
def test_every_tokenizer_round_trips_joint_or_separate(kind: str, joint: bool, files: Path, tmp_path: Path) -> None:
    tokens = {"kind": kind, **({"size": 300} if kind in ("bpe", "unigram") else {})}
    config = toy_config(files, tokenizer=tokens, vocabulary={"joint": joint, "min_count": 1})
    encoding = prepare(config).encoding
    assert encoding.joint == joint
    encoding.save(tmp_path)
    again = PairEncoding.load(tmp_path)
    assert again.joint == joint
    for source, target in sentences()[:20]:
        ids = again.target_ids(again.target.tokenizer.tokens(target))
        assert again.text(again.tokens(ids[:-1].tolist())) == target
        assert (
            again.code(again.source.tokenizer.tokens(source)).ids.tolist()
            == encoding.code(encoding.source.tokenizer.tokens(source)).ids.tolist()
        )


def test_text_is_always_one_line(files: Path) -> None:
    encoding = prepare(toy_config(files, tokenizer={"kind": "bytes"})).encoding
    tokens = encoding.target.tokenizer.tokens(" a\nb\r\nc\u2028d\x0be ")
    assert encoding.text(tokens) == "a b c d e"


def test_source_and_target_may_have_different_tokenizers(files: Path) -> None:
    encoding = prepare(toy_config(files, target_tokenizer={"kind": "characters"})).encoding
    assert encoding.target.tokenizer.tokens("Ein") == ["E", "i", "n"]
    assert encoding.source.tokenizer.tokens("Ein") == ["Ein"]


def test_empty_and_long_pairs_are_dropped_and_counted(files: Path) -> None:
    path = files / "odd.tsv"
    lines = [f"{x}\t{y}\n" for x, y in sentences()[:40]]
    path.write_text("".join([*lines[:20], "\tnur rechts\n", "only left\t \n", "\n", "w " * 30 + "\tz\n", *lines[20:]]))
    data = prepare(of_columns(path, data={"max_length": 20}))
    reasons = "1 empty, 1 longer than max_length=20, 1 with an empty source, 1 with an empty target"
    assert f"dropped 4 ({reasons})" in data.lines[1]
    assert sorted(d.location.line for d in data.sources.counter.dropped) == [21, 22, 23, 24]


def test_swap_exchanges_source_and_target(files: Path) -> None:
    data = prepare(of_columns(files / "all.tsv", data={"swap": True}))
    assert texts(data.dev)[0] in {(y, x) for x, y in sentences()}
    assert "Hund" in data.encoding.source.vocabulary


def test_long_pairs_may_be_in_dev(files: Path) -> None:
    long = "w " * 30
    (files / "dev.tsv").write_text(f"{long}\tz\n", encoding="utf-8")
    data = prepare(of_columns(files / "all.tsv", data={"dev": str(files / "dev.tsv"), "max_length": 20}))
    assert len(data.dev) == 1
    assert not data.sources.counter.dropped


def test_few_pairs_leave_one_for_dev(files: Path) -> None:
    path = files / "two.tsv"
    path.write_text("a b\tc d\ne f\tg h\n")
    data = prepare(of_columns(path, data={"dev_fraction": 0.001}))
    assert (len(data.train), len(data.dev)) == (1, 1)
    assert data.dev.rows[0] == [("a b", "c d"), ("e f", "g h")].index(texts(data.dev)[0])


def test_header_row_is_skipped_and_reported(files: Path) -> None:
    path = files / "named.tsv"
    path.write_text("Source\tTarget\na b\tc d\nsource\ttarget\ne f\tg h\n")
    data = prepare(of_columns(path, data={"test": str(path)}))
    assert texts(data.test) == [("a b", "c d"), ("source", "target"), ("e f", "g h")]
    lines = (files / "all.tsv").read_text(encoding="utf-8")
    path.write_text(f"en\tde\n{lines}", encoding="utf-8")
    data = prepare(of_columns(path, data={"dev": str(files / "dev.tsv")}))
    shown = f"train: {path} is tsv: a table of 2 columns separated by tabs, with a header: pairs of texts"
    assert data.lines[0] == f"{shown}, source = 'en', target = 'de'"
    assert data.lines[2] == "read 255; used 255; dropped 0"
    assert not {"en", "de"} & {*data.encoding.source.vocabulary.symbols, *data.encoding.target.vocabulary.symbols}
    path.write_text(f"It\tEs\n{lines}We\tWir\n", encoding="utf-8")
    assert prepare(of_columns(path)).lines[1].startswith("read 227; used 227;"), "words among words are a pair"


def test_parallel_files_are_reported(files: Path) -> None:
    lines = prepare(toy_config(files)).lines
    assert lines[0] == f"train-source: {files / 'train.en'} and {files / 'train.de'} are parallel line by line"
    assert lines[1].startswith("dev-source: ")
    assert lines[2] == "read 225; used 225; dropped 0"
    assert lines[-1].startswith("dev: 30 pairs, ")


def test_csv_and_tsv_give_the_same_pairs(files: Path) -> None:
    lines = (files / "all.tsv").read_text(encoding="utf-8").splitlines()
    plain = prepare(of_columns(files / "all.tsv"))
    quoted = "".join('"{}","{}"\n'.format(*line.split("\t")) for line in lines)
    for name, format, header in (("x.csv", "auto", ""), ("y.csv", "auto", "en,de\n"), ("z.txt", "csv", "en,de\n")):
        (files / name).write_text(header + quoted, encoding="utf-8")
        found = prepare(of_columns(files / name, data={"input_format": format}))
        assert texts(found.dev) == texts(plain.dev)
        assert found.lines[1:] == plain.lines[1:]
        assert ("with a header" in found.lines[0]) == (name == "y.csv")
    (files / "tabs.csv").write_text("\n".join(lines), encoding="utf-8")
    found = prepare(of_columns(files / "tabs.csv"))
    assert found.lines[1:] == plain.lines[1:], "tabs separate columns for any file name"
    (files / "x.txt").write_text(quoted, encoding="utf-8")
    assert texts(prepare(of_columns(files / "x.txt")).dev) == texts(plain.dev), (
        "quotes show that commas separate columns"
    )
    (files / "x.csv").write_text(quoted + "Yes, he does.,Ja.\n", encoding="utf-8")
    dropped = prepare(of_columns(files / "x.csv")).sources.counter.dropped
    assert [(d.location.line, d.reason) for d in dropped] == [(226, "with 3 fields instead of 2")]


def test_tmx_is_read_as_pairs(files: Path) -> None:
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{x}</seg></tuv><tuv xml:lang="de"><seg>{y}</seg></tuv></tu>'
        for x, y in sentences()
    )
    (files / "all.tmx").write_text(
        f'<?xml version="1.0" encoding="UTF-8"?><tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>',
        encoding="utf-8",
    )
    plain, found = (prepare(of_columns(files / name)) for name in ("all.tsv", "all.tmx"))
    assert texts(found.dev) == texts(plain.dev)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (
            "just a line\nand another\n" * 5,
            FormatError,
            "has no pairs of texts.*or two files as --source and --target",
        ),
        ("a\tb\nno tab\n", FormatError, "has lines with 1 or 2 tab-separated fields"),
        ("\t\n\t\n", FormatError, "has only blank lines"),
        ("a b\tc d\n", DataError, r"1 example cannot be split into train and dev\. Add examples, or pass a dev file"),
        (
            ("w " * 300 + "\tx\n") * 2,
            DataError,
            r"in train: .*Add pairs, or raise data\.max_length \(--data\.max-length\)",
        ),
    ],
)
def test_prepare_file_without_pairs_raises(text: str, error: type[Exception], words: str, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(text)
    with pytest.raises(error, match=words):
        prepare(of_columns(tmp_path / "x.tsv"))


def test_parallel_files_of_different_lengths_raise_with_location(files: Path) -> None:
    lines = (files / "train.de").read_text(encoding="utf-8").splitlines()
    (files / "train.de").write_text("\n".join(lines[:100] + lines[101:]) + "\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"train\.en has 195 lines and .*\.de has 194.* probably misalign at line"):
        prepare(toy_config(files))


def test_prepare_without_files_or_with_other_format_raises(files: Path) -> None:
    with pytest.raises(DataError, match=r"There is no training file. Name a file of source<TAB>target, or two files"):
        prepare(configs.parse(TranslateConfig, {}))
    with pytest.raises(FormatError, match=r"The format of .*all\.tsv must be one of csv, tsv, json, .*, got 'poem'"):
        prepare(of_columns(files / "all.tsv", data={"input_format": "poem"}))
    with pytest.raises(FormatError, match=r"The first: .*all\.tsv:1 is a record without a complete JSON object"):
        prepare(of_columns(files / "all.tsv", data={"input_format": "jsonl"}))
    for name in ("a", "b"):
        (files / name).write_text("A line of text.\nAnother one.\n" * 9, encoding="utf-8")
    two = configs.parse(TranslateConfig, {"data": {"train": [str(files / "a"), str(files / "b")]}})
    with pytest.raises(FormatError, match=r"have no tabs.* pass --source \S+/a --target \S+/b\.$"):
        prepare(two)


COLUMNS = {"data": {"source_column": "en", "target_column": "de"}}


@pytest.mark.parametrize(
    ("name", "sections", "note"),
    [
        ("wide.csv", {}, "with a header: pairs of texts, source = 'en', target = 'de'"),
        ("wide.csv", COLUMNS, "with a header, source = 'en', target = 'de'"),
        ("wide.tsv", COLUMNS, "with a header, source = 'en', target = 'de'"),
        ("bare.tsv", {"data": {"source_column": "2", "target_column": "4"}}, "source = '2', target = '4'"),
        ("pairs.jsonl", {}, "JSON lines: pairs of texts, source = 'translation.en', target = 'translation.de'"),
    ],
)
def test_source_and_target_columns_select_pairs(files: Path, name: str, sections: Any, note: str) -> None:
    rows = [line.split("\t") for line in (files / "all.tsv").read_text(encoding="utf-8").splitlines()]
    plain = prepare(of_columns(files / "all.tsv"))
    wide = [("id", "en", "note", "de"), *((str(i), a, "ok", b) for i, (a, b) in enumerate(rows))]
    with (files / name).open("w", encoding="utf-8", newline="") as file:
        if name == "pairs.jsonl":
            file.writelines(json.dumps({"translation": {"en": a, "de": b}, "id": 3}) + "\n" for a, b in rows)
        else:
            delimiter = "\t" if name.endswith("tsv") else ","
            csv.writer(file, delimiter=delimiter).writerows(wide[1:] if name == "bare.tsv" else wide)
    found = prepare(of_columns(files / name, **sections))
    assert texts(found.dev) == texts(plain.dev)
    assert found.lines[0].endswith(note)
    assert found.lines[1:] == plain.lines[1:]


def test_prepare_empty_file_names_it(tmp_path: Path) -> None:
    path = tmp_path / "empty.tsv"
    for text, words in (("", "is empty"), ("\n\n", "only blank lines"), ("only a source\t\n", "There are no pairs")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises((DataError, FormatError), match=words):
            prepare(TranslateConfig.model_validate({"data": {"train": [str(path)]}}))
