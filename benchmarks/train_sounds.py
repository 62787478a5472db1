"""Train networks on spoken digits, sound classes and a keyword, all in parallel within a time limit.

    python benchmarks/train_sounds.py $CATENA_DATA --pack packed [--more FOLDER FOLDER]
    python benchmarks/train_sounds.py packed -o OUT --minutes 9

``--pack`` reads audiomnist_8k, esc10_8k and welcome_tts, and needs soundfile; training does not. It stores log-mel
energies in steps of 0.2 nats (0.9 dB), those of the keyword in steps of 0.5, one byte each, as differences over time.
``digits:S`` is trained with seed S, ``keyword:S`` on the shipped clips, ``keyword-more:S`` also with clips of
``make_negatives.py``, and ``keyword-wide:S`` also with those of make_keyword_clips.py. Clips of ``--more`` are named
by their folders:

    python make_negatives.py with --split train --positives 1700 --seed 101
    python make_negatives.py without --split train --hours 1.7 --seed 102
    python benchmarks/make_keyword_clips.py TOOLS wide --clips 1650 --seed 7
    python benchmarks/train_sounds.py $CATENA_DATA --pack packed --only keyword --more with without wide
    python benchmarks/train_sounds.py packed -o OUT --minutes 8 --runs keyword-more:{0,1,2} keyword-wide:{0,1,2}

``esc10:F.S`` is trained with seed S on all folds except F and tested on F; ``esc10:F+G.S`` leaves out F and G. Other
names are variants; choose among them by dev. For ESC-10 the table does so: for each fold F, the variant whose runs
without F and another fold have the highest accuracy on that other fold; its runs without F are averaged.

    python benchmarks/train_sounds.py packed --svm

needs scikit-learn and fits the RBF SVM of ``--baseline svm_rbf`` to ESC-10; its features and C are chosen for each fold
by the accuracy on the other four folds.

The second command prints a table and writes OUT/sounds.json, and OUT/keyword.pt with the weights of the keyword runs.
Every run has a fixed number of epochs and is evaluated once, with the average of its weights; nothing is selected on
test sounds. The score of a keyword clip is the maximum over time of the mean of 0.05 s, as in spot_stream.py; its
threshold is chosen on dev. A run that is too slow for the limit trains for fewer epochs, which the table shows.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from train_runs import Clock, describe_device, parse_arguments, prepare_device, run_all, write_results

from catena.data.audio import read_audio
from catena.data.augment import augment_sounds, count_sound_uniforms, mix_noise
from catena.data.media_config import SoundAugmentationConfig, SoundConfig
from catena.encoders.config import ConvolutionConfig, SoundEncoderConfig, SpectrogramConfig
from catena.encoders.log_mel import LogMel
from catena.encoders.sound import build_sound_network, frame_loss
from catena.metrics.intervals import mean_interval, wilson_interval
from catena.randomness import Randomness
from catena.training.average import MovingAverage, using

FEATURES = SoundConfig()
SILENCE = math.log(FEATURES.floor)
STEPS = {"digits": 0.2, "esc10": 0.2, "keyword": 0.5}
"""Steps of the stored log-mel energies in nats."""
SMOOTHING = 5
"""Frames of the moving average of keyword scores."""
LENGTH_STEP = 64
"""Batches are padded to multiples of this length, since cuDNN plans each new shape."""
MAX_FRAMES = 4000
PIECE_FRAMES = 400
"""Recordings of more than MAX_FRAMES are cut into pieces of PIECE_FRAMES."""


def tdnn(filters: int, n_layers: int, **options: Any) -> ConvolutionConfig:
    gaps = (1, 2, 4, 8, 16)[:n_layers]
    return ConvolutionConfig(
        windows=(3,), filters=filters, n_layers=n_layers, dilations=gaps, norm="batch", residual=True, **options
    )


@dataclass(frozen=True)
class Run:
    """A network and how it is trained."""

    data: Literal["digits", "esc10", "keyword"]
    encoder: SoundEncoderConfig
    epochs: int
    pooling: Literal["max", "log_sum_exp", "mean"] = "mean"
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    batch_size: int = 50
    dropout: float = 0.2
    label_smoothing: float = 0.0
    mixup: float = 0.0
    frame_weight: float = 0.0
    noise: float = 0.0
    """Probability of adding noise from a sound without the keyword, 5 to 30 dB below."""
    loss: Literal["clip", "event"] = "clip"
    """Of the pooled score, or of the highest scores in the word and outside it."""
    more: tuple[str, ...] = ()
    """Other training clips."""
    colored_noise: float = 0.0
    """Fraction of the added noise that is white, pink or brown."""
    average: float = 0.995
    augmentation: SoundAugmentationConfig = field(
        default_factory=lambda: SoundAugmentationConfig(
            tempo=1.25, mel_shift=2.5, gain=6, time_mask=12, mel_mask=7, n_mel_masks=2
        )
    )


LOUD = SoundAugmentationConfig(tempo=1.25, mel_shift=3, gain=10, time_mask=10, mel_mask=6)
DIGITS = Run("digits", SpectrogramConfig(channels=(16, 32, 48), encoder=tdnn(96, 4)), 120, label_smoothing=0.1)
ESC10 = Run(
    "esc10",
    SpectrogramConfig(channels=(24, 48, 64), encoder=tdnn(96, 4, dropout=0.1)),
    250,
    batch_size=32,
    mixup=0.4,
    label_smoothing=0.1,
    dropout=0.3,
    augmentation=SoundAugmentationConfig(
        tempo=1.25, mel_shift=2, gain=10, shift=40, time_mask=40, n_time_masks=2, mel_mask=8, n_mel_masks=2
    ),
)
KEYWORD = Run(
    "keyword",
    SpectrogramConfig(channels=(16, 32, 48), encoder=tdnn(96, 5)),
    100,
    pooling="log_sum_exp",
    frame_weight=0.5,
    noise=0.5,
    augmentation=LOUD,
)
MORE = replace(
    KEYWORD,
    encoder=SpectrogramConfig(channels=(24, 48, 64), encoder=tdnn(128, 5)),
    epochs=90,
    batch_size=64,
    loss="event",
    frame_weight=2.0,
    noise=0.7,
    colored_noise=0.6,
    more=("with", "without"),
    augmentation=LOUD.model_copy(update={"tempo": 1.3}),
)
WIDE = replace(MORE, epochs=60, more=("with", "without", "wide"))
RUNS = {
    "digits": DIGITS,
    "digits-tdnn": replace(DIGITS, encoder=tdnn(96, 5)),
    "esc10": ESC10,
    "esc10-mix": replace(
        ESC10,
        encoder=SpectrogramConfig(channels=(24, 48, 64), encoder=tdnn(96, 5, dropout=0.2)),
        epochs=300,
        weight_decay=5e-2,
        mixup=0.5,
        dropout=0.4,
        augmentation=SoundAugmentationConfig(
            tempo=1.3, mel_shift=2, gain=12, shift=100, time_mask=60, n_time_masks=2, mel_mask=10, n_mel_masks=2
        ),
    ),
    "esc10-wide": replace(ESC10, encoder=SpectrogramConfig(channels=(32, 64, 128), encoder=tdnn(192, 4, dropout=0.1))),
    "keyword": KEYWORD,
    "keyword-shift": replace(KEYWORD, augmentation=LOUD.model_copy(update={"mel_shift": 6.0, "tempo": 1.35})),
    "keyword-max": replace(KEYWORD, pooling="max"),
    "keyword-more": MORE,
    "keyword-wide": WIDE,
    "keyword-wide-clip": replace(WIDE, loss="clip", frame_weight=0.5),
    "keyword-wide-large": replace(
        WIDE, encoder=SpectrogramConfig(channels=(32, 64, 96), encoder=tdnn(192, 5, dropout=0.1))
    ),
}
DEFAULT_RUNS = [
    *(f"esc10:{fold}.0" for fold in range(1, 6)),
    *(f"digits:{seed}" for seed in range(5)),
    *(f"{name}:{seed}" for name in ("keyword", "keyword-shift", "keyword-max") for seed in range(3)),
    *(f"esc10-wide:{fold}.0" for fold in range(1, 6)),
    *(f"digits-tdnn:{seed}" for seed in range(5)),
]


# --- packed data ------------------------------------------------------------------------------------------------------


FOLDERS = {"digits": "audiomnist_8k", "esc10": "esc10_8k", "keyword": "welcome_tts"}


def pack(folder: Path, target: Path, names: Sequence[str], more: Sequence[Path]) -> None:
    """Write the log-mel energies, labels, groups and times of each data set."""
    target.mkdir(parents=True, exist_ok=True)
    for data in names:
        rows = list(list_rows(data, folder / FOLDERS[data], more if data == "keyword" else []))
        features = [quantize(path, STEPS[data]) for path, *_ in rows]
        offsets = np.cumsum([0, *map(len, features)])
        columns: dict[str, Any] = {
            key: np.array([row[i] for row in rows]) for i, key in enumerate(("labels", "groups", "spans"), 1)
        }
        infos = np.array([row[4] for row in rows])
        differences = np.diff(np.concatenate(features), axis=0, prepend=np.uint8(0))
        path = target / f"{data}.npz.bz2"
        with bz2.open(path, "wb") as file:
            np.savez(file, differences=differences, offsets=offsets, infos=infos, **columns)
        print(f"{path}: {len(rows)} sounds, {offsets[-1] / 360_000:.2f} hours, {path.stat().st_size / 1e6:.1f} MB")


def quantize(path: Path, step: float) -> np.ndarray:
    with torch.inference_mode():
        samples = torch.from_numpy(read_audio(path, FEATURES.sample_rate).samples)
        features = LogMel(FEATURES)(samples[None])[0][0]
    return ((features - SILENCE) / step).round().clamp(0, 255).to(torch.uint8).numpy()


def unpack(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a packed data set; ``flat`` has the steps of all frames."""
    with np.load(io.BytesIO(bz2.decompress(path.read_bytes()))) as arrays:
        columns = {key: arrays[key] for key in arrays if key != "differences"}
        return columns | {"flat": np.cumsum(arrays["differences"], axis=0, dtype=np.uint8)}


