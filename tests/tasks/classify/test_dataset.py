from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.classify.config import ClassifyDataConfig
from catena.tasks.classify.dataset import from_lists, prepare, read_labeled_texts, split, split_fold
from tests.tasks.classify.helpers import config_of

GENERATOR = Randomness(3)


# --- splitting --------------------------------------------------------------------------------------------------------


@given(classes=st.lists(st.integers(0, 3), min_size=2, max_size=60), share=st.floats(0.05, 0.9), seed=st.integers(0, 5))
def test_split_is_a_stratified_partition(classes: list[int], share: float, seed: int) -> None:
    rows = np.arange(10, 10 + len(classes))
    labels = np.full(10 + len(classes), -1)
    labels[10:] = classes
    kept, held = split(rows, labels, share, Randomness(seed).numpy("split"))
    assert sorted([*kept, *held]) == rows.tolist()
    assert 1 <= len(held) <= len(rows) - 1
    assert len(held) == min(max(1, round(share * len(rows))), len(rows) - 1)
    of_class, held_of_class = Counter(classes), Counter(labels[held].tolist())
    for value, count in of_class.items():
        # Each class may be off by one example, plus the rounding of the total.
        assert abs(held_of_class[value] - share * count) <= 1.5 + 0.5 * count / len(classes)


def test_split_holds_out_a_rare_class_proportionally() -> None:
    classes = np.array([0] * 180 + [1] * 20)
    _, held = split(np.arange(200), classes, 0.1, Randomness(1).numpy("dev"))
    assert Counter(classes[held].tolist()) == {0: 18, 1: 2}


def test_split_depends_only_on_the_seed() -> None:
    rows, classes = np.arange(50), np.arange(50) % 3
    first, again, other = (split(rows, classes, 0.2, Randomness(s).numpy("dev"))[1].tolist() for s in (0, 0, 1))
    assert first == again
    assert first != other


