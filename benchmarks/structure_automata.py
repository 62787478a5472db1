"""Automata with Catena and OpenFst (pynini); ``structure.py`` describes the measurements.

python benchmarks/structure.py automata [--only edit] [--threads 1] [--rounds 9]

The edit lattice is composed of two strings of 30 characters and an edit transducer of one state and 728 arcs. Both
sides start from the three automata and return a number. pynini's automata are read from Catena's files, so they are
equal; they are sorted in advance. The words are artificial, with common prefixes and suffixes as in real words.
"""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import structure
from catena.structure.automaton.build import edit_model, from_string, from_strings
from catena.structure.automaton.composition import compose
from catena.structure.automaton.determinization import determinize
from catena.structure.automaton.distance import total
from catena.structure.automaton.minimization import minimize
from catena.structure.automaton.openfst import write_openfst
from catena.structure.automaton.rational import closure, single_start_state, union
from catena.structure.automaton.search import best_paths
from catena.structure.automaton.wfsa import Automaton
from catena.structure.semirings import LogSemiring, MaxSemiring
from structure import Case, Run, case, in_reference, installed, with_gradient

LETTERS = "abcdefghijklmnopqrstuvwxyz"
X, Y = "catenacatenacatenacatenacatena", "concatenationconcatenationconc"
LOG, MAX = LogSemiring(), MaxSemiring()


def machines(semiring: Any = LOG) -> tuple[Automaton, Automaton, Automaton]:
    model = edit_model(LETTERS, -4.0, -4.0, -4.0, semiring=semiring)
    return from_string(X, semiring=semiring), model, from_string(Y, semiring=semiring)


def theirs(machine: Automaton) -> Any:
    """Return the automaton in pynini."""
    import pynini

    with tempfile.TemporaryDirectory() as folder:
        write_openfst(Path(folder) / "m.fst", machine)
        return pynini.Fst.read(str(Path(folder) / "m.fst"))


def sorted_three(semiring: Any) -> tuple[Any, Any, Any]:
    x, model, y = (theirs(m) for m in machines(semiring))
    return x.arcsort("olabel"), model.arcsort("ilabel"), y.arcsort("ilabel")


def their_total(fst: Any) -> Tensor:
    import pynini

    return -torch.tensor(float(pynini.shortestdistance(fst, reverse=True)[fst.start()]), dtype=torch.float64)


# --- the edit lattice ---------------------------------------------------------------------------------------


@case
def edit_lattice_total() -> Case:
    """Compose twice and sum."""
    x, model, y = machines()
    runs: dict[str, Run] = {"catena": lambda: total(compose(compose(x, model), y))}
    if installed("pynini"):
        import pynini

        a, b, c = sorted_three(LOG)
        runs["pynini"] = lambda: their_total(pynini.compose(pynini.compose(a, b), c))
    return Case("edit lattice of two strings of 30: compose twice, sum all paths", runs, {"pynini": 1})


@case
def edit_lattice_gradient() -> Case:
    """The same with the gradient of the 728 weights of the model, which OpenFst does not compute."""
    x, model, y = machines()
    weight = model.weight.clone().requires_grad_()

    def value() -> Tensor:
        return total(compose(compose(x, model.with_weights(weight, model.initial, model.final)), y))

    runs = {"catena": with_gradient(value, weight), "catena reference": with_gradient(in_reference(value), weight)}
    if installed("pynini"):
        import pynini

        a, b, c = sorted_three(LOG)
        runs["pynini, no gradient"] = lambda: their_total(pynini.compose(pynini.compose(a, b), c))
    return Case("the same, with the gradient of the weights of the model", runs, {"pynini, no gradient": 1})


@case
def edit_composition() -> Case:
    """Only the compositions."""
    x, model, y = machines()
    runs: dict[str, Run] = {"catena": lambda: torch.tensor(compose(compose(x, model), y).n_arcs)}
    if installed("pynini"):
        import pynini

        a, b, c = sorted_three(LOG)

        def composed() -> Tensor:
            fst = pynini.compose(pynini.compose(a, b), c)
            return torch.tensor(sum(fst.num_arcs(q) for q in fst.states()))

        runs["pynini"] = composed
    return Case("edit lattice: only the two compositions (pynini's count of arcs included)", runs)