Row = tuple[Path, int, str, tuple[float, float], str]


def list_rows(data: str, folder: Path, more: Sequence[Path]) -> Iterator[Row]:
    """File, label, split or fold, start and end in seconds (-1 if there are none), and remarks."""
    rows = read_table(folder / "clips.tsv")
    names = sorted({row["label"] for row in rows}) if data == "esc10" else []
    for row in rows:
        path = folder / row["file"]
        if data == "digits":
            yield path, int(row["digit"]), row["split"], (-1.0, -1.0), row["speaker"]
        elif data == "esc10":
            yield path, names.index(row["label"]), row["fold"], (-1.0, -1.0), row["label"]
        else:
            yield path, int(row["keyword"]), row["split"], read_span(row), f"{row['engine']}|{row['snr']}"
    for other in more:
        for row in read_table(other / "labels.tsv"):
            span = read_span(row)
            yield other / row["file"], int(span[0] >= 0), other.name, span, f"{row['voice']}|{row['snr']}"


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_span(row: dict[str, str]) -> tuple[float, float]:
    return (float(row["start"]), float(row["end"])) if row["start"] else (-1.0, -1.0)


class Sounds:
    """The sounds of a cache on a device; long recordings are cut into pieces."""

    def __init__(self, folder: Path, data: str, device: torch.device) -> None:
        arrays, self.step = unpack(folder / f"{data}.npz.bz2"), STEPS[data]
        self.flat = torch.from_numpy(arrays["flat"]).to(device)
        starts, ends = arrays["offsets"][:-1], arrays["offsets"][1:]
        sizes = np.where(ends - starts > MAX_FRAMES, PIECE_FRAMES, ends - starts)
        pieces = [(i, start) for i in range(len(starts)) for start in range(starts[i], ends[i], sizes[i])]
        self.rows, begins = np.array(pieces).T
        limits = np.minimum(begins + sizes[self.rows], ends[self.rows])
        self.starts = torch.from_numpy(begins).to(device)
        self.lengths = torch.from_numpy(limits - begins).to(device)
        self.labels = torch.from_numpy(arrays["labels"][self.rows].astype(np.int64)).to(device)
        self.groups = arrays["groups"][self.rows].astype(str)
        self.spans = torch.from_numpy(arrays["spans"][self.rows].astype(np.float32)).to(device)
        self.infos = arrays["infos"][self.rows].astype(str)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        lengths = self.lengths[rows]
        steps = torch.arange(int(lengths.max()), device=rows.device)
        x = self.flat[(self.starts[rows][:, None] + steps).clamp(max=len(self.flat) - 1)]
        return x.float() * self.step + SILENCE, lengths