@given(n=st.integers(3, 40), folds=st.integers(2, 3))
def test_folds_are_a_partition_of_nearly_equal_sizes(n: int, folds: int) -> None:
    rows = np.arange(n)
    inside = []
    for fold in range(folds):
        outside, held = split_fold(rows, folds, fold, Randomness(0).numpy("folds"))
        assert sorted([*outside, *held]) == rows.tolist()
        assert len(held) in (n // folds, n // folds + 1)
        inside += held.tolist()
    assert sorted(inside) == rows.tolist()


# --- reading ----------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_counts_reconcile_and_dropped_examples_are_listed(tmp_path: Path) -> None:
    lines = ["a\tone two", "b\tthree", "", "a\tone two three four five", "b\tfour"]
    train = write(tmp_path / "train.tsv", "\n".join(lines) + "\n")
    config = config_of(
        {"data": {"train": [train], "format": "tsv-label", "max_length": 4}, "tokenizer": {"kind": "whitespace"}}
    )
    data = prepare(config, Randomness(0))
    assert "read 5; used 3; dropped 2 (1 empty, 1 longer than max_length=4), listed in dropped.tsv" in data.lines
    assert [(d.place.line, d.reason) for d in data.tally.dropped] == [(3, "empty"), (4, "longer than max_length=4")]
    assert len(data.train) + len(data.dev) == 3


def test_too_long_cut_truncates_texts(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tone two three four five\nb\tsix\nb\tseven\n")
    values = {"train": [train], "format": "tsv-label", "max_length": 2, "too_long": "cut"}
    data = prepare(config_of({"data": values, "tokenizer": {"kind": "whitespace"}}), Randomness(0))
    assert sorted(data.texts.lengths.tolist()) == [1, 1, 2]
    assert not data.tally.dropped


def test_long_dev_texts_are_never_dropped(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tone two\nb\tsix\n")
    dev = write(tmp_path / "dev.tsv", "a\tone two three four\nb\tfive\n")
    config = config_of(
        {
            "data": {"train": [train], "dev": dev, "format": "tsv-label", "max_length": 3},
            "tokenizer": {"kind": "whitespace"},
        }
    )
    data = prepare(config, Randomness(0))
    assert len(data.dev) == 2
    assert data.texts.lengths[data.dev].tolist() == [3, 1]


def test_vocabulary_comes_only_from_train(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tone two\nb\tsix\n")
    dev = write(tmp_path / "dev.tsv", "a\tnever\nb\tsix\n")
    values = {"data": {"train": [train], "dev": dev, "format": "tsv-label"}, "tokenizer": {"kind": "whitespace"}}
    data = prepare(config_of(values), Randomness(0))
    assert data.encoding.tokens("never six") == ["never", "six"]
    assert "never" not in [data.encoding.name(i) for i in range(data.encoding.size)]
    bag = prepare(config_of({**values, "model": {"kind": "loglinear"}}), Randomness(0))
    assert "never" not in [bag.encoding.name(i) for i in range(bag.encoding.size)]


def test_multiple_training_files_are_concatenated(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.tsv", f"a\tone{i}\nb\ttwo{i}\n") for i in range(3)]
    data = prepare(config_of({"data": {"train": files, "format": "tsv-label"}}), Randomness(0))
    assert len(data.train) + len(data.dev) == 6


TREES = "(3 (2 a) (4 (3 good) (2 film)))\n(1 (2 a) (0 (1 bad) (2 film)))\n"


def test_phrases_gives_each_distinct_phrase_once(tmp_path: Path) -> None:
    path = write(tmp_path / "trees.txt", TREES)
    tally = ReadCounter()
    found = [(e.labels[0], e.text) for e in read_labeled_texts(ClassifyDataConfig(), path, tally, phrases=True)]
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
    assert tally.counts(8).sentence("") == "read 10; used 8; dropped 2 (2 met before)"
    sentences = [(e.labels[0], e.text) for e in read_labeled_texts(ClassifyDataConfig(), path, ReadCounter())]
    assert sentences == [("3", "a good film"), ("1", "a bad film")]


def test_relabel_renames_and_drops_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "trees.txt", TREES)
    tally = ReadCounter()
    data = ClassifyDataConfig(relabel=("0=neg", "1=neg", "2=", "3=pos", "4=pos"))
    found = Counter(e.labels[0] for e in read_labeled_texts(data, path, tally, phrases=True))
    assert found == {"pos": 3, "neg": 3}
    assert tally.counts(6).dropped == {"met before": 2, "with a label that is left out": 2}


# --- unusable data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "labels", "words"),
    [
        ([], [], "No training example is left"),
        (["a", "b"], [["x"], ["x"]], "only the label 'x'"),
        (["a", "b"], [["x", "y"], ["x"]], "must have one label, got 2 .*--multilabel"),
        (["a"], [["x"]], "at least two labels"),
    ],
)
def test_unusable_data_is_rejected(texts: list[str], labels: list[list[str]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        prepare(config_of(), Randomness(0), {"train": from_lists(texts, labels, "X")})


def test_text_column_read_as_label_is_rejected() -> None:
    texts, labels = [f"t{i}" for i in range(1200)], [[f"a long sentence {i}"] for i in range(1200)]
    with pytest.raises(DataError, match="probably the text was read as the label"):
        prepare(config_of(), Randomness(0), {"train": from_lists(texts, labels, "X")})


def test_subword_tokenizer_is_trained_on_the_training_texts(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tbanana banana\nb\tananas ananas\n" * 20)
    values = {"data": {"train": [train], "format": "tsv-label"}, "tokenizer": {"kind": "bpe", "size": 270}}
    from_file = prepare(config_of(values), Randomness(0))
    texts, labels = ["banana banana", "ananas ananas"] * 20, [["a"], ["b"]] * 20
    from_list = prepare(
        config_of({"tokenizer": values["tokenizer"]}), Randomness(0), {"train": from_lists(texts, labels, "X")}
    )
    tokens = from_file.encoding.tokens("banana")
    assert len(tokens) < 6
    assert tokens == from_list.encoding.tokens("banana")


def test_multilabel_without_separator_is_reported() -> None:
    """If several labels are expected and no text has two, the separator is probably missing."""
    config = config_of({"data": {"multilabel": True}})
    for second, told in (["x|y"], True), (["x", "y"], False):
        lines = prepare(config, GENERATOR, {"train": from_lists(["a", "b", "c"], [["x"], second, ["z"]], "here")}).lines
        assert any("--label-separator" in line for line in lines) == told


# --- rare features ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["loglinear", "perceptron", "mlp"])
def test_min_count_and_max_size_choose_the_features_of_models_on_features(kind: str) -> None:
    texts = ["a b a", "a c", "b a", "d"]
    sources = {"train": list(from_lists(texts, [["x"], ["y"]] * 2, "X")), "dev": list(from_lists(["a"], [["x"]], "D"))}
    counts = Counter(gram for text in texts for gram in (*text.split(), *map(" ".join, pairwise(text.split()))))

    def features(vocabulary: dict[str, int] | None = None, **own: int) -> set[str]:
        model = {"kind": kind, "features": {"ngrams": 2, **own}}
        values = {"model": model, "vocabulary": vocabulary or {}, "tokenizer": {"kind": "whitespace"}}
        encoding = prepare(config_of(values), Randomness(0), sources).encoding
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
        prepare(config, Randomness(0), {"train": from_lists(["a b", "b c"], [["x"], ["y"]], "X")})


def test_min_count_of_hashed_features_is_rejected() -> None:
    values = {"model": {"kind": "loglinear", "features": {"buckets": 64}}, "vocabulary": {"min_count": 2}}
    with pytest.raises(ConfigError, match=r"vocabulary.min_count must not be set if features are hashed .* got 2\."):
        config_of(values)
