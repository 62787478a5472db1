"""Train a text classifier on lists of strings, evaluate it, use it, save it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import catena
from catena.data.samples.corpus import load_sample

train, test = load_sample("train"), load_sample("test")
model = catena.TextClassifier("loglinear", max_epochs=8)
model.fit([example.text for example in train], [example.labels[0] for example in train])

accuracy = model.score([example.text for example in test], [example.labels[0] for example in test])
print(f"{accuracy:.1%} of {len(test)} test sentences are correct")

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "intents")
    again = catena.load(Path(folder) / "intents")
    texts = ["wake me at half six tomorrow", "remind me to call mum when I get home"]
    for prediction in again.predict_stream(texts):
        print(f"{prediction.label} ({prediction.probability:.0%})  {prediction.text}")