def frame_targets(spans: Tensor, sources: Tensor) -> tuple[Tensor, Tensor]:
    """1 in the middle half of the keyword, 0 more than 0.2 s away from it; frames between them are not known."""
    times = sources * FEATURES.hop + FEATURES.frame / 2
    start, end = spans[:, :1], spans[:, 1:]
    quarter = (end - start) / 4
    inside = (times > start + quarter) & (times < end - quarter) & (start >= 0)
    outside = (times < start - 0.2) | (times > end + 0.2) | (start < 0)
    return inside.float(), (inside | outside) & (sources >= 0)


def event_loss(frames: Tensor, spans: Tensor, sources: Tensor, real: Tensor) -> Tensor:
    """Cross-entropy of the events that a stream finds: one in the word, none farther than 0.3 s from it.

    The score of an event is the highest smoothed score of the frames where it may be.
    """
    curve = smooth(frames.masked_fill(~real, 0.0))
    times = sources * FEATURES.hop + FEATURES.frame / 2
    start, end = spans[:, :1], spans[:, 1:]
    found = real & (sources >= 0) & (start >= 0) & (times >= start) & (times <= end + 0.1)
    outside = real & ((start < 0) | (times < start - 0.3) | (times > end + 0.3) | (sources < 0))
    losses = []
    for where, sign in ((found, 1.0), (outside, -1.0)):
        present = where.any(1)
        highest = curve.masked_fill(~where, -1e4).amax(1)[present]
        losses.append(F.softplus(-sign * highest).sum() / len(frames))
    return losses[0] + losses[1]


