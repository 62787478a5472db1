"""A language model begins with word vectors of a file, and keeps them or learns them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.tasks.lm.application import LmApplication
from catena.tasks.lm.settings import LmConfig
from catena.training.report import SilentReporter
from catena.vectors.table import Vectors

LINES = ["the cat sat on the mat", "a dog ran away", "the dog sat", "a cat ran to the mat"] * 8
KNOWN = ["cat", "dog", "mat"]
SMALL: dict[str, dict[str, Any]] = {
    "lstm": {"encoder": {"d": 12}},
    "transformer": {"encoder": {"d": 8, "n_heads": 2, "n_layers": 1, "d_feed": 16}},
    "feed-forward": {"encoder": {"d": 12, "context": 3}},
}


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("mode", ["static", "tuned"])
def test_words_have_the_vectors_of_the_file(kind: str, mode: str, tmp_path: Path) -> None:
    text, file = tmp_path / "text.txt", tmp_path / "vectors.safetensors"
    text.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    rows = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    Vectors.of(KNOWN, rows).save(file)
    values: dict[str, Any] = {
        "data": {"train": [str(text)]},
        "machine": {"device": "cpu"},
        "tokenizer": {"kind": "whitespace"},
        "batches": {"batch_size": 4, "length": 6},
        "training": {"max_epochs": 1},
        "model": {
            "kind": kind, "tied": False, "embedding": {"d": 8, "mode": mode, "vectors": str(file)}, **SMALL[kind]
        },
    }  # fmt: skip
    LmApplication().train(configs.parse(LmConfig, values), tmp_path / "run", SilentReporter())
    file.unlink()  # the model needs it no more
    model = LmApplication().load(tmp_path / "run").model  # type: ignore[attr-defined]
    table = model.embedding.weight
    found = table[torch.tensor([model.vocabulary.ids([word])[0] for word in KNOWN])].detach()
    wanted = torch.from_numpy(rows)
    assert torch.equal(found, wanted) == (mode == "static")
    assert torch.allclose(found, wanted, atol=0.1)  # a few steps lead no farther
