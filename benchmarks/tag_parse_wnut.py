"""Names in WNUT-17 with a sparse-feature CRF: Catena's recipe compared with python-crfsuite on the same features.

    CATENA_DATA=… python benchmarks/tag_parse.py wnut

Both train to convergence with the recipe's templates and penalties, and both are scored on dev and test as by
conlleval. Catena is scored at its last step, not of the best on dev.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
from tag_parse import line
from tag_parse_features import Corpus, Ours

from catena import config as configs
from catena.metrics.spans import F1, PRECISION, RECALL, spans_of_tags
from catena.recipes.catalog import recipe_path
from catena.tasks.tag.config import FeatureTaggerConfig, TagConfig
from catena.tasks.tag.features.learners import BatchLearner
from catena.tasks.tag.features.likelihood import Likelihood
from catena.tasks.tag.features.model import FeatureModel
from catena.tasks.tag.features.templates import parse_templates
from structure import installed


def run(options: argparse.Namespace) -> None:
    folder = os.environ.get("CATENA_DATA")
    if not folder:
        print("wnut: set CATENA_DATA to a folder with wnut17_ner")
        return
    config = configs.load(TagConfig, recipe_path("wnut17-features"))
    settings = config.model
    assert isinstance(settings, FeatureTaggerConfig)
    templates, place = parse_templates(settings.templates), Path(folder) / "wnut17_ner"
    train, *others = (Corpus(place / f"wnut17-{part}.conll", templates, None) for part in ("train", "dev", "test"))
    steps = config.training.max_epochs or 100
    print(f"\nwnut: {len(train.sentences):,} sentences, l1 {settings.l1:g}, l2 {settings.l2:g}, at most {steps} steps")
    _ours(train, others, settings, steps)
    if installed("pycrfsuite"):
        _theirs(train, others, settings, steps)


def _print_scores(name: str, part: str, corpus: Corpus, found: list[list[str]]) -> None:
    spans = spans_of_tags(corpus.tags), spans_of_tags(found)
    measures = {"f1": F1, "precision": PRECISION, "recall": RECALL}
    line(f"{name}, {part}", {what: f"{100 * float(measure(*spans)):.2f}" for what, measure in measures.items()})


def _ours(train: Corpus, others: list[Corpus], settings: FeatureTaggerConfig, steps: int) -> None:
    ours = Ours(train)
    learner = BatchLearner(Likelihood(ours.data, ours.tags, ours.layout, l2=settings.l2), settings)
    done = _steps(learner, steps)
    model = FeatureModel(ours.dictionary, ours.layout, learner.vector(), "crf")
    used = int(np.count_nonzero(learner.vector()))
    line("catena", {"steps": str(done), "objective": f"{learner.search.objective:.2f}", "weights": f"{used:,}"})
    for part, corpus in zip(("dev", "test"), others, strict=True):
        chain = model.chain(corpus.sentences)
        rows = zip(chain.argmax().tolist(), corpus.sentences, strict=True)
        _print_scores("catena", part, corpus, [[ours.names[q] for q in row[: len(one)]] for row, one in rows])


def _steps(learner: BatchLearner, steps: int) -> int:
    done = 0
    while done < steps and learner.step():
        done += 1
    return done


def _theirs(train: Corpus, others: list[Corpus], settings: FeatureTaggerConfig, steps: int) -> None:
    import pycrfsuite

    peer = pycrfsuite.Trainer(verbose=False)
    for sentence, tags in zip(train.sentences, train.tags, strict=True):
        peer.append(train.attributes(sentence), list(tags))
    peer.set_params({"c1": settings.l1, "c2": settings.l2, "max_iterations": steps})
    with tempfile.TemporaryDirectory() as temporary:
        model = str(Path(temporary) / "peer.crfsuite")
        peer.train(model)
        last = peer.logparser.last_iteration
        line("python-crfsuite", {"steps": str(last["num"]), "objective": f"{last['loss']:.2f}",
                                 "weights": f"{last['active_features']:,}"})  # fmt: skip
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        for part, corpus in zip(("dev", "test"), others, strict=True):
            found = [tagger.tag(corpus.attributes(sentence)) for sentence in corpus.sentences]
            _print_scores("python-crfsuite", part, corpus, found)
