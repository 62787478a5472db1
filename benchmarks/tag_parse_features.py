"""Chunking of CoNLL-2000 with a sparse-feature CRF: Catena compared with python-crfsuite on the same features.

    CATENA_DATA=… python benchmarks/tag_parse.py features [--threads 1] [--rounds 3] [--sentences 3000]

The features come from CRFsuite's chunking example, 19 for each word. python-crfsuite trains for some iterations of
L-BFGS; Catena trains until its penalized likelihood is as good. A check at python-crfsuite's weights shows that both
optimize the same function. Reading, templates and feature indexing are timed separately.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tag_parse import line, verdict

from catena.data.readers.columns import read
from catena.tasks.tag.features.dictionary import FeatureDictionary
from catena.tasks.tag.features.likelihood import Likelihood
from catena.tasks.tag.features.model import FeatureModel, build_layout
from catena.tasks.tag.features.templates import Template, parse_templates, template_columns
from catena.tasks.word_inputs.sentences import Sentence, to_sentence
from catena.training.quasi_newton import QuasiNewton
from structure import installed

TEMPLATES = (
    "w[-2..2]", "w[-1]|w[0]", "w[0]|w[1]", "column1[-2..2]", "column1[-2]|column1[-1]", "column1[-1]|column1[0]",
    "column1[0]|column1[1]", "column1[1]|column1[2]", "column1[-2]|column1[-1]|column1[0]",
    "column1[-1]|column1[0]|column1[1]", "column1[0]|column1[1]|column1[2]",
)  # fmt: skip
L2 = 1.0
AT_ONCE = 200
"""Number of sentences tagged in one batch."""


class Corpus:
    """Sentences with their tags, and their features as strings."""

    def __init__(self, path: Path, templates: list[Template], most: int | None) -> None:
        examples = list(read(path))[:most]
        self.templates, self.columns = templates, template_columns(templates)
        self.sentences = [to_sentence(one, self.columns) for one in examples]
        self.tags = [one.column(-1) for one in examples]
        self.words = sum(map(len, self.sentences))

    def attributes(self, sentence: Sentence) -> list[list[str]]:
        """Return the features of each word as computed in plain Python."""
        filled = [
            [template.filled(sentence, i, self.columns) for template in self.templates] for i in range(len(sentence))
        ]
        return [[feature for feature in word if feature is not None] for word in filled]


def clock(threads: int) -> Callable[[], float]:
    return time.process_time if threads == 1 else time.perf_counter


class Ours:
    """The same training problem for Catena."""

    def __init__(self, corpus: Corpus) -> None:
        self.names = sorted({tag for tags in corpus.tags for tag in tags})
        ids = {name: i for i, name in enumerate(self.names)}
        self.tags = np.array([ids[tag] for tags in corpus.tags for tag in tags], np.int32)
        self.dictionary, self.data = FeatureDictionary.count(corpus.sentences, corpus.templates)
        self.layout = build_layout(
            self.data, self.tags, len(self.dictionary), len(self.names), all_tags=False, transitions="seen", edges=False
        )

    def likelihood(self) -> Likelihood:
        return Likelihood(self.data, self.tags, self.layout, l2=L2)

    def train(self, until: float) -> QuasiNewton:
        search = QuasiNewton(self.likelihood(), np.zeros(self.layout.size))
        while search.objective > until and search.step():
            pass
        return search

    def vector_of(self, states: dict[tuple[str, str], float], moves: dict[tuple[str, str], float]) -> np.ndarray:
        """Return the weights of python-crfsuite in our order."""
        tag = {name: i for i, name in enumerate(self.names)}
        feature = {name: i for i, name in enumerate(self.dictionary.names or ())}
        place = {}
        for f in range(len(self.dictionary)):
            for p in range(self.layout.pair_first[f], self.layout.pair_first[f + 1]):
                place[f, int(self.layout.pair_tag[p])] = p
        vector = np.zeros(self.layout.size)
        for (name, label), weight in states.items():
            vector[place[feature[name], tag[label]]] = weight
        for (a, b), weight in moves.items():
            self.layout.transitions(vector)[tag[a], tag[b]] = weight
        return vector


def run(options: argparse.Namespace) -> None:
    folder = os.environ.get("CATENA_DATA")
    if not folder:
        print("features: set CATENA_DATA to a folder with conll2000_chunking")
        return
    if not installed("pycrfsuite"):
        print("features: python-crfsuite is not installed")
        return
    templates = parse_templates(TEMPLATES)
    place = Path(folder) / "conll2000_chunking"
    train, test = Corpus(place / "train.txt", templates, options.sentences), Corpus(place / "test.txt", templates, None)
    size = f"{len(train.sentences):,} sentences, {train.words:,} words"
    print(f"\nfeatures: CoNLL-2000, {size}, {options.threads} thread(s)")
    _training(train, test, options)


def _training(train: Corpus, test: Corpus, options: argparse.Namespace) -> None:
    import pycrfsuite

    now = clock(options.threads)
    began = now()
    ours = Ours(train)
    prepared = now() - began
    ours.likelihood()(np.zeros(ours.layout.size))  # compile now
    began = now()
    peer = pycrfsuite.Trainer(verbose=False)
    for sentence, tags in zip(train.sentences, train.tags, strict=True):
        peer.append(train.attributes(sentence), list(tags))
    theirs_prepared = now() - began
    line("templates and numbers", {"catena": f"{prepared:.1f} s", "python + append": f"{theirs_prepared:.1f} s"})
    peer.set_params({"c1": 0.0, "c2": L2, "max_iterations": options.iterations, "feature.possible_transitions": False})
    times: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as temporary:
        model = str(Path(temporary) / "peer.crfsuite")
        for _ in range(options.rounds):
            began = now()
            peer.train(model)
            theirs = now() - began
            reached = float(peer.logparser.last_iteration["loss"])
            began = now()
            found = ours.train(reached)
            times.append((theirs, now() - began))
            line("a round", {"peer": f"{times[-1][0]:.1f} s", "catena": f"{times[-1][1]:.1f} s",
                             "catena's evaluations": str(found.evaluations)})  # fmt: skip
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        info = tagger.info()
        same = ours.likelihood()(ours.vector_of(info.state_features, info.transitions))[0]
        line("objective", {"peer": f"{reached:.2f}", "ours at its weights": f"{same:.2f}",
                           "ours reached": f"{found.objective:.2f}"})  # fmt: skip
        ratio = statistics.median(a / b for a, b in times)
        line("training to the same objective", {"peer / catena": verdict(ratio, 1.0)})
        vector = ours.vector_of(info.state_features, info.transitions)
        _tagging(FeatureModel(ours.dictionary, ours.layout, vector, "crf"), ours.names, tagger, test, options)


def _tagging(model: FeatureModel, names: list[str], tagger: object, test: Corpus, options: argparse.Namespace) -> None:
    """Print words per second with the same weights: ours from words, crfsuite's from words and from given features."""
    now = clock(options.threads)
    made = [test.attributes(sentence) for sentence in test.sentences]

    def ours() -> list[list[str]]:
        order = sorted(range(len(test.sentences)), key=lambda i: len(test.sentences[i]))
        found: list[list[str]] = [[] for _ in order]
        for low in range(0, len(order), AT_ONCE):
            rows = order[low : low + AT_ONCE]
            for i, row in zip(rows, model.chain([test.sentences[i] for i in rows]).argmax().tolist(), strict=True):
                found[i] = [names[q] for q in row[: len(test.sentences[i])]]
        return found

    ways = {
        "catena, from words": ours,
        "peer, from words": lambda: [tagger.tag(test.attributes(sentence)) for sentence in test.sentences],
        "peer, from features": lambda: [tagger.tag(features) for features in made],
    }
    answers = {name: way() for name, way in ways.items()}
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            began = now()
            way()
            speeds[name].append(test.words / (now() - began))
    first = statistics.median(speeds["catena, from words"])
    for name in ways:
        speed = statistics.median(speeds[name])
        pairs = zip(answers[name], answers["catena, from words"], strict=True)
        differ = sum(a != b for one, two in pairs for a, b in zip(one, two, strict=True))
        line(
            f"tagging: {name}",
            {"words/s": f"{speed:,.0f}", "catena is": f"{first / speed:.1f}x", "differ": str(differ)},
        )