def smooth(frames: Tensor) -> Tensor:
    """The mean of ``SMOOTHING`` frames up to each one, as ``smooth_scores`` computes it, except at the beginning."""
    return F.avg_pool1d(F.pad(frames[:, None], (SMOOTHING - 1, 0), mode="replicate"), SMOOTHING, 1)[:, 0]


def make_colored_noise(seconds: float = 30.0) -> Tensor:
    """Log-mel energies of white, pink and brown noise."""
    generator = torch.Generator().manual_seed(0)
    n = round(seconds * FEATURES.sample_rate)
    spectrum = torch.fft.rfft(torch.randn(n, generator=generator))
    frequencies = torch.arange(len(spectrum)).clamp(min=1)
    sounds = [torch.fft.irfft(spectrum * frequencies ** (-exponent / 2), n) for exponent in (0.0, 1.0, 2.0)]
    return LogMel(FEATURES)(torch.stack([0.1 * sound / sound.std() for sound in sounds]))[0]


# --- training ---------------------------------------------------------------------------------------------------------


class Trainer:
    """One run: network, optimizer and average of the weights."""

    def __init__(
        self, name: str, folds: Sequence[int], seed: int, sounds: Sounds, device: torch.device, epochs: int | None
    ) -> None:
        self.run, self.sounds, self.device = RUNS[name], sounds, device
        if epochs is not None:
            self.run = replace(self.run, epochs=epochs)
        self.randomness = Randomness(seed)
        self.randomness.seed_torch("weights")
        self.train_rows, self.tests = self.choose_rows(folds)
        k = 1 if self.run.data == "keyword" else int(sounds.labels.max()) + 1
        self.network = build_sound_network(self.run.encoder, FEATURES, k, self.run.pooling, self.run.dropout).to(device)
        frames = [self.sounds.batch(part) for part in self.train_rows.to(device).split(50)]
        self.network.norm.fit(torch.cat([x[torch.arange(x.shape[1], device=device) < n[:, None]] for x, n in frames]))
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), self.run.learning_rate, weight_decay=self.run.weight_decay, foreach=True
        )
        self.average = MovingAverage(self.network, self.run.average)
        self.colored = make_colored_noise().to(device)
        self.n_batches = math.ceil(len(self.train_rows) / self.run.batch_size)

    def choose_rows(self, folds: Sequence[int]) -> tuple[Tensor, dict[str, Tensor]]:
        groups = self.sounds.groups
        if self.run.data == "esc10":
            chosen = {"test": np.isin(groups, [str(fold) for fold in folds])}
            chosen["train"] = ~chosen["test"]
        else:
            chosen = {split: groups == split for split in ("train", "dev", "test")}
            chosen["train"] |= np.isin(groups, self.run.more)
        rows = {split: torch.from_numpy(np.nonzero(where)[0]) for split, where in chosen.items()}
        return rows.pop("train"), rows

    def train(self, deadline: float) -> Clock:
        """Train for all epochs, or until the deadline."""
        clock = Clock(self.run.epochs * self.n_batches, deadline, warmup=0.1)
        epoch = 0
        while clock.progress < 1:
            order = torch.from_numpy(self.randomness.numpy("order", epoch).permutation(len(self.train_rows)))
            for part in order.split(self.run.batch_size):
                if clock.progress >= 1:
                    break
                loss = self.train_batch(self.train_rows[part].to(self.device), epoch, clock)
            epoch += 1
            if epoch % 10 == 0:
                print(f"epoch {epoch} loss {loss.item():.4f} {clock.seconds:.0f} s", flush=True)
        return clock

    def train_batch(self, rows: Tensor, epoch: int, clock: Clock) -> Tensor:
        self.network.train()
        self.randomness.seed_torch("dropout", clock.step)
        for group in self.optimizer.param_groups:
            group["lr"] = clock.learning_rate(self.run.learning_rate)
        loss = self.batch_loss(rows, epoch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 5.0, foreach=True)
        self.optimizer.step()
        self.average.after_step()
        clock.step += 1
        return loss.detach()

    def batch_loss(self, rows: Tensor, epoch: int) -> Tensor:
        n = count_sound_uniforms(self.run.augmentation)
        uniforms = self.randomness.uniforms("augment", epoch, rows, n + 4)
        x, lengths = self.sounds.batch(rows)
        x, lengths, sources = augment_sounds(
            x, lengths, uniforms[:, :n], self.run.augmentation, silence=SILENCE, fill=self.network.norm.mean
        )
        extra = -x.shape[1] % LENGTH_STEP
        x, sources = F.pad(x, (0, 0, 0, extra), value=SILENCE), F.pad(sources, (0, extra), value=-1)
        labels = self.sounds.labels[rows]
        if self.run.data == "keyword":
            x = self.add_noise(x, uniforms[:, n:])
            return self.keyword_loss(x, lengths, sources, rows)
        if self.run.mixup:
            return self.mixed_loss(x, lengths, labels, uniforms[:, n])
        return F.cross_entropy(self.network(x, lengths).scores, labels, label_smoothing=self.run.label_smoothing)

    def mixed_loss(self, x: Tensor, lengths: Tensor, labels: Tensor, u: Tensor) -> Tensor:
        """Energies and losses of two sounds, weighted by u and 1 - u; sounds end in silence."""
        weight = 1 - self.run.mixup * u
        padded = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        x = x.masked_fill(padded[..., None], SILENCE)
        other = x.roll(1, 0)
        mixed = torch.logaddexp(x + weight.log()[:, None, None], other + (1 - weight + 1e-6).log()[:, None, None])
        scores = self.network(mixed, torch.maximum(lengths, lengths.roll(1))).scores
        losses = [
            F.cross_entropy(scores, target, reduction="none", label_smoothing=self.run.label_smoothing)
            for target in (labels, labels.roll(1))
        ]
        return (weight * losses[0] + (1 - weight) * losses[1]).mean()

    def add_noise(self, x: Tensor, uniforms: Tensor) -> Tensor:
        """Other training sounds without the keyword or colored noise, 5 to 30 dB below, for a part of the batch."""
        others = self.train_rows.to(self.device)
        others = others[self.sounds.labels[others] == 0]
        rows = others[(uniforms[:, 0] * len(others)).long()]
        noise, lengths = self.sounds.batch(rows)
        steps = torch.arange(x.shape[1], device=x.device)
        noise = noise[torch.arange(len(x), device=x.device)[:, None], steps % lengths[:, None]]
        if self.run.colored_noise:
            u = uniforms[:, 3] / self.run.colored_noise
            starts = (uniforms[:, 0] * self.colored.shape[1]).long()
            times = (starts[:, None] + steps) % self.colored.shape[1]
            colored = self.colored[(u * 3).long().clamp(max=2)[:, None], times]
            noise = torch.where((u < 1)[:, None, None], colored, noise)
        mixed = mix_noise(x, noise, 5 + 25 * uniforms[:, 1])
        return torch.where((uniforms[:, 2] < self.run.noise)[:, None, None], mixed, x)

    def keyword_loss(self, x: Tensor, lengths: Tensor, sources: Tensor, rows: Tensor) -> Tensor:
        output = self.network(x, lengths)
        labels, spans = self.sounds.labels[rows].float(), self.sounds.spans[rows]
        targets, known = frame_targets(spans, sources)
        real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        loss = self.run.frame_weight * frame_loss(output.frames, targets[..., None], known & real)
        if self.run.loss == "clip":
            return loss + F.binary_cross_entropy_with_logits(output.scores[:, 0], labels)
        return loss + event_loss(output.frames[..., 0], spans, sources, real)

    @torch.no_grad()
    def predict(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of sounds by the average of the weights, and the frames with the largest score of each class."""
        with using(self.network, self.average.weights()):
            self.network.eval()
            outputs = [self.network(*self.sounds.batch(part)) for part in rows.to(self.device).split(50)]
        if self.run.data != "keyword":
            return torch.cat([out.scores for out in outputs]).cpu(), torch.cat(
                [out.frames.argmax(1) for out in outputs]
            )
        curves = [smooth(out.frames[..., 0].clamp(min=-1e4)) for out in outputs]
        return (
            torch.cat([curve.amax(1) for curve in curves])[:, None].cpu(),
            torch.cat([curve.argmax(1) for curve in curves])[:, None].cpu(),
        )

    def evaluate(self) -> dict[str, Any]:
        scores = {split: self.predict(rows) for split, rows in self.tests.items()}
        labels = {split: self.sounds.labels.cpu()[rows] for split, rows in self.tests.items()}
        if self.run.data == "keyword":
            return evaluate_keyword(self, scores, labels)
        correct = {split: int((scores[split][0].argmax(1) == labels[split]).sum()) for split in scores}
        result: dict[str, Any] = {split: {"correct": n, "n": len(labels[split])} for split, n in correct.items()}
        if self.run.data == "esc10":
            rows = self.tests["test"]
            result["test"] |= {
                "labels": labels["test"].tolist(),
                "folds": self.sounds.groups[rows].astype(int).tolist(),
            }
            result["test"]["log_probs"] = (scores["test"][0].log_softmax(1) * 1000).round().int().tolist()
        return result


def evaluate_keyword(
    trainer: Trainer, scores: dict[str, tuple[Tensor, Tensor]], labels: dict[str, Tensor]
) -> dict[str, Any]:
    """Accuracy of clips at the best threshold of dev, recall by engine, and how often the maximum is in the word."""
    dev = scores["dev"][0][:, 0]
    candidates = dev.sort().values
    accuracies = [((dev >= c) == labels["dev"].bool()).float().mean().item() for c in candidates]
    threshold = candidates[int(np.argmax(accuracies))].item()
    result: dict[str, Any] = {"threshold": threshold}
    for split, rows in trainer.tests.items():
        fired = scores[split][0][:, 0] >= threshold
        positive = labels[split].bool()
        result[split] = {"correct": int((fired == positive).sum()), "n": len(rows)}
        result[split] |= {
            "recall": fired[positive].float().mean().item(),
            "fired": fired[~positive].float().mean().item(),
        }
        engines = np.array([trainer.sounds.infos[i].split("|")[0] for i in rows.tolist()])
        result[split]["recall_by_engine"] = {
            str(engine): [int(fired[mask].sum()), int(mask.sum())]
            for engine in np.unique(engines)
            if (mask := positive & torch.from_numpy(engines == engine)).any()
        }
        times = scores[split][1][:, 0] * FEATURES.hop + FEATURES.frame / 2
        spans = trainer.sounds.spans.cpu()[rows]
        inside = (times >= spans[:, 0]) & (times <= spans[:, 1])
        result[split]["maximum_in_word"] = int(inside[positive].sum())
    return result


# --- runs -------------------------------------------------------------------------------------------------------------


def train_one(arguments: argparse.Namespace) -> None:
    """Train one run in this process and write its result, and the weights of a keyword run."""
    device = prepare_device(arguments.device, fixed_shapes=False)
    name, number = arguments.runs[0].split(":")
    held_out, _, seed = number.rpartition(".")
    folds = [int(fold) for fold in held_out.split("+")] if held_out else []
    sounds = Sounds(arguments.data, RUNS[name].data, device)
    trainer = Trainer(name, folds, int(seed), sounds, device, arguments.epochs)
    clock = trainer.train(arguments.deadline)
    result: dict[str, Any] = {"run": name, "number": number, "folds": folds, "seconds": clock.seconds}
    result |= {"epochs": clock.step / trainer.n_batches, "finished": clock.step == clock.n_steps}
    result |= {"scores": trainer.evaluate(), "device": describe_device(device)}
    result["n_parameters"] = sum(p.numel() for p in trainer.network.parameters())
    result["settings"] = json.loads(json.dumps(asdict(trainer.run), default=lambda config: config.model_dump()))
    if trainer.run.data == "keyword":
        torch.save(trainer.average.weights(), arguments.one.with_suffix(".pt"))
    arguments.one.write_text(json.dumps(result), encoding="utf-8")


def show(results: Sequence[dict[str, Any]]) -> None:
    """Print a table of all results, means over seeds or folds, and what keyword runs missed."""
    print("run             seed   dev %  test % (95 % interval)     parameters  epochs  seconds")
    for r in results:
        scores = r["scores"]
        dev = f"{100 * scores['dev']['correct'] / scores['dev']['n']:.2f}" if "dev" in scores else ""
        test = wilson_interval(scores["test"]["correct"], scores["test"]["n"])
        print(
            f"{r['run']:<14} {r['number']:>5}  {dev:>6}  {100 * test.value:6.2f} "
            f"({100 * test.low:.2f} to {100 * test.high:.2f})  {r['n_parameters']:>10,}  {r['epochs']:6.1f}  "
            f"{r['seconds']:7.0f}{'' if r['finished'] else '  stopped early'}"
        )
    for name in dict.fromkeys(r["run"] for r in results):
        show_means(name, [r["scores"] for r in results if r["run"] == name and len(r["folds"]) < 2])
    show_folds([r for r in results if r["folds"] and r["finished"]])


def show_folds(results: Sequence[dict[str, Any]]) -> None:
    """Choose a variant for each fold by the other folds, average its runs, and print the accuracy of all folds."""
    correct, n = 0, 0
    for fold in range(1, 6):
        dev = {
            name: np.mean([fold_accuracy([r], other) for r, other in pairs])
            for name in dict.fromkeys(r["run"] for r in results)
            if (
                pairs := [
                    (r, o) for r in results if r["run"] == name and fold in r["folds"] for o in r["folds"] if o != fold
                ]
            )
        }
        if not dev:
            return
        best = max(dev, key=dev.__getitem__)
        runs = [r for r in results if r["run"] == best and r["folds"] == [fold]]
        if not runs:
            return
        accuracy, size = fold_accuracy(runs, fold), len(runs[0]["scores"]["test"]["labels"])
        shown = ", ".join(f"{name} {100 * value:.2f}" for name, value in dev.items())
        print(f"fold {fold}: accuracy on other folds {shown}; {best}, {len(runs)} networks: {100 * accuracy:.2f} %")
        correct, n = correct + round(accuracy * size), n + size
    print(f"ESC-10, all folds: {100 * correct / n:.2f} % of {n}, 95 % interval {wilson_interval(correct, n)}")


def fold_accuracy(runs: Sequence[dict[str, Any]], fold: int) -> float:
    """The accuracy of the mean log-probabilities of some runs on the sounds of a fold."""
    tests = [r["scores"]["test"] for r in runs]
    where = np.array(tests[0]["folds"]) == fold
    mean = np.mean([np.array(test["log_probs"]) for test in tests], axis=0)[where]
    return float((mean.argmax(1) == np.array(tests[0]["labels"])[where]).mean())


def fit_svm(path: Path) -> None:
    """Print the accuracy of an RBF SVM on each fold of ESC-10."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    from catena.tasks.baselines.features import sound_columns, summarize_frames

    arrays = unpack(path / "esc10.npz.bz2")
    frames = arrays["flat"].astype(np.float32) * STEPS["esc10"] + SILENCE
    rows = np.stack([summarize_frames(part) for part in np.split(frames, arrays["offsets"][1:-1])])
    labels, folds = arrays["labels"], arrays["groups"].astype(int)
    columns = sound_columns(FEATURES)
    inputs = {
        "statistics": rows[:, columns.statistics],
        "statistics and frames": np.hstack((rows[:, columns.statistics], rows[:, columns.frames])),
        "statistics and rhythm": np.hstack((rows[:, columns.statistics], rows[:, columns.rhythm])),
    }

    def count(name: str, c: float, left_out: Sequence[int], test: int) -> int:
        train = ~np.isin(folds, [*left_out, test])
        model = make_pipeline(StandardScaler(), SVC(C=c, gamma="scale"))
        model.fit(inputs[name][train], labels[train])
        return int((model.predict(inputs[name][folds == test]) == labels[folds == test]).sum())

    candidates = [(name, c) for name in inputs for c in (0.25, 1.0, 4.0)]
    correct = dict.fromkeys((*inputs, "chosen"), 0)
    for fold in range(1, 6):
        others = [other for other in range(1, 6) if other != fold]
        dev = {pair: sum(count(*pair, [fold], other) for other in others) for pair in candidates}
        for name in inputs:
            best = max((pair for pair in candidates if pair[0] == name), key=dev.__getitem__)
            correct[name] += count(*best, [], fold)
        best = max(candidates, key=dev.__getitem__)
        right, n = count(*best, [], fold), int((folds == fold).sum())
        correct["chosen"] += right
        print(f"fold {fold}: {best[0]}, C {best[1]:g}: {100 * right / n:.2f} %")
    for name, right in correct.items():
        print(f"{name}: {100 * right / len(labels):.2f} %, 95 % interval {wilson_interval(right, len(labels))}")


def show_means(name: str, scores: Sequence[dict[str, Any]]) -> None:
    if len(scores) > 1:
        for split in ("dev", "test"):
            values = [100 * s[split]["correct"] / s[split]["n"] for s in scores if split in s]
            if values:
                print(f"{name}: mean {split} accuracy {mean_interval(values)} of {len(values)}")
    for score in scores:
        if "recall" in score["test"]:
            test = score["test"]
            print(
                f"{name}: recall {test['recall']:.3f}, fired without the keyword {test['fired']:.3f}, maximum in the "
                f"word {test['maximum_in_word']}, recall by engine {test['recall_by_engine']}"
            )


def save(folder: Path, results: Sequence[dict[str, Any]], weights: dict[str, Any]) -> None:
    write_results(folder / "sounds.json", results)
    if weights:
        torch.save(weights, folder / "keyword.pt")


def main() -> None:
    arguments = parse_arguments(__doc__ or "", DEFAULT_RUNS)
    if arguments.pack:
        pack(arguments.data, arguments.pack, arguments.only or list(FOLDERS), arguments.more)
    elif arguments.one:
        train_one(arguments)
    elif arguments.svm:
        fit_svm(arguments.data)
    else:
        show(run_all(__file__, arguments, lambda results, weights: save(arguments.out, results, weights)))


if __name__ == "__main__":
    main()
