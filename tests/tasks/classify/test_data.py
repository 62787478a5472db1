from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError, FormatError
from catena.tasks.classify.config import ClassifyDataConfig
from catena.tasks.classify.data import read_labeled_texts
from tests.tasks.classify.helpers import classifier, config_of, examples, prepared


def encoding_of(training: Any) -> Any:
    """The encoding of the texts of a model that is ready to be trained."""
    return (training if hasattr(training, "encoding") else training.task).encoding.texts


# --- reading ----------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_counts_reconcile_and_dropped_examples_are_listed(tmp_path: Path) -> None:
    lines = ["a\tone two", "b\tthree", "", "a\tone two three four five", "b\tfour"]
    train = write(tmp_path / "train.tsv", "\n".join(lines) + "\n")
    config = config_of(
        {"data": {"train": [train], "input_format": "tsv", "max_length": 4}, "tokenizer": {"kind": "whitespace"}}
    )
    training, counter = prepared(config)
    data = training.data
    assert "read 5; used 3; dropped 2 (1 empty, 1 longer than max_length=4), listed in dropped.tsv" in data.lines
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(3, "empty"), (4, "longer than max_length=4")]
    assert len(data.train) + len(data.dev) == 3


def test_columns_that_are_set_are_shown_instead_of_detected_ones(tmp_path: Path) -> None:
    train = write(tmp_path / "mails.csv", "id,body,folder\n1,one two,home\n2,three,work\n3,four,home\n4,five,work\n")
    data = {"train": [train], "text_column": "body", "label_column": "folder"}
    training, _ = prepared(config_of({"data": data, "tokenizer": {"kind": "whitespace"}}))
    assert f"train: {train} is csv: text = 'body', label = 'folder'" in training.data.lines


