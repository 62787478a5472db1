"""Synthetic conversations: each topic has its own words, and a response has the topic of its context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena import config as configs
from catena.tasks.converse.config import ConverseConfig

TOPICS = {
    "tea": ("tea cup milk sugar", "a cup of tea with milk", "tea and sugar please"),
    "train": ("train station ticket", "the train is at the station", "a ticket for the train"),
    "rain": ("rain cloud umbrella", "rain from a cloud", "take an umbrella in the rain"),
    "cat": ("cat mouse basket", "the cat is after a mouse", "the cat sleeps in a basket"),
}

KINDS: dict[str, dict[str, Any]] = {
    "bm25": {"against": "response"},
    "tfidf": {"against": "response"},
    "dual": {"embedding": {"d": 8}},
    "generative": {"network": {"embedding": {"d": 12}, "encoder": {"d": 12, "n_layers": 1}}, "ngram_order": 2},
    "seq2seq": {"network": {"d": 12, "d_embedding": 8}, "ngram_order": 2},
}


def write_pairs(path: Path, times: int = 6) -> Path:
    """Lines of context<TAB>response, in which two turns lead to the response."""
    lines = []
    for i in range(times):
        for words, *responses in TOPICS.values():
            word = words.split()[i % len(words.split())]
            lines.append(f"hello number {i} __eot__ what about the {word} ?\t{responses[i % 2]} {i}")
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def config(train: Path, kind: str, **sections: Any) -> ConverseConfig:
    """A small config for a file of pairs."""
    values: dict[str, Any] = {"machine": {"device": "cpu", "threads": 1}, **sections}
    values["data"] = {"train": [str(train)], "dev_fraction": 0.3, **sections.get("data", {})}
    values["model"] = {"kind": kind, **KINDS.get(kind, {}), **sections.get("model", {})}
    values.setdefault("training", {"max_epochs": 2, "optimizer": "adam", "learning_rate": 0.01})
    values.setdefault("batches", {"batch_size": 8, "bucket": 0})
    values["evaluation"] = {"candidates": 4, "written": 3, **sections.get("evaluation", {})}
    values["evaluation"].setdefault("search", {"kind": "sample", "max_length": 6})
    return configs.parse(ConverseConfig, values)
