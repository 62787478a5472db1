"""Files to tagged sentences: formats, columns, dropped sentences, errors with file and line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from catena.errors import ConfigError, DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.sources import Sources
from catena.tasks.tag.data import TaggedSentence
from catena.tasks.tag.tag_set import TagSet
from catena.tasks.tag.task import NeuralTagTask
from tests.tasks.tag.helpers import TINY, config, write

CONLLU = """# text = Dogs ran
1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t2\tnsubj\t_\t_
2\tran\trun\tVERB\tVBD\tTense=Past\t0\troot\t_\t_

1-2\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdid\tdo\tAUX\tVBD\tTense=Past\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_

"""


@dataclass(frozen=True)
class Read:
    """The sentences of a config, the tags that were found, lines of the report, and why sentences are dropped."""

    train: Sequence[TaggedSentence]
    dev: Sequence[TaggedSentence]
    test: Sequence[TaggedSentence]
    tags: TagSet
    lines: Sequence[str]
    dropped: Sequence[str]


def read(path: Path, **values: Any) -> Read:
    made = config(path, **values)
    sources = Sources(NeuralTagTask, made)
    training = NeuralTagTask.prepare(made, sources, Origin(Randomness(0)))
    data, task = training.data, training.task
    assert isinstance(task, NeuralTagTask)
    parts = (data.train.examples, data.dev.examples, data.test.examples)
    return Read(*parts, task.tags, data.lines, [one.reason for one in sources.counter.dropped])


def test_columns_are_read_with_the_last_one_as_tags(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll")
    data = read(path, data={"dev": str(path)})
    assert (len(data.train), len(data.dev), len(data.test)) == (16, 16, 0)
    assert data.tags.names.names == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
    assert {one.sentence.words for one in data.train} >= {("Paris", "is", "old")}
    assert any("32; used 32; dropped 0" in line for line in data.lines)
    assert any("5 tags (iob2)" in line for line in data.lines)


def test_equal_sentences_stay_together_in_a_split(tmp_path: Path) -> None:
    data = read(write(tmp_path / "a.conll"))
    assert (len(data.train), len(data.dev), len(data.test)) == (12, 4, 0)
    assert not {one.sentence.words for one in data.train} & {one.sentence.words for one in data.dev}
    assert any("16; used 16; dropped 0" in line for line in data.lines)


@pytest.mark.parametrize(
    ("column", "tags"),
    [
        (None, {"NOUN", "VERB", "AUX", "PART"}),
        ("xpos", {"NNS", "VBD", "RB"}),
        ("feats", {"Number=Plur", "Tense=Past", "_"}),
        ("lemma", set()),
    ],
)
def test_conllu_is_read_by_the_name_of_a_column(tmp_path: Path, column: str | None, tags: set[str]) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU * 4, encoding="utf-8")
    data = read(path, data={"tags_column": column, "dev": str(path)})
    assert len(data.train) == 8
    assert data.train[1].sentence.words == ("did", "n't")  # the words, not the multiword token
    if column != "lemma":
        assert set(data.tags.names.names) == tags
    else:
        assert data.tags.lemmas
        assert data.tags.shown(["Dogs"], data.tags.learned(["Dogs"], ["dog"])) == ["dog"]


def test_words_between_blanks_become_tagged_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("我们 爱 北京\n天安门 很 大\n" * 3, encoding="utf-8")
    data = read(path, data={"segment": True, "dev": str(path)})
    assert data.train[0].sentence.words == tuple("我们爱北京")
    assert data.train[0].tags == ("B", "E", "S", "B", "E")
    assert data.train[1].tags == ("B", "M", "E", "S", "S")
    path.write_text("我们/r 爱/v 北京/ns\n他/r 来/v\n" * 3, encoding="utf-8")
    data = read(path, data={"segment": True, "tag_separator": "/", "dev": str(path)})
    assert data.train[0].tags == ("B-r", "E-r", "S-v", "B-ns", "E-ns")
    with pytest.raises(ConfigError, match=r"data.tag_separator = '/' needs word segmentation"):
        config(path, data={"tag_separator": "/"})
    path.write_text("我们 爱/v\n" * 4, encoding="utf-8")
    with pytest.raises(DataError, match=r"a.txt:1: '我们' has no '/' between a word and its tag"):
        read(path, data={"segment": True, "tag_separator": "/"})


def test_segment_rejects_column_files(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("".join("she\tO\nsaw\tO\nBob\tB-PER\n\n" for _ in range(4)), encoding="utf-8")
    with pytest.raises(FormatError, match=r"one word per line .*Remove --segment, or use --input-format text"):
        read(path, data={"segment": True})


def test_report_counts_words_or_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("我们 爱 北京\n很 大\n", encoding="utf-8")
    lines = read(path, data={"segment": True, "dev": str(path)}).lines
    assert "train: 2 sentences, 7 characters, 5 at most" in lines
    assert (
        "train: 16 sentences, 72 words, 6 at most"
        in read(write(tmp_path / "a.conll"), data={"dev": str(tmp_path / "a.conll")}).lines
    )


def test_text_without_tags_is_rejected_with_a_cure(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Some text stands here.\nAnd some more.\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"is plain text, which has no tags .* use --segment"):
        read(path)
    path.write_text("good\tfine text\nbad\tpoor text\n" * 5, encoding="utf-8")
    with pytest.raises(FormatError, match=r"must be columns or conllu, got 'tsv'"):
        read(path)
    path.write_text("Dogs\nran\n\nCats\nsat\n\n", encoding="utf-8")
    with pytest.raises(DataError, match="must have a word and its tag, got one column"):
        read(path, data={"input_format": "columns"})
    path.write_text("", encoding="utf-8")
    with pytest.raises(FormatError, match=r"is empty\. Pass a file with text\..*Give a file in the format columns"):
        read(path)


def test_unusable_data_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Training data must have at least two tags, got only the tag 'O'"):
        read(write(tmp_path / "b.conll", ["x/O y/O"]))
    with pytest.raises(DataError, match="a column must be a number from 0 to 1, got 5"):
        read(write(tmp_path / "c.conll"), data={"tags_column": "5"})
    with pytest.raises(DataError, match="1 example cannot be split into train and dev"):
        read(write(tmp_path / "d.conll", ["x/N y/V"], times=1), data={"input_format": "columns"})
    with pytest.raises(DataError, match="'semimarkov' needs tags that encode spans"):
        read(write(tmp_path / "e.conll", ["x/N y/V"]), model={"structure": "semimarkov"})
    with pytest.raises(ConfigError, match=r"Unknown training.metric 'uas' of this model"):
        config(tmp_path / "e.conll", training={"metric": "uas"})
    with pytest.raises(ConfigError, match=r"tokenizer.kind must keep words whole for tagging, got 'bytes'"):
        config(tmp_path / "e.conll", tokenizer={"kind": "bytes"})


def test_header_line_is_not_a_word(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    rows = "Dogs N\nbark V\n\n" * 4
    path.write_text("word tag\n" + rows, encoding="utf-8")
    assert {one.sentence.words for one in read(path).train} == {("Dogs", "bark")}
    path.write_text("word N\n" + rows + "token tag\n\n", encoding="utf-8")
    assert len(read(path).train) > 1, "in other lines they are normal words"


def test_empty_file_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=r"No example of train can be used: read 0; .* Check .*a\.conll and the format"):
        read(path, data={"input_format": "columns"})


@pytest.mark.parametrize(("columns", "label"), [("1", None), ("-1", None), ("1", "1"), ("1", "-1")])
def test_label_column_as_input_is_rejected(tmp_path: Path, columns: str, label: str | None) -> None:
    path, words = write(tmp_path / "a.conll"), {**TINY["words"], "columns": [columns]}
    with pytest.raises(
        DataError, match=rf"a.conll:1: the model reads column {columns} of each word, which is also the"
    ):
        read(path, model={"words": words}, data={} if label is None else {"tags_column": label})


def test_long_sentences_and_long_segments_are_counted_as_dropped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", ["a/B-X b/I-X c/I-X", "d/O e/B-X", "f/O " * 9])
    data = read(path, data={"max_length": 8, "dev": str(path)})
    assert data.dropped == ["longer than max_length=8"] * 4
    data = read(path, data={"max_length": 8, "too_long": "cut", "dev": str(path)})
    assert max(len(one.sentence) for one in data.train) == 8
    data = read(path, model={"structure": "semimarkov", "max_segment": 2}, data={"dev": str(path)})
    assert data.dropped == ["with a span longer than max_segment=2"] * 4


def test_unseen_tags_are_counted(tmp_path: Path) -> None:
    train, dev = write(tmp_path / "a.conll"), write(tmp_path / "dev.conll", ["x/B-NEW y/O", "z/B-NEW"], times=1)
    data = read(train, data={"dev": str(dev)})
    assert data.lines[-1] == (
        "dev and test: 2 words have a tag that training never showed ('B-NEW' 2); they count as errors"
    )


def test_folds_leave_each_sentence_in_one_test_set(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", [f"w{i}/N v{i}/V" for i in range(10)], times=1)
    tests = [{one.sentence.words[0] for one in read(path, data={"folds": 5, "fold": fold}).test} for fold in range(5)]
    assert sorted(word for some in tests for word in some) == sorted(f"w{i}" for i in range(10))
    assert all(len(some) == 2 for some in tests)


def numbered(rows: Sequence[str], times: int = 8) -> str:
    return "".join(f"{i}\t{row}\n" for i, row in enumerate(rows, 1)).join(["# x\n", "\n"]) * times


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.conll"])
def test_numbers_of_words_are_not_words(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(numbered(["Ada\tB-PER", "sings\tO", "well\tO"]), encoding="utf-8")
    data = read(path, data={"dev": str(path)})
    assert {(one.sentence.words, one.tags) for one in data.train} == {(("Ada", "sings", "well"), ("B-PER", "O", "O"))}


def test_column_with_one_tag_is_rejected_with_the_column_of_tags(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(numbered(["Ada\tB-PER\tO", "sings\tO\tO"]), encoding="utf-8")
    with pytest.raises(FormatError, match=r"the same tag, 'O', in the last column .*Pass --tags-column 2\."):
        read(path)
    assert read(path, data={"tags_column": "2", "dev": str(path)}).train[0].tags == ("B-PER", "O")


def test_column_of_words_is_not_the_tags(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(numbered(["Ada", "sings"]), encoding="utf-8")
    with pytest.raises(DataError, match="must have a word and its tag, got the column of the words as tags"):
        read(path, data={"input_format": "columns"})


def test_words_may_equal_their_lemmas(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text("1\tit\tit\tPRON\t_\t_\t0\troot\t_\t_\n\n1\tsings\tsing\tVERB\t_\t_\t0\troot\t_\t_\n\n" * 4)
    data = read(path, data={"dev": str(path), "tags_column": "lemma"})
    assert {(one.sentence.words, one.tags) for one in data.train} == {(("it",), ("it",)), (("sings",), ("sing",))}


def test_tags_in_cells_of_a_table_are_tags(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sentence,tags\nAda sings,B-PER O\nit rains here,O O O\n" * 4, encoding="utf-8")
    data = read(path, data={"dev": str(path)})
    assert {(one.sentence.words, one.tags) for one in data.train} == {
        (("Ada", "sings"), ("B-PER", "O")),
        (("it", "rains", "here"), ("O", "O", "O")),
    }
