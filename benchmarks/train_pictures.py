"""Train the picture networks on cifar10_small, all in parallel within a time limit.

    python benchmarks/train_pictures.py $CATENA_DATA/cifar10_small --pack packed
    python benchmarks/train_pictures.py packed -o OUT --minutes 9

``--pack`` needs Pillow; training does not. The second command prints a table and writes it to OUT/pictures.json. Every
run has a fixed number of epochs and is evaluated once, with the average of its weights; nothing is selected on the test
pictures. The training loss is measured at the end, without augmentation. A run that is too slow for the limit trains
for fewer epochs, which the table shows. On a GPU the pictures are stored and augmented there, in bfloat16.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from train_runs import Clock, describe_device, parse_arguments, prepare_device, run_all, write_results

from catena.data.augment import N_IMAGE_UNIFORMS, augment_images, to_unit_scale
from catena.data.media import DecodedImages, decode_images, list_labeled_files
from catena.data.media_batches import ImageStore
from catena.data.media_config import ImageAugmentationConfig, ImageConfig
from catena.data.reading import ReadCounter
from catena.encoders.image_config import (
    AlexNetConfig,
    GoogLeNetConfig,
    HighwayImageConfig,
    ImageEncoderConfig,
    ResNetConfig,
    VGGConfig,
)
from catena.encoders.images import ImageNetwork
from catena.metrics.intervals import mean_interval, wilson_interval
from catena.randomness import Randomness
from catena.training.average import MovingAverage, using

SIZE = (32, 32)


@dataclass(frozen=True)
class Run:
    """A network and how it is trained."""

    encoder: ImageEncoderConfig
    epochs: int = 200
    learning_rate: float = 0.1
    weight_decay: float = 5e-4
    batch_size: int = 128
    label_smoothing: float = 0.1
    warmup_epochs: int = 5
    average: float = 0.998
    augmentation: ImageAugmentationConfig = field(
        default_factory=lambda: ImageAugmentationConfig(padding=4, flip=0.5, erase=8)
    )


RUNS = {
    "resnet20": Run(ResNetConfig(depth=20)),
    "resnet56": Run(ResNetConfig(depth=56)),
    "plain20": Run(ResNetConfig(depth=20, residual=False)),
    "plain56": Run(ResNetConfig(depth=56, residual=False)),
    "alexnet": Run(AlexNetConfig(small=True, width=0.5, d_dense=512), epochs=150, learning_rate=0.02),
    "vgg": Run(VGGConfig(variant="D", batch_norm=True, width=0.5, d_dense=256), epochs=150, learning_rate=0.05),
    "googlenet": Run(GoogLeNetConfig(small=True, batch_norm=True, width=0.5), epochs=150, learning_rate=0.05),
    "highway": Run(HighwayImageConfig(n_layers=18, d=32, batch_norm=True), epochs=150, learning_rate=0.05),
    "highway-dense": Run(
        HighwayImageConfig(form="dense", n_layers=10, d=256, bias=-1.0), epochs=150, learning_rate=0.02
    ),
}
DEFAULT_RUNS = [
    *("resnet56:0", "plain56:0", "googlenet:0", "resnet20:0", "resnet20:1", "resnet20:2", "plain20:0"),
    *("highway:0", "vgg:0", "alexnet:0", "highway-dense:0"),
]


# --- data -------------------------------------------------------------------------------------------------------------


def pack(folder: Path, target: Path) -> None:
    """Decode ``folder/train`` and ``folder/test`` into ``target/pictures.npz``."""
    arrays: dict[str, Any] = {}
    for split in ("train", "test"):
        files, counter = list_labeled_files(folder / split), ReadCounter()
        names = sorted({file.labels[0] for file in files})
        config = ImageConfig(height=SIZE[0], width=SIZE[1])
        decoded = decode_images([file.path for file in files], config, counter)
        print(split, counter.counts(len(decoded.files)).sentence(""))
        arrays[split] = take_differences(decoded.pixels[decoded.files])
        arrays[f"{split}_labels"] = np.array([names.index(files[i].labels[0]) for i in decoded.files], np.uint8)
    target.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target / "pictures.npz", **arrays)
    print(f"{target / 'pictures.npz'}: {(target / 'pictures.npz').stat().st_size / 1e6:.1f} MB")


def take_differences(pixels: np.ndarray) -> np.ndarray:
    """Differences of colors and of neighbors modulo 256, planes first, which compress to two thirds of the pixels."""
    x = pixels.copy()
    x[..., ::2] -= pixels[..., 1:2]
    x = np.diff(x, axis=1, prepend=np.uint8(0))
    x = np.diff(x, axis=2, prepend=np.uint8(0))
    return np.ascontiguousarray(np.moveaxis(x, 3, 1))


def sum_differences(planes: np.ndarray) -> np.ndarray:
    """The inverse of :func:`take_differences`."""
    x = np.moveaxis(planes, 1, 3).cumsum(axis=1, dtype=np.uint8).cumsum(axis=2, dtype=np.uint8)
    x[..., ::2] += x[..., 1:2]
    return x


class Pictures:
    """Decoded pictures and labels of one split."""

    def __init__(self, path: Path, split: str, device: torch.device) -> None:
        with np.load(path / "pictures.npz") as arrays:
            pixels, labels = sum_differences(arrays[split]), arrays[f"{split}_labels"]
        self.images = DecodedImages(pixels, np.arange(len(pixels)))
        self.store = ImageStore(self.images, device)
        self.labels = torch.from_numpy(labels.astype(np.int64)).to(device)

    def __len__(self) -> int:
        return len(self.labels)


# --- training ---------------------------------------------------------------------------------------------------------


class Trainer:
    """One run: network, optimizer and average of the weights."""

    def __init__(self, name: str, seed: int, pictures: Pictures, device: torch.device) -> None:
        self.run, self.pictures, self.device = RUNS[name], pictures, device
        self.randomness = Randomness(seed)
        self.randomness.seed_torch("weights")
        network = ImageNetwork(self.run.encoder, SIZE, int(pictures.labels.max()) + 1)
        network.norm.set(*map(torch.tensor, pictures.images.statistics()))
        self.network = network.to(device, memory_format=torch.channels_last)
        decay, keep = split_parameters(self.network)
        groups = [{"params": decay, "weight_decay": self.run.weight_decay}, {"params": keep, "weight_decay": 0.0}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True, foreach=True)
        self.average = MovingAverage(self.network, self.run.average)
        self.n_batches = math.ceil(len(pictures) / self.run.batch_size)
        self.loss_sum = torch.zeros((), device=device)

    def train(self, deadline: float) -> Clock:
        """Train for all epochs, or until the deadline."""
        clock = Clock(self.run.epochs * self.n_batches, deadline, self.run.warmup_epochs / self.run.epochs)
        epoch = 0
        while clock.progress < 1:
            order = self.randomness.numpy("order", epoch).permutation(len(self.pictures))
            self.loss_sum.zero_()
            for rows in np.array_split(order, range(self.run.batch_size, len(order), self.run.batch_size)):
                if clock.progress >= 1:
                    break
                self.train_batch(rows, epoch, clock)
            epoch += 1
            if epoch % 10 == 0:
                print(f"epoch {epoch} loss {self.loss_sum.item() / len(order):.4f} {clock.seconds:.0f} s", flush=True)
        return clock

    def train_batch(self, rows: np.ndarray, epoch: int, clock: Clock) -> None:
        self.network.train()
        self.randomness.seed_torch("dropout", clock.step)
        for group in self.optimizer.param_groups:
            group["lr"] = clock.learning_rate(self.run.learning_rate)
        indices = torch.from_numpy(rows).to(self.device)
        uniforms = self.randomness.uniforms("augment", epoch, indices, N_IMAGE_UNIFORMS)
        x = augment_images(self.pictures.store.batch(rows), uniforms, self.run.augmentation, self.network.norm.mean)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = self.loss(x.contiguous(memory_format=torch.channels_last), self.pictures.labels[indices])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 5.0, foreach=True)
        self.optimizer.step()
        self.average.after_step()
        self.loss_sum += loss.detach() * len(rows)
        clock.step += 1

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        output = self.network(x)
        loss = F.cross_entropy(output.scores.float(), labels, label_smoothing=self.run.label_smoothing)
        for scores in output.auxiliary:
            loss = loss + 0.3 * F.cross_entropy(scores.float(), labels, label_smoothing=self.run.label_smoothing)
        return loss

    @torch.no_grad()
    def evaluate(self, pictures: Pictures) -> tuple[int, float]:
        """The number of correct predictions, and the mean loss without augmentation and smoothing."""
        self.network.eval()
        correct, total = 0, 0.0
        for rows in np.array_split(np.arange(len(pictures)), range(500, len(pictures), 500)):
            scores = self.network(to_unit_scale(pictures.store.batch(rows))).scores
            labels = pictures.labels[torch.from_numpy(rows).to(self.device)]
            correct += int((scores.argmax(1) == labels).sum())
            total += float(F.cross_entropy(scores, labels, reduction="sum"))
        return correct, total / len(pictures)


def split_parameters(network: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Weights, and vectors (biases and scales), which have no weight decay."""
    weights = [p for p in network.parameters() if p.ndim > 1]
    return weights, [p for p in network.parameters() if p.ndim <= 1]


