"""Gold labels that do not occur in training, in tasks other than classify."""

from __future__ import annotations

from pathlib import Path

from catena import config as configs
from catena.data.readers.conllu import write
from catena.data.vocabulary import Labels
from catena.randomness import Randomness
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency.dataset import prepare as prepare_trees
from catena.tasks.parse.dependency.dataset import count_unseen, prepare
from catena.tasks.point.config import PointConfig
from catena.tasks.point.dataset import prepare as prepare_points
from catena.tasks.unseen import unseen_line
from tests.tasks.parse.dependency.helpers import config, conllu


def test_unseen_line_names_the_five_most_frequent() -> None:
    counts = {"a": 1, "b": 7, "c": 2, "d": 3, "e": 4, "f": 5}
    assert unseen_line(counts, "this file", "words have a tag") == (
        "this file: 22 words have a tag that training never showed ('b' 7, 'f' 5, 'e' 4, 'd' 3, 'c' 2, …); they count "
        "as errors"
    )
    assert unseen_line({}, "this file", "words have a tag") is None


def test_unseen_relations_are_reported_and_not_classes(tmp_path: Path) -> None:
    sentences = [conllu("we see cats", "2 0 2", "nsubj root obj")]
    made = config(tmp_path, sentences)
    dev = tmp_path / "dev.conllu"
    write(dev, [conllu("we see cats", "2 0 2", "nsubj:pass root goal")])
    data = prepare(made.model_copy(update={"data": made.data.model_copy(update={"dev": str(dev)})}), Randomness(0))
    assert data.names.names == ("nsubj", "obj", "root")
    line = "dev and test: 1 words have a relation that training never showed ('goal' 1); they count as errors"
    assert line in data.lines


def test_count_unseen_compares_relations_without_subtypes() -> None:
    sentences = [conllu("a b c", "2 0 2", "obl:arg root case")]
    assert count_unseen(sentences, Labels(["obl", "root:x"])) == {"case": 1}


def test_unseen_phrase_labels_are_reported(tmp_path: Path) -> None:
    (tmp_path / "train.mrg").write_text("(S (NP (D a) (N cat)) (VP (V sleeps)))\n" * 3, encoding="utf-8")
    (tmp_path / "dev.mrg").write_text("(S (NP (D a) (N cat)) (XP (V sleeps)))\n", encoding="utf-8")
    data = {"train": [str(tmp_path / "train.mrg")], "dev": str(tmp_path / "dev.mrg")}
    bank = prepare_trees(configs.parse(ParseConfig, {"model": {"kind": "pcfg"}, "data": data}), Randomness(0))
    line = "dev and test: 1 phrases have a label that training never showed ('XP' 1); they count as errors"
    assert line in bank.lines


def test_tokens_of_held_out_sets_are_unknown_to_a_pointer(tmp_path: Path) -> None:
    path = tmp_path / "sets.tsv"
    path.write_text("".join(f"x{i} y\t0\n" for i in range(20)), encoding="utf-8")
    made = configs.parse(PointConfig, {"data": {"train": [str(path)], "dev_fraction": 0.2}})
    data = prepare_points(made, Randomness(0))
    assert data.encoding.tokens is not None
    assert len(data.encoding.tokens) == 16 + 1
    assert set(data.dev.values[:, 0].tolist()) == {1}