@case
def edit_total_alone() -> Case:
    """Only the sum, on a given lattice."""
    x, model, y = machines()
    lattice = compose(compose(x, model), y)
    runs: dict[str, Run] = {"catena": lambda: total(lattice)}
    if installed("pynini"):
        fst = theirs(lattice)
        runs["pynini"] = lambda: their_total(fst)
    return Case("edit lattice: only the sum of all paths", runs, {"pynini": 1})


@case
def edit_best() -> Case:
    """The best path with its labels."""
    x, model, y = machines(MAX)
    runs: dict[str, Run] = {
        "catena": lambda: torch.tensor(best_paths(compose(compose(x, model), y))[0].score),
        "catena, only score": lambda: total(compose(compose(x, model), y)),
    }
    if installed("pynini"):
        import pynini

        a, b, c = sorted_three(MAX)

        def best() -> Tensor:
            fst = pynini.shortestpath(pynini.compose(pynini.compose(a, b), c))
            return -torch.tensor(float(pynini.shortestdistance(fst, reverse=True)[fst.start()]))

        runs["pynini"] = best
    return Case("edit lattice: compose twice, best path", runs)


@case
def edit_ten_best() -> Case:
    """The ten best paths of a given lattice, with labels."""
    x, model, y = machines(MAX)
    lattice = compose(compose(x, model), y)
    runs: dict[str, Run] = {"catena": lambda: torch.tensor([found.score for found in best_paths(lattice, 10)])}
    if installed("pynini"):
        import pynini

        fst = theirs(lattice)

        def best() -> Tensor:
            found = pynini.shortestpath(fst, nshortest=10).paths().items()
            return -torch.tensor([float(weight) for *_, weight in found]).sort().values

        runs["pynini"] = best
    return Case("edit lattice: the ten best paths of it", runs, {"pynini": 1})


@case
def cyclic_total() -> Case:
    """One string through the edit model: infinitely many outputs."""
    x, model, _ = machines()
    runs: dict[str, Run] = {"catena": lambda: total(compose(x, model))}
    if installed("pynini"):
        import pynini

        a, b, _ = sorted_three(LOG)
        runs["pynini"] = lambda: their_total(pynini.compose(a, b))
    return Case("a string of 30 through the edit model: an infinite sum (exact here, approximate there)", runs)


# --- dictionaries -------------------------------------------------------------------------------------------


def words(n: int) -> list[str]:
    """Return n distinct words with common prefixes and suffixes."""
    draw = random.Random(1)
    syllables = [c + v + e for c in "bcdfglmnprst" for v in "aeiou" for e in ("", "", "n", "r", "s")]
    suffixes = ["", "", "s", "ed", "ing", "er", "ers", "ly", "ness"]
    found: set[str] = set()
    while len(found) < n:
        found.add("".join(draw.choices(syllables, k=draw.randint(1, 3))) + draw.choice(suffixes))
    return sorted(found)


def dictionary(semiring: Any) -> Automaton:
    """Return 20 000 words with scores, as a prefix tree."""
    draw = random.Random(2)
    chosen = words(20_000)
    scores = [-draw.choice((1.0, 2.0, 3.0)) for _ in chosen]
    return from_strings(chosen, scores, semiring=semiring, dtype=torch.float32)


def smallest(machine: Automaton) -> tuple[Run, Run | None]:
    """Return the number of states after epsilon removal, determinization and minimization in Catena and pynini."""
    if not installed("pynini"):
        return lambda: torch.tensor(minimize(determinize(machine)).n_states), None
    import pynini

    fst = theirs(machine)
    return (
        lambda: torch.tensor(minimize(determinize(machine)).n_states),
        lambda: torch.tensor(pynini.determinize(fst.copy().rmepsilon()).minimize().num_states()),
    )


@case
def lexicon_smallest() -> Case:
    """A prefix tree of weighted words, minimized."""
    ours, other = smallest(dictionary(MAX))
    runs = {"catena": ours, "pynini": other} if other else {"catena": ours}
    return Case("20 000 weighted words as a tree: remove epsilons, determinize, minimize", runs, agree=0)


