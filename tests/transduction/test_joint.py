"""Joint n-gram models: sums by enumeration, direct search compared with the transducer, files, and unusual input."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catena.errors import CheckpointError, DataError
from catena.structure.automaton.text import from_text
from catena.transduction import fst_export
from catena.transduction.alphabet import Alphabet
from catena.transduction.base import Link
from catena.transduction.config import JointConfig
from catena.transduction.joint import JointModel
from tests.oracle.transduction import log_add, segmentations

WIDE = {"beam": 1e9, "nodes": 1_000_000, "paths": 20_000}
PAIRS = [
    ("phone", "f o n"), ("photo", "f o t o"), ("top", "t o p"), ("pot", "p o t"), ("hop", "h o p"), ("hone", "h o n"),
    ("tone", "t o n"), ("note", "n o t"), ("hot", "h o t"), ("not", "n o t"), ("then", "d e n"), ("the", "d e"),
]  # fmt: skip


SHORT = [("tn", "t o n"), ("pt", "p o t"), ("hot", "h o t"), ("np", "n o p o"), ("hn", "h o n"), ("to", "t o"),
         ("not", "n o t"), ("p", "p o"), ("nt", "n o t")]  # fmt: skip


def trained(pairs: list[tuple[str, str]] = PAIRS, **settings: object) -> JointModel:
    how = {"order": 3, "rounds": 5, **WIDE, **settings}
    return JointModel.train([(x, y.split()) for x, y in pairs], JointConfig(**how))


@pytest.fixture(scope="module")
def model() -> JointModel:
    return trained()


@pytest.fixture(scope="module")
def inserting() -> JointModel:
    return trained(SHORT, insertions=1, target_length=1, source_length=1)


def listed_log_prob(model: JointModel, x: str, y: str) -> float:
    """Return log p(x, y) by enumerating all segmentations into known units, scored by the n-gram model."""
    moves = {(len(a), len(b)) for a, b in model.units}
    names = {unit: i for i, unit in enumerate(model.units)}
    first = len(model.ngrams.vocabulary) - len(model.units)
    scores = []
    for way in segmentations(model.source.ids(x), model.target.ids(y.split()), sorted(moves)):
        in_a_row = max((len(run) for run in "".join("i" if not a else "r" for a, _ in way).split("r")), default=0)
        if all(unit in names for unit in way) and in_a_row <= model.insertions:
            words = model.ngrams.vocabulary.tokens([first + names[unit] for unit in way])
            scores.append(model.ngrams.score([" ".join(words)])[0])
    return log_add(scores)


@pytest.mark.parametrize(("x", "y"), [("phone", "f o n"), ("hot", "h o t"), ("tphe", "t f e"), ("top", "f f f")])
def test_probability_of_pair_is_sum_over_all_alignments(model: JointModel, x: str, y: str) -> None:
    assert model.log_prob(x, y.split()) == pytest.approx(listed_log_prob(model, x, y), abs=1e-4)


@pytest.mark.parametrize(("x", "y"), [("hot", "h o t"), ("tn", "t o n"), ("np", "n o o p")])
def test_probability_with_insertions_is_sum_over_all_alignments(inserting: JointModel, x: str, y: str) -> None:
    assert any(not read for read, _ in inserting.units)
    assert inserting.log_prob(x, y.split()) == pytest.approx(listed_log_prob(inserting, x, y), abs=1e-4)


@pytest.mark.parametrize(
    ("which", "x"), [("model", x) for x in ("phone", "tope", "nothe", "o")] + [("inserting", x) for x in ("hnt", "to")]
)
def test_search_equals_transducer(x: str, which: str, request: pytest.FixtureRequest) -> None:
    model: JointModel = request.getfixturevalue(which)
    by_machine = fst_export.best(model, x, 5)
    direct = model.search(x, 5)
    known = math.fsum(math.exp(found.log_prob) for found in direct if found.log_prob is not None)
    assert known <= 1.0 + 1e-9
    gap = {(found.log_prob or 0.0) - score for found, (_, score) in zip(direct, by_machine, strict=True)}
    assert [found.tokens for found in direct] == [tokens for tokens, _ in by_machine]
    assert max(gap) - min(gap) < 0.05, "both are equal up to p(x), except for paths after the best 20,000"
    for tokens, score in by_machine:
        assert fst_export.log_prob(model, x, tokens) == pytest.approx(score, abs=1e-6)
        assert model.log_prob(x, tokens) == pytest.approx(score, abs=1e-4)


def test_one_path_uses_best_alignment(model: JointModel) -> None:
    one = JointModel(model.source, model.target, model.units, model.ngrams, JointConfig(order=3, beam=1e9, paths=1))
    found = one.search("photon")[0]
    assert tuple(t for link in found.alignment for t in link.target) == found.tokens
    assert tuple(s for link in found.alignment for s in link.source) == tuple("photon")


def test_exact_ranking_sums_all_alignments(model: JointModel) -> None:
    how = JointConfig(order=3, beam=1e9, nodes=1_000_000, paths=3, exact=True)
    exact = JointModel(model.source, model.target, model.units, model.ngrams, how)
    found = exact.search("tophone", 3)
    gaps = {round(model.log_prob("tophone", y.tokens) - (y.log_prob or 0.0), 4) for y in found}
    assert len(gaps) == 1, "all are log p(x, y) - log p(x)"
    assert (
        found[0].log_prob
        > JointModel(
            model.source, model.target, model.units, model.ngrams, how.model_copy(update={"exact": False, "paths": 1})
        )
        .search("tophone")[0]
        .log_prob
    )


def test_training_finds_units_of_known_generator() -> None:
    """Words of syllables, each written by one rule; unseen words follow the same rules."""
    rng = np.random.default_rng(1)
    rules = {"sh": "S", "a": "A", "t": "T", "oo": "U", "m": "M"}
    names = list(rules)
    pairs = []
    for _ in range(400):
        chosen = [names[k] for k in rng.integers(0, 5, rng.integers(2, 7))]
        pairs.append(("".join(chosen), [rules[name] for name in chosen]))
    model = JointModel.train(pairs, JointConfig(order=3, rounds=8))
    for word, target in (("shoot", "S U T"), ("tamooshat", "T A M U S A T"), ("mmaa", "M M A A")):
        assert " ".join(model.search(word)[0].tokens) == target


def test_unknown_symbols_are_skipped(model: JointModel) -> None:
    found = model.search("ph?one!")[0]
    assert found.tokens == model.search("phone")[0].tokens
    assert Link(("?",), ()) in found.alignment or any("?" in link.source for link in found.alignment)
    assert "".join(s for link in found.alignment for s in link.source) == "ph?one!"
    assert model.search("???")[0].tokens == ()
    assert model.log_prob("?", ["f"]) == -math.inf
    assert model.align("?", ["f"]) is None
    with pytest.raises(DataError, match=r"The symbol '\?' does not occur"):
        fst_export.best(model, "?")


def test_source_without_matching_units_is_read_in_part() -> None:
    model = JointModel.train([("ab", ["x"]), ("abab", ["x", "x"])], JointConfig(order=2, deletions=False))
    assert all(len(read) == 2 for read, _ in model.units)
    found = model.search("aba")[0]
    assert found.tokens == ("x",)
    assert "".join(s for link in found.alignment for s in link.source) == "aba"


def test_long_source_is_transduced(model: JointModel) -> None:
    narrow = JointModel(model.source, model.target, model.units, model.ngrams, JointConfig(order=3))
    found = narrow.search("phone" * 400)[0]
    assert len(found.tokens) > 1000


def test_empty_source_has_empty_target(model: JointModel) -> None:
    assert model.search("")[0].tokens == ()
    with pytest.raises(DataError, match="n_best must be at least 1"):
        model.search("top", 0)


def test_saved_model_loads_back(model: JointModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    again = JointModel.load(tmp_path, model.settings)
    assert again.units == model.units
    assert again.search("photon", 3) == model.search("photon", 3)
    (tmp_path / "units.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"units\.json is damaged"):
        JointModel.load(tmp_path, model.settings)


def test_automata_are_written_and_read_back(model: JointModel, tmp_path: Path) -> None:
    from catena.structure.automaton.build import from_string
    from catena.structure.automaton.composition import compose
    from catena.structure.automaton.distance import total

    fst_export.write(model, tmp_path)
    source, units, target = fst_export.symbol_tables(model)
    read = from_text((tmp_path / "read.txt").read_text(), input_symbols=source, output_symbols=units)
    grams = from_text((tmp_path / "units.txt").read_text(), acceptor=True, input_symbols=units, failure="<phi>")
    wrote = from_text((tmp_path / "write.txt").read_text(), input_symbols=units, output_symbols=target)
    x, y = from_string(model.source.ids("phone")), from_string(model.target.ids("fon"))
    whole = compose(compose(compose(compose(x, read), grams), wrote), y)
    assert float(total(whole)) == pytest.approx(model.log_prob("phone", list("fon")), abs=1e-3)
    assert (tmp_path / "units.syms").read_text().splitlines()[0] == "<eps>\t0"


def test_unit_names_escape_blanks_and_separators() -> None:
    source = Alphabet(["a+b", " ", "|", "_", "<eps>", "\\"])
    names = [source.labels().name(i) for i in range(1, 7)]
    assert len(set(names)) == 6
    assert not any(c in name for name in names for c in " |")
    assert source.labels().name(0) == "<eps>"


def test_units_of_another_model_raise(model: JointModel) -> None:
    parts = {"source": model.source, "target": model.target, "units": model.units, "ngrams": model.ngrams}
    many = tuple(((i,), (1,)) for i in range(1, 500))
    for changed, what in (
        ({"units": ()}, "units must be 1 to"),
        ({"units": many, "source": Alphabet([str(i) for i in range(500)])}, r"units must be 1 to \d+, .* got 499"),
        ({"units": (((99,), (1,)),)}, r"ids from 1 to \d+, the number of source symbols, got 99"),
        ({"units": (((1,), (0,)),)}, r"ids from 1 to \d+, the number of target symbols, got 0"),
    ):
        with pytest.raises(DataError, match=what):
            JointModel(**{**parts, **changed})  # type: ignore[arg-type]


def test_nan_n_grams_raise_before_search(model: JointModel) -> None:
    """A search compares scores, and a comparison with nan is false: units of nan would be impossible."""
    for table, column, width in (("slots", 2, 3), ("histories", 2, 4)):
        packed = model.ngrams.packed
        wrong = getattr(packed, table).copy()
        wrong.view(np.float32)[column::width][-1] = math.nan
        ngrams = copy(model.ngrams)
        ngrams.packed = replace(packed, **{table: wrong})
        changed = replace(model, ngrams=ngrams)
        for query in (lambda m: m.log_prob("top", ["t"]), lambda m: m.search("top"), lambda m: m.align("top", ["t"])):
            with pytest.raises(DataError, match=r"n-gram model must be finite or -inf, got nan"):
                query(changed)