# --- runs -------------------------------------------------------------------------------------------------------------


def train_one(arguments: argparse.Namespace) -> None:
    """Train one run in this process and write its result."""
    device = prepare_device(arguments.device, fixed_shapes=True)
    name, seed = arguments.runs[0].split(":")
    train, test = Pictures(arguments.data, "train", device), Pictures(arguments.data, "test", device)
    trainer = Trainer(name, int(seed), train, device)
    clock = trainer.train(arguments.deadline)
    result: dict[str, Any] = {"run": name, "seed": int(seed), "seconds": clock.seconds, "n_test": len(test)}
    result |= {"epochs": clock.step / trainer.n_batches, "finished": clock.step == clock.n_steps}
    with using(trainer.network, trainer.average.weights()):
        result["test_correct"], result["test_loss"] = trainer.evaluate(test)
        train_correct, result["train_loss"] = trainer.evaluate(train)
    result |= {"train_accuracy": train_correct / len(train), "device": describe_device(device)}
    result["n_parameters"] = sum(p.numel() for p in trainer.network.parameters())
    result["settings"] = json.loads(json.dumps(asdict(trainer.run), default=lambda config: config.model_dump()))
    arguments.one.write_text(json.dumps(result), encoding="utf-8")


def show(results: Sequence[dict[str, Any]]) -> None:
    """Print a table of all results, and means over seeds."""
    print("run            seed  test % (95 % interval)     train loss  train %  parameters   epochs  seconds")
    for r in results:
        interval = wilson_interval(r["test_correct"], r["n_test"])
        print(
            f"{r['run']:<14} {r['seed']:>4}  {100 * interval.value:6.2f} "
            f"({100 * interval.low:.2f} to {100 * interval.high:.2f})  {r['train_loss']:10.4f}  "
            f"{100 * r['train_accuracy']:7.2f}  {r['n_parameters']:>10,}  {r['epochs']:7.1f}  {r['seconds']:7.0f}"
            f"{'' if r['finished'] else '  stopped early'}"
        )
    for name in dict.fromkeys(r["run"] for r in results):
        scores = [100 * r["test_correct"] / r["n_test"] for r in results if r["run"] == name]
        if len(scores) > 1:
            print(f"{name}: mean test accuracy {mean_interval(scores)} of {len(scores)} seeds")


def main() -> None:
    arguments = parse_arguments(__doc__ or "", DEFAULT_RUNS)
    if arguments.pack:
        pack(arguments.data, arguments.pack)
    elif arguments.one:
        train_one(arguments)
    else:
        show(run_all(__file__, arguments, lambda results, _: write_results(arguments.out / "pictures.json", results)))


if __name__ == "__main__":
    main()
