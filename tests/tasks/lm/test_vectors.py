"""Language models start from word vectors of a file, fixed or tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.tasks.lm.config import LmConfig
from catena.vectors.table import VectorTable
from tests.tasks.lm.helpers import load_network, train

LINES = ["the cat sat on the mat", "a dog ran away", "the dog sat", "a cat ran to the mat"] * 8
KNOWN = ["cat", "dog", "mat"]
SMALL: dict[str, dict[str, Any]] = {
    "lstm": {"encoder": {"d": 12}},
    "transformer": {"encoder": {"d": 8, "n_heads": 2, "n_layers": 1, "d_ff": 16}},
    "feed-forward": {"encoder": {"d": 12, "context": 3}},
}


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("mode", ["static", "tuned"])
def test_embeddings_start_from_the_vectors_of_the_file(kind: str, mode: str, tmp_path: Path) -> None:
    text, file = tmp_path / "text.txt", tmp_path / "vectors.safetensors"
    text.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    rows = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    VectorTable.of(KNOWN, rows).save(file)
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
    train(configs.parse(LmConfig, values), tmp_path / "run")
    assert f"{file}: vectors for 3 words, " in (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    file.unlink()  # the model needs it no more
    model = load_network(tmp_path / "run")
    table = model.embedding.weight
    found = table[torch.tensor([model.vocabulary.ids([word])[0] for word in KNOWN])].detach()
    wanted = torch.from_numpy(rows)
    assert torch.equal(found, wanted) == (mode == "static")
    assert torch.allclose(found, wanted, atol=0.1)  # a few steps lead no farther


def test_clustered_tree_is_built_from_vectors_and_saved(tmp_path: Path) -> None:
    text, file = tmp_path / "text.txt", tmp_path / "vectors.safetensors"
    text.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    words = sorted({word for line in LINES for word in line.split()})
    sides = np.array([[1.0, 0.0] if word < "m" else [-1.0, 0.0] for word in words], np.float32)
    VectorTable.of(words, sides).save(file)
    values: dict[str, Any] = {
        "data": {"train": [str(text)]},
        "machine": {"device": "cpu"},
        "tokenizer": {"kind": "whitespace"},
        "training": {"max_epochs": 1},
        "model": {
            "kind": "lstm", "tied": False, "embedding": {"d": 2, "mode": "static", "vectors": str(file)},
            "encoder": {"d": 12}, "output": {"kind": "hierarchical", "tree": "clustered"},
        },
    }  # fmt: skip
    _, trained = train(configs.parse(LmConfig, values), tmp_path / "run")
    file.unlink()
    model = load_network(tmp_path / "run")
    layer, below = model.output, set()
    waiting = [int(layer.children_of[0, 0])]  # the left half of the tree
    while waiting:
        node = waiting.pop()
        if node < 0:
            below.add(int(layer.words[-1 - node]))
        else:
            waiting += layer.children_of[node].tolist()
    halves = [{model.vocabulary.ids([w])[0] for w in words if (w < "m") == left} for left in (True, False)]
    assert any(half <= below for half in halves)
    assert not all(half & below for half in halves)
    assert np.isfinite(trained.scores["perplexity"])