def test_too_long_cut_truncates_texts(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tone two three four five\nb\tsix\nb\tseven\n")
    values = {"train": [train], "input_format": "tsv", "max_length": 2, "too_long": "cut"}
    training, counter = prepared(config_of({"data": values, "tokenizer": {"kind": "whitespace"}}))
    assert sorted(training.data.train.texts.lengths.tolist()) == [1, 1, 2]
    assert not counter.dropped


def test_long_dev_texts_are_never_dropped(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tone two\nb\tsix\n")
    dev = write(tmp_path / "dev.tsv", "a\tone two three four\nb\tfive\n")
    config = config_of(
        {
            "data": {"train": [train], "dev": dev, "input_format": "tsv", "max_length": 3},
            "tokenizer": {"kind": "whitespace"},
        }
    )
    dev_rows = prepared(config)[0].data.dev
    assert len(dev_rows) == 2
    assert dev_rows.lengths.tolist() == [3, 1]


def test_vocabulary_comes_only_from_train(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tone two\nb\tsix\n")
    dev = write(tmp_path / "dev.tsv", "a\tnever\nb\tsix\n")
    values = {"data": {"train": [train], "dev": dev, "input_format": "tsv"}, "tokenizer": {"kind": "whitespace"}}
    for kind in ("cnn", "loglinear"):
        training = prepared(config_of({**values, "model": {"kind": kind}}))[0]
        encoding = encoding_of(training)
        assert encoding.tokens("never six") == ["never", "six"]
        names = [encoding.name(i) for i in range(encoding.size)]
        assert "six" in names
        assert "never" not in names


def test_multiple_training_files_are_concatenated(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.tsv", f"a\tone{i}\nb\ttwo{i}\n") for i in range(3)]
    data = prepared(config_of({"data": {"train": files, "input_format": "tsv"}}))[0].data
    assert len(data.train) + len(data.dev) == 6


TREES = "(3 (2 a) (4 (3 good) (2 film)))\n(1 (2 a) (0 (1 bad) (2 film)))\n"


def test_phrases_gives_each_distinct_phrase_once(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "trees.txt", TREES))
    counter = ReadCounter()
    found = [(e.labels[0], e.text) for e in read_labeled_texts(ClassifyDataConfig(), path, counter, phrases=True)]
    assert found == [
        ("3", "a good film"),
        ("2", "a"),
        ("4", "good film"),
        ("3", "good"),
        ("2", "film"),
        ("1", "a bad film"),
        ("0", "bad film"),
        ("1", "bad"),
    ]
    assert counter.counts(8).sentence("") == "read 10; used 8; dropped 2 (2 met before)"
    sentences = [(e.labels[0], e.text) for e in read_labeled_texts(ClassifyDataConfig(), path, ReadCounter())]
    assert sentences == [("3", "a good film"), ("1", "a bad film")]


def test_relabel_renames_and_drops_labels(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "trees.txt", TREES))
    counter = ReadCounter()
    data = ClassifyDataConfig(relabel=("0=neg", "1=neg", "2=", "3=pos", "4=pos"))
    found = Counter(e.labels[0] for e in read_labeled_texts(data, path, counter, phrases=True))
    assert found == {"pos": 3, "neg": 3}
    assert counter.counts(6).dropped == {"met before": 2, "with a label that is left out": 2}


# --- unusable data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "labels", "words"),
    [
        ([], [], "No example of train can be used: read 0; used 0; dropped 0"),
        (["a", "b"], [["x"], ["x"]], "only the label 'x'"),
        (["a", "b"], [["x", "y"], ["x"]], "must have one label, got 2 .*--multilabel"),
        (["a"], [["x"]], "1 example cannot be split into train and dev"),
    ],
)
def test_unusable_data_is_rejected(texts: list[str], labels: list[list[str]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        prepared(config_of(), {"train": examples(texts, labels)})


def test_text_column_read_as_label_is_rejected() -> None:
    texts, labels = [f"t{i}" for i in range(1200)], [[f"a long sentence {i}"] for i in range(1200)]
    with pytest.raises(DataError, match="probably the text was read as the label"):
        prepared(config_of(), {"train": examples(texts, labels)})


def test_subword_tokenizer_is_trained_on_the_training_texts(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tbanana banana\nb\tananas ananas\n" * 20)
    values = {"data": {"train": [train], "input_format": "tsv"}, "tokenizer": {"kind": "bpe", "size": 270}}
    from_file = classifier(prepared(config_of(values))[0]).encoding.texts
    texts, labels = ["banana banana", "ananas ananas"] * 20, [["a"], ["b"]] * 20
    config = config_of({"tokenizer": values["tokenizer"]})
    from_list = classifier(prepared(config, {"train": examples(texts, labels)})[0]).encoding.texts
    tokens = from_file.tokens("banana")
    assert len(tokens) < 6
    assert tokens == from_list.tokens("banana")


def test_multilabel_without_separator_is_reported() -> None:
    """If several labels are expected and no text has two, the separator is probably missing."""
    config = config_of({"data": {"multilabel": True}})
    for second, is_reported in (["x|y"], True), (["x", "y"], False):
        training, _ = prepared(config, {"train": examples(["a", "b", "c"], [["x"], second, ["z"]])})
        assert any("--label-separator" in line for line in training.data.lines) == is_reported


# --- rare features ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["loglinear", "perceptron", "mlp"])
def test_min_count_and_max_size_choose_the_features_of_models_on_features(kind: str) -> None:
    texts = ["a b a", "a c", "b a", "d"]
    given = {"train": examples(texts, ["x", "y"] * 2), "dev": examples(["a"], ["x"])}
    counts = Counter(gram for text in texts for gram in (*text.split(), *map(" ".join, pairwise(text.split()))))

    def features(vocabulary: dict[str, int] | None = None, **own: int) -> set[str]:
        model = {"kind": kind, "features": {"ngrams": 2, **own}}
        values = {"model": model, "vocabulary": vocabulary or {}, "tokenizer": {"kind": "whitespace"}}
        encoding = encoding_of(prepared(config_of(values), given)[0])
        return {encoding.name(i) for i in range(encoding.size)}

    assert features() == set(counts)
    assert features({"min_count": 2}) == {gram for gram, n in counts.items() if n >= 2}
    assert features(min_count=2) == features({"min_count": 2})
    assert features({"min_count": 3}, min_count=2) == {gram for gram, n in counts.items() if n >= 3}
    assert features({"max_size": 1}) == {"a"}


@pytest.mark.parametrize("kind", ["loglinear", "cnn"])
def test_min_count_that_leaves_nothing_is_rejected(kind: str) -> None:
    config = config_of({"model": {"kind": kind}, "vocabulary": {"min_count": 1000}})
    with pytest.raises(DataError, match=r"got 1000\. Lower --min-count\.$"):
        prepared(config, {"train": examples(["a b", "b c"], ["x", "y"])})


def test_min_count_of_hashed_features_is_rejected() -> None:
    values = {"model": {"kind": "loglinear", "features": {"buckets": 64}}, "vocabulary": {"min_count": 2}}
    with pytest.raises(ConfigError, match=r"vocabulary.min_count must not be set if features are hashed .* got 2\."):
        config_of(values)


def test_samples_of_dev_show_the_texts_of_the_file(tmp_path: Path) -> None:
    config = config_of(
        {"model": {"kind": "cnn"}, "tokenizer": {"kind": "words", "lowercase": True}, "data": {"dev_fraction": 0.5}}
    )
    texts = [f"Wake ME at {n}, it's  late" for n in range(8)]
    training, _ = prepared(config, {"train": examples(texts, ["a", "b"] * 4)})
    shown = training.data.dev.shown
    assert len(shown) == 3
    assert set(shown.values()) <= {f"Wake ME at {n}, it's late" for n in range(8)}


def test_questions_on_texts_are_not_texts_unless_one_of_them_is_named(tmp_path: Path) -> None:
    """Of questions with their texts, the answers or the questions were classified."""
    rows = "".join(f'"Who is {name}?","{name} is in Rome.",{name}\n' for name in ("Ada", "Bob", "Eve", "Kim"))
    path = Path(write(tmp_path / "x.csv", "question,context,answer\n" + rows))
    with pytest.raises(FormatError, match="--text-column question or --text-column context"):
        list(read_labeled_texts(ClassifyDataConfig(), path, ReadCounter(), gold=False))
    data = ClassifyDataConfig(text_column="context")
    assert next(read_labeled_texts(data, path, ReadCounter(), gold=False)).text == "Ada is in Rome."
