"""Sets of points from files and from the seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena import config as configs
from catena.data.examples import SourceLocation
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError, FormatError
from catena.niche.geometry.problems import PROBLEMS, draw
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.neural import NetworkTraining
from catena.tasks.point.config import PointConfig, PointDataConfig
from catena.tasks.point.data import PointEncoding, PointItem, as_item, generate_problems, parse, to_unit
from catena.tasks.point.task import PointTask
from catena.tasks.sources import Sources

HERE = SourceLocation("a.jsonl", 3)
OWN_DEV = {"dev": "a.tsv"}
"""The training file is the dev file too, so that every line is in train."""


def prepared(path: Path, lines: list[str], **data: Any) -> NetworkTraining:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return prepare({"train": [str(path)], **data})


def prepare(data: dict[str, Any]) -> NetworkTraining:
    config = configs.parse(PointConfig, {"machine": {"device": "cpu"}, "data": data})
    return PointTask.prepare(config, Sources(PointTask, config), Origin(Randomness(0)))


def test_parse_points_and_tokens_from_json_and_fields() -> None:
    assert parse('{"points": [[1, 2.5], [0, 0]], "target": [1, 0]}', HERE) == PointItem(
        ((1.0, 2.5), (0.0, 0.0)), (1, 0), HERE
    )
    assert parse('{"points": [3, 1], "target": []}', HERE) == PointItem(((3.0,), (1.0,)), (), HERE)
    assert parse('{"tokens": ["a", "b"]}', HERE) == PointItem(("a", "b"), None, HERE)
    assert parse("1,2.5 0,0\t1 0", HERE) == PointItem(((1.0, 2.5), (0.0, 0.0)), (1, 0), HERE)
    assert parse("to be\t1", HERE) == PointItem(("to", "be"), (1,), HERE)
    assert parse("3 1 2", HERE) == PointItem(((3.0,), (1.0,), (2.0,)), None, HERE)
    assert parse("3 1 2", HERE, "tokens").things == ("3", "1", "2")
    assert parse("", HERE) == PointItem((), None, HERE)
    item = parse("1,2.5 0,0\t1 0", HERE)
    assert parse(item.text(), HERE).things == item.things
    assert as_item([[1, 2.5], (0, 0)], "points").things == item.things
    assert as_item(np.array([3.0, 1.0]), "points").things == ((3.0,), (1.0,))
    assert as_item("b a", "tokens").things == ("b", "a")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{nothing}", "is not JSON"),
        ('{"target": [1]}', "neither"),
        ('{"points": 3}', "not a list"),
        ('{"points": [[1, 2], [3]]}', "points of dimension 2 and 1"),
        ('{"points": [[]]}', "without numbers"),
        ('{"points": [[1, "x"]]}', "not a list of numbers"),
        ("1,nan 2,3", "not finite"),
        ('{"points": [1], "target": [0.5]}', "not a position"),
        ('{"points": [1], "target": [true]}', "not a position"),
        ("1 2\tx", "not a position"),
        ("1 2\t-1", "not a position"),
        ("1 2\t1\t0", "more than one tab"),
    ],
)
def test_parse_invalid_line_raises_with_location_and_cure(line: str, said: str) -> None:
    with pytest.raises(FormatError, match=f"a.jsonl:3 .*{said}.*Positions count from 0"):
        parse(line, HERE)


def test_prepare_splits_and_counts_files(tmp_path: Path) -> None:
    lines = [f"{i} {i + 1} 0\t0 2" for i in range(10)]
    dev = tmp_path / "dev.tsv"
    dev.write_text("1 2 0\t2 0\n\n", encoding="utf-8")
    made = prepared(tmp_path / "a.tsv", [*lines, "", "1 2 3 4\t0"], dev=str(dev), max_length=3)
    assert (len(made.data.train), len(made.data.dev), len(made.data.test)) == (10, 1, 0)
    counts = "read 14; used 11; dropped 3 (2 without points, 1 longer than max_length=3)"
    assert any(line.startswith(counts) for line in made.data.lines)
    assert "train: 10 sets of up to 3 points" in made.data.lines
    assert made.task.pointer.rule == "any"
    assert made.data.train.targets[0].tolist() == [1, 3, 0]
    assert made.task.encoding == PointEncoding("own", None, 1, 2)
    split = prepared(tmp_path / "a.tsv", lines, dev_fraction=0.2)
    assert (len(split.data.train), len(split.data.dev)) == (8, 2)
    tokens = prepared(tmp_path / "b.tsv", ["b a\t1", "a c\t0", "c b\t0"], dev=str(tmp_path / "b.tsv"))
    encoding = tokens.task.encoding
    assert encoding.tokens == ("b", "a", "c")
    assert encoding.encode([PointItem(("a", "z"))]).values.tolist() == [[3, 1]], "what is not known is one id"


def test_numbers_are_tokens_for_a_model_of_tokens(tmp_path: Path) -> None:
    made = prepared(tmp_path / "a.tsv", ["1 b\t1", "b 007\t0"], dev=str(tmp_path / "a.tsv"))
    (tmp_path / "b.tsv").write_text("007 1\t1\n", encoding="utf-8")
    (item,) = made.task.read(made.config, tmp_path / "b.tsv", ReadCounter())
    assert made.task.encode([item]).values.tolist() == [[4, 2]]
    (prediction,) = made.task.predict([item])
    assert prediction.to_dict()["tokens"] == ("007", "1")


def test_rings_are_closed_and_missing_targets_are_computed(tmp_path: Path) -> None:
    lines = ["0,0 1,0 1,1\t0 1 2", "0,0 1,0 1,1 0,1"]
    train = prepared(tmp_path / "a.tsv", lines, problem="hull", dev=str(tmp_path / "a.tsv")).data.train
    assert train.pointed(0).positions == (0, 1, 2, 0)
    assert train.pointed(1).positions == (0, 1, 2, 3, 0)


@pytest.mark.parametrize(
    ("lines", "data", "said"),
    [
        (
            ["1 2\t0 1", "1 2 3\t0 3"],
            OWN_DEV,
            "a.tsv:2 must have target positions below 3, the number of points, got 3",
        ),
        (
            ["1 2\t0 1", "1 2\t0"],
            {"rule": "order", **OWN_DEV},
            "a.tsv:2 has the target .0., in which the rule 'order' does not allow the end at step 1",
        ),
        (["1 2\t0 0"], {"rule": "some", **OWN_DEV}, "the rule 'some' does not allow position 0 at step 1"),
        (["1 2\t0", "a b\t0"], OWN_DEV, "a.tsv:2 must have points, as other lines, got tokens"),
        (["1 2\t0", "1 2"], {}, "a.tsv:2 has no target"),
        (["1,2 3,4\t0", "1 2\t0"], OWN_DEV, "points with 2 coordinates, as in training, got 1"),
        (["a b\t0"], {"problem": "sort", **OWN_DEV}, "must have points if data.problem = .*, got tokens"),
        (["1 2\t0 1"], {"problem": "hull", **OWN_DEV}, "a.tsv:1 must have points with 2 coordinates .*, got 1"),
        (["", ""], {}, "No example of train can be used: read 2; used 0; dropped 2"),
        (["1\t0"], {}, "1 example cannot be split into train and dev"),
        ([" ".join(f"{i},{i}" for i in range(13))] * 3, {"problem": "tsp"}, "at most 12 points .*, got 13"),
    ],
)
def test_prepare_invalid_file_raises(
    lines: list[str], data: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((FormatError, DataError), match=said):
        prepared(tmp_path / "a.tsv", lines, **data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"least": 11}, "data.least must be at most data.size = 10, got 11"),
        ({"problem": "sort", "size": 10, "values": 9}, "data.values must be at least data.size = 10"),
        ({"problem": "tsp", "size": 13}, "data.size must be at most 12"),
        ({"folds": 3}, "folds"),
        ({"too_long": "cut"}, "too_long"),
    ],
)
def test_config_with_inconsistent_options_raises(data: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        configs.parse(PointConfig, {"data": data})


@pytest.mark.parametrize("data", [{}, {"problem": "sort", "dev": "x.tsv"}])
def test_prepare_without_files_or_problem_raises(data: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"--data.problem sort|without training files"):
        prepare(data)


def in_circle(a: Any, b: Any, c: Any, p: Any) -> bool:
    """Whether a point lies in the circle through three others, by the distances from its middle."""
    d = 2 * (a[0] * (b[1] - c[1]) + b[0] * (c[1] - a[1]) + c[0] * (a[1] - b[1]))
    squares = [x[0] ** 2 + x[1] ** 2 for x in (a, b, c)]
    x = (squares[0] * (b[1] - c[1]) + squares[1] * (c[1] - a[1]) + squares[2] * (a[1] - b[1])) / d
    y = (squares[0] * (c[0] - b[0]) + squares[1] * (a[0] - c[0]) + squares[2] * (b[0] - a[0])) / d
    return math.dist((x, y), p) < math.dist((x, y), a) - 1e-9


def left_of(a: Any, b: Any, p: Any) -> bool:
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0


def way(points: list[Any], order: Sequence[int]) -> float:
    return sum(math.dist(points[i], points[j]) for i, j in zip(order, [*order[1:], order[0]], strict=True))


@pytest.mark.parametrize("problem", ["sort", "hull", "delaunay", "tsp"])
def test_generated_targets_equal_exhaustive_search(problem: str) -> None:
    sets = generate_problems(PointDataConfig(problem=problem, size=6, least=4), 12, np.random.default_rng(3))
    for row in range(12):
        points, positions = sets.pointed(row)
        assert not sets.values[row, len(points) :].any()
        others = range(len(points))
        if problem == "sort":
            assert [points[j] for j in positions] == sorted(points)
        elif problem == "hull":  # every side has all other points on its left
            sides = {(i, j) for i in others for j in others if i != j
                     if all(left_of(points[i], points[j], points[k]) for k in others if k not in (i, j))}  # fmt: skip
            assert set(itertools.pairwise(positions)) == sides
            assert len(positions) == len(sides) + 1
        elif problem == "tsp":
            assert sorted(positions) == list(others)
            ways = [way(points, (0, *rest)) for rest in itertools.permutations(range(1, len(points)))]
            assert way(points, positions) == pytest.approx(min(ways))
        else:
            wanted = {one for one in itertools.combinations(others, 3)
                      if not any(in_circle(*(points[i] for i in one), points[k]) for k in others)}  # fmt: skip
            assert sorted(tuple(sorted(positions[i : i + 3])) for i in range(0, len(positions), 3)) == sorted(wanted)


def test_given_targets_are_kept_and_sets_are_scaled() -> None:
    """Each set by itself, and only where the answer does not depend on it; a single point is a ring too."""
    given = [
        PointItem(((10.0, 10.0), (30.0, 10.0), (10.0, 20.0)), (2, 0, 1)),
        PointItem(((0.5, 0.0), (0.5, 4.0)), None),
        PointItem(((3.0, 3.0),), (0,)),
    ]
    sets = PointEncoding("hull", None, 2, 3).encode(given)
    assert sets.values.tolist() == [[[0, 0], [1, 0], [0, 0.5]], [[0, 0], [0, 1], [0, 0]], [[0, 0]] * 3]
    assert sets.pointed(0).positions == (2, 0, 1, 2)
    assert sets.pointed(2).positions == (0, 0)
    own = PointEncoding("own", None, 2, 3).encode(given[:1])
    assert own.values.tolist() == [[[10, 10], [30, 10], [10, 20]]]
    assert own.pointed(0).positions == (2, 0, 1)


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name != "own"])
def test_generated_sets_depend_only_on_the_generator(problem: str) -> None:
    data = PointDataConfig(problem=problem, size=6, least=4)
    sets = generate_problems(data, 50, np.random.default_rng(1))
    assert set(sets.sizes.tolist()) == {4, 5, 6}
    right = [sets.pointed(i) for i in range(50)]
    perfect = {"exact": 1.0, "position_error": 0.0, "area": 1.0, "triangles": 1.0, "length_ratio": 1.0}
    for name, measure in PROBLEMS[problem].measures.items():
        assert measure(right, right) == pytest.approx(perfect[name])
    again = generate_problems(data, 50, np.random.default_rng(1))
    assert np.array_equal(sets.values, again.values)
    assert np.array_equal(sets.targets, again.targets)
    assert (sets.targets[np.arange(50), sets.lengths - 1] == 0).all()


def test_values_to_sort_are_distinct_integers_or_reals() -> None:
    points, _ = draw("sort", 200, (5, 5), 8, np.random.default_rng(0))
    whole = points[..., 0] * 8
    assert np.array_equal(whole, whole.round())
    assert all(len(set(row)) == 5 for row in whole.tolist())
    assert set(whole.ravel().tolist()) == set(range(8))
    assert len(set(map(tuple, whole.tolist()))) > 100, "and in every order"
    assert sorted(draw("sort", 1, (8, 8), 8, np.random.default_rng(0))[0][0, :, 0] * 8) == list(range(8))
    points, _ = draw("sort", 9, (5, 5), 0, np.random.default_rng(0))
    assert not np.array_equal(points * 8, (points * 8).round())


def test_to_unit_keeps_the_shape_of_sets() -> None:
    points = np.array([[[10.0, 10], [14, 12], [10, 10]], [[5, 5], [5, 5], [99, 99]], [[7, 7], [0, 0], [0, 0]]])
    moved = to_unit(points, np.array([3, 2, 0]))
    assert moved[0].tolist() == [[0, 0], [1, 0.5], [0, 0]]
    assert not moved[1:].any()
