"""Kim's CNN on MR: Catena's training loop compared with a hand-written script (same model, batches, optimizer).

    CATENA_DATA=… python benchmarks/classify.py [--epochs 3] [--threads 1]

Both train the same epochs in one process, alternating; the table has the median seconds of an epoch, their ratio, and
the overhead of the loop: the fraction of a step outside batch, forward, backward and optimizer. Peak memory is measured
in one process for each side; the hand-written script imports nothing of Catena.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SEED = 0


# --- the hand-written script: no line of Catena ---------------------------------------------------------------------


class PlainCNN(nn.Module):
    def __init__(self, n_words: int, n_classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, 300, padding_idx=0)
        nn.init.uniform_(self.embedding.weight, -0.25, 0.25)
        with torch.no_grad():
            self.embedding.weight[0] = 0
        self.convolutions = nn.ModuleList(nn.Conv1d(300, 100, w, padding=w - 1) for w in (3, 4, 5))
        self.output = nn.Linear(300, n_classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids).transpose(1, 2)
        pooled = torch.cat([F.relu(conv(x)).amax(2) for conv in self.convolutions], 1)
        return self.output(F.dropout(pooled, 0.5, self.training))


def plain_epoch(
    model: PlainCNN, optimizer: torch.optim.Optimizer, texts: list, labels: np.ndarray, plan: list
) -> float:
    start = time.process_time()
    model.train()
    for rows in plan:
        longest = max(len(texts[i]) for i in rows)
        ids = np.zeros((len(rows), longest), np.int64)
        for k, i in enumerate(rows):
            ids[k, : len(texts[i])] = texts[i]
        loss = F.cross_entropy(model(torch.from_numpy(ids)), torch.from_numpy(labels[rows]))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            norms = model.output.weight.norm(dim=1, keepdim=True)
            model.output.weight.mul_((3.0 / norms.clamp(min=1e-12)).clamp(max=1.0))
    return time.process_time() - start


# --- the same in Catena ---------------------------------------------------------------------------------------------


def prepare(path: Path):
    from catena import config as configs
    from catena.randomness import Randomness
    from catena.tasks.base import Origin
    from catena.tasks.classify.config import ClassifyConfig
    from catena.tasks.classify.task import ClassifyTask
    from catena.tasks.sources import Sources

    values = {
        "data": {"train": [str(path)]},
        "tokenizer": {"kind": "whitespace"},
        "model": {"kind": "cnn"},
        "training": {"optimizer": "adadelta", "max_norm": 3.0, "clip_norm": 0.0, "max_epochs": 1, "patience": 0},
    }
    config = configs.parse(ClassifyConfig, values)
    training = ClassifyTask.prepare(config, Sources(ClassifyTask, config), Origin(Randomness(SEED)))
    rows, task = training.data.train, training.task
    return config, SimpleNamespace(
        training=training,
        encoding=task.encoding.texts,
        names=task.labels,
        texts=rows.texts,
        labels=task._targets,
        train=rows.rows,
    )


class Timer:
    """Adds up the run time of a function in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, work: Callable) -> Callable:
        def timed(*args, **options):
            start = time.process_time()
            try:
                return work(*args, **options)
            finally:
                self.seconds += time.process_time() - start

        return timed


def make_task(config, data):
    from catena.training.task import Evaluation

    training = data.training
    training.evaluate = lambda: Evaluation({"accuracy": 0.0})  # the hand-written script has no evaluation
    return training


def catena_epoch(task) -> tuple[float, float]:
    """Return the seconds of one epoch through the loop, and the seconds of the work without the loop."""
    from catena.randomness import Randomness
    from catena.training import loop
    from catena.training.report import SilentReporter

    work = Timer()
    epoch_of, loss_of = task.epoch, task.loss
    backward, step = torch.Tensor.backward, loop.GradientUpdater.step

    def timed_epoch(number: int):
        plan = epoch_of(number)
        plan.batch = work.around(plan.batch)
        return plan

    task.epoch, task.loss = work.around(timed_epoch), work.around(loss_of)
    torch.Tensor.backward, loop.GradientUpdater.step = work.around(backward), work.around(step)
    try:
        start = time.process_time()
        loop.train(task, task.config.training, None, Randomness(SEED), SilentReporter())
        return time.process_time() - start, work.seconds
    finally:
        task.epoch, task.loss = epoch_of, loss_of
        torch.Tensor.backward, loop.GradientUpdater.step = backward, step