@case
def lexicon_union() -> Case:
    """Words without common states: one chain of states for each."""
    chains = union(*(from_string(word, semiring=MAX, dtype=torch.float32) for word in words(5_000)))
    ours, other = smallest(single_start_state(chains))
    runs = {"catena": ours, "pynini": other} if other else {"catena": ours}
    return Case("5 000 words side by side: remove epsilons, determinize, minimize", runs, agree=0)


@case
def lexicon_composition() -> Case:
    """All words of the dictionary near a misspelled one: composition with the edit model and the dictionary."""
    lexicon = minimize(determinize(dictionary(MAX)))
    x, model = from_string("contenation", semiring=MAX, dtype=torch.float32), edit_model(
        LETTERS, -4.0, -4.0, -4.0, semiring=MAX, dtype=torch.float32
    )  # fmt: skip
    runs: dict[str, Run] = {"catena": lambda: total(compose(compose(x, model), lexicon))}
    if installed("pynini"):
        import pynini

        a, b, c = theirs(x).arcsort("olabel"), theirs(model).arcsort("ilabel"), theirs(lexicon).arcsort("ilabel")
        runs["pynini"] = lambda: their_total(pynini.compose(pynini.compose(a, b), c))
    return Case("a misspelled word through the edit model and 20 000 words: compose twice, the best score", runs)


@case
def lexicon_lookup() -> Case:
    """A text of 2 000 words through the closure of the dictionary: every segmentation."""
    text = "".join(random.Random(3).choices(words(20_000), k=2_000))
    lexicon = minimize(determinize(closure(dictionary(MAX))))
    x = from_string(text, semiring=MAX, dtype=torch.float32)
    runs: dict[str, Run] = {"catena": lambda: total(compose(x, lexicon))}
    if installed("pynini"):
        import pynini

        a, b = theirs(x).arcsort("olabel"), theirs(lexicon).arcsort("ilabel")
        runs["pynini"] = lambda: their_total(pynini.compose(a, b))
    return Case("a text of 2 000 words without blanks, segmented by a dictionary: compose, the best score", runs)


# --- growth -------------------------------------------------------------------------------------------------


def lattice_growth(n: int) -> Run:
    """Return a lattice of n × 30 positions."""
    long = from_string((X * (n // 30 + 1))[:n])
    lattice = compose(compose(long, edit_model(LETTERS, -4.0, -4.0, -4.0)), from_string(Y))
    weight = lattice.weight.clone().requires_grad_()
    return with_gradient(lambda: total(lattice.with_weights(weight, lattice.initial, lattice.final)), weight)


def composition_growth(n: int) -> Run:
    long, model, y = from_string((X * (n // 30 + 1))[:n]), edit_model(LETTERS, -4.0, -4.0, -4.0), from_string(Y)
    return lambda: torch.tensor(compose(compose(long, model), y).n_arcs)


def closure_growth(m: int) -> Run:
    """Return one component of m states with an arc from every state to every other."""
    torch.manual_seed(0)
    source, target = (x.flatten() for x in torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij"))
    edge = torch.zeros(m, dtype=torch.float64)
    weight = torch.randn(m * m, dtype=torch.float64) - 2 * math.log(m)
    machine = Automaton(source, target, source + 1, source + 1, weight, edge, edge)
    return lambda: total(machine)


def minimal_growth(n: int) -> Run:
    machine = from_strings(words(n), semiring=MAX, dtype=torch.float32)
    return lambda: torch.tensor(minimize(determinize(machine)).n_states)


structure.GROWTH["edit lattice, sum and gradient over its length (says arcs¹)"] = (
    lattice_growth, [480, 960, 1920, 3840], "t", lambda t: t
)  # fmt: skip
structure.GROWTH["edit lattice, composition over its length (says arcs¹)"] = (
    composition_growth, [480, 960, 1920, 3840], "t", lambda t: t
)  # fmt: skip
structure.GROWTH["cyclic total, over the states of a component (says m³)"] = (
    closure_growth,
    [64, 128, 256, 512],
    "m",
    lambda m: m**3,
)
structure.GROWTH["lexicon, smallest machine over its words (says arcs · log arcs)"] = (
    minimal_growth, [2500, 5000, 10000, 20000], "n", lambda n: n * math.log(n)
)  # fmt: skip


if __name__ == "__main__":
    structure.main()
