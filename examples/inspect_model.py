"""Show what a linear model has learned: its features with a weight for each class."""

from __future__ import annotations

from catena import TextClassifier
from catena.data.samples.corpus import load_sample

train = load_sample("train")
model = TextClassifier("loglinear", max_epochs=8)
model.fit([example.text for example in train], [example.labels[0] for example in train])

for label, features in model.task_.top_features(5).items():
    print(f"{label:>15}  " + ", ".join(f"{name} {weight:+.2f}" for name, weight in features))
