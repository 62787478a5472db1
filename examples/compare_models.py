"""Test whether one model is better than another, by randomly swapping their predictions of the same texts."""

from __future__ import annotations

import numpy as np

from catena import TextClassifier
from catena.data.samples.corpus import load_sample
from catena.metrics import approximate_randomization
from catena.metrics.classification import ACCURACY

train, test = load_sample("train"), load_sample("test")
texts, labels = [e.text for e in train], [e.labels[0] for e in train]
right = [e.labels[0] for e in test]

words = TextClassifier("loglinear", max_epochs=8, ngrams=1).fit(texts, labels)
parts = TextClassifier("loglinear", max_epochs=8, characters=5).fit(texts, labels)
one, two = ([str(label) for label in model.predict([e.text for e in test])] for model in (parts, words))

found = approximate_randomization(
    ACCURACY.statistics(right, one),
    ACCURACY.statistics(right, two),
    ACCURACY.score,
    np.random.default_rng(0),
    metric=ACCURACY.name,
)
print(found.sentence("words with their parts", "only words"))