def plain_parts(config, data):
    """Return the model and data of the hand-written script: the same ids, and the batches that Catena plans."""
    torch.manual_seed(SEED)
    model = PlainCNN(data.encoding.size, len(data.names))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
    texts = [data.texts.texts[i].astype(np.int64) for i in range(len(data.labels))]
    from catena.data.batches import BatchPlan
    from catena.randomness import Randomness

    def plan(number: int) -> list:
        lengths = data.texts.lengths[data.train]
        return [
            data.train[rows]
            for rows in BatchPlan.shuffled(lengths, config.batches, Randomness(SEED).numpy("batches", number))
        ]

    return model, optimizer, texts, plan


def peak_memory(side: str, file: Path, threads: int) -> float:
    """Return the peak memory, in MiB, of a process that trains one epoch."""
    command = [sys.executable, __file__, "--side", side, "--file", str(file), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def train_one_side(side: str, file: Path) -> None:
    """Train one epoch on one side. The hand-written side reads arrays and imports nothing of Catena."""
    if side == "plain":
        saved = np.load(file)
        texts = np.split(saved["flat"].astype(np.int64), saved["offsets"][1:-1])
        plan = np.split(saved["rows"], saved["ends"])
        model = PlainCNN(int(saved["n_words"]), 2)
        optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
        plain_epoch(model, optimizer, texts, saved["labels"], plan)
    else:
        catena_epoch(make_task(*prepare(file)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def save_arrays(file: Path, data, plan: list) -> None:
    """Return the inputs of the hand-written script for one epoch."""
    corpus = data.texts.texts
    ends = np.cumsum([len(rows) for rows in plan])[:-1]
    np.savez(
        file,
        flat=corpus.flat,
        offsets=corpus.offsets,
        labels=data.labels,
        rows=np.concatenate(plan),
        ends=ends,
        n_words=data.encoding.size,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    folder = os.environ.get("CATENA_DATA", "")
    parser.add_argument("--file", type=Path, default=Path(folder) / "text_classification" / "rt-polarity.all")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--side", choices=["plain", "catena"])
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    if not flags.file.is_file():
        sys.exit(f"File not found: {flags.file}. Set CATENA_DATA to the folder of the evaluation data.")
    if flags.side:
        return train_one_side(flags.side, flags.file)
    config, data = prepare(flags.file)
    model, optimizer, texts, plan = plain_parts(config, data)
    task = make_task(config, data)
    plain, ours, own = [], [], []
    for number in range(1, flags.epochs + 1):
        plain.append(plain_epoch(model, optimizer, texts, data.labels, plan(number)))
        seconds, work = catena_epoch(task)
        ours.append(seconds)
        own.append((seconds - work) / seconds)
        print(
            f"epoch {number}: plain {plain[-1]:.2f} s, Catena {ours[-1]:.2f} s, loop overhead {100 * own[-1]:.1f} %",
            flush=True,
        )
    ratio = statistics.median(ours) / statistics.median(plain)
    print(f"\n{flags.threads} threads, {len(data.train):,} texts, batches of 50, median of {flags.epochs} epochs")
    seconds = f"plain {statistics.median(plain):.2f}   Catena {statistics.median(ours):.2f}   ratio {ratio:.2f}"
    print(f"seconds of an epoch     {seconds}")
    print(f"loop overhead           {100 * statistics.median(own):.1f} % of a step")
    with tempfile.TemporaryDirectory() as temporary:
        arrays = Path(temporary) / "arrays.npz"
        save_arrays(arrays, data, plan(1))
        files = {"plain": arrays, "catena": flags.file}
        memory = {side: peak_memory(side, file, flags.threads) for side, file in files.items()}
    ratio = memory["catena"] / memory["plain"]
    print(f"peak memory, MiB        plain {memory['plain']:.0f}   Catena {memory['catena']:.0f}   ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
