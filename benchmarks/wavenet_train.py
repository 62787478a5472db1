"""WaveNets on speech, music and spoken digits: bits a sample on each test set, with and without conditions.

    python benchmarks/wavenet_data.py --data DATA -o carry/wavenet.npz
    python benchmarks/wavenet_train.py carry/wavenet.npz -o OUT [--minutes 3.5] [--d 128] [--local] [--resume]
    python benchmarks/wavenet_train.py carry/wavenet.npz -o OUT --suite

One model for all kinds of sound is conditioned on the voice, "digits" or "music". In a fraction of the windows the
condition is left out, so that the model also knows recordings without one; the unseen voice is scored so. The learning
rate falls to 0 over the given time, so a run ends on time on any machine. Every half minute a checkpoint is written,
from which --resume continues. The weights with the best mean of the development sets, averaged over steps (EMA), are
scored in float32 and written to OUT/weights.pt.

--suite trains the joint model, then three smaller models of speech at the same time on the same device: without a
condition, with the speaker, and with a log-mel spectrogram (40 bands, 100 frames a second) as local condition. It takes
5.5 minutes, and prints one table.

--linear-prediction 16 32 64 128 adds adaptive linear predictors of these orders, which read each recording and each of
its copies once, in several threads. Changes of the level are then made in the copies and not in the windows, so that
the predictions are of what the network reads.

--adapt scores the unseen voice and the music also with weights that learn while they read (dynamic evaluation, Krause
et al. 2018): each recording starts from the trained weights, and after a segment is scored, one step of Adam is made on
it. So no sample is predicted by weights that have seen it, as with the adaptive linear predictor. The
learning rate is the best one of --rates on the development sets.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from wavenet_data import FLOORS, KINDS, TEST_SETS, Corpus, read_corpus

from catena.data.mulaw import decode_mulaw, encode_mulaw, silence_level
from catena.data.recordings import Recordings, WindowPlan
from catena.lm.wavenet import WaveNet
from catena.lm.wavenet_build import build_wavenet
from catena.lm.wavenet_config import WaveNetConfig
from catena.lm.wavenet_prediction import FLIPPED, PARTS, LinearPredictors
from catena.randomness import Randomness
from catena.training.average import MovingAverage, using

HOP, N_MELS = 80, 40
CHECKPOINT_SECONDS = 30.0
SEGMENT = 3000
"""Samples between two steps of weights that learn while they read."""
DEV_RECORDINGS = 4
"""Recordings of each development set on which their learning rate is chosen."""
_SMALL = "--kinds speech --minutes 1.3 --d 64 --d-skip 128 --blocks 2 --windows 8 --lr 4e-3 --dropout 0"
SUITE = {
    "joint": "--minutes 3.5",
    "plain": f"{_SMALL} --no-speakers",
    "speaker": f"{_SMALL} --drop-condition 0",
    "log-mel": f"{_SMALL} --no-speakers --local",
}
"""The options of each run; those after the first one run together."""


class Tape:
    """Recordings on a device, from which windows are gathered.

    Args:
        recordings: in memory.
        device: of all tensors.
        local: whether to compute log-mel vectors.
        like: a tape whose mean and deviation the log-mel vectors are normalized by; its own if None.
        predictors: linear predictors, which read each recording once, in several threads.
    """

    def __init__(
        self,
        recordings: Recordings,
        device: torch.device,
        local: bool,
        like: Tape | None = None,
        predictors: LinearPredictors | None = None,
    ) -> None:
        self.recordings, self.device = recordings, device
        self.levels = torch.from_numpy(np.array(recordings.levels)).to(device)
        self.edges = torch.from_numpy(recordings.edges).to(device)
        self.speakers = torch.from_numpy(recordings.speakers).to(device)
        self.frames = self.frame_edges = None
        self.predictions = None if predictors is None else self._predict(predictors)
        if local:
            frames, self.frame_edges = self._frames()
            self.mean, self.deviation = (frames.mean(0), frames.std(0)) if like is None else (like.mean, like.deviation)
            self.frames = ((frames - self.mean) / self.deviation).half()

    def windows(self, chosen: np.ndarray, starts: np.ndarray, field: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, targets and mask of windows, as by ``catena.data.recordings.cut_windows``."""
        rows, first = torch.from_numpy(chosen).to(self.device), torch.from_numpy(starts).to(self.device)
        low, high = self.edges[rows], self.edges[rows + 1]
        positions = (low + first - field)[:, None] + torch.arange(field + n, device=self.device)
        real = (positions >= low[:, None]) & (positions < high[:, None])
        levels = self.levels[positions.clamp(0, len(self.levels) - 1)].long()
        levels = torch.where(real, levels, silence_level())
        return levels[:, :-1], levels[:, field:], real[:, field:]

    def prediction_windows(
        self, chosen: np.ndarray, starts: np.ndarray, field: int, n: int, flipped: Tensor | None = None
    ) -> Tensor | None:
        """The predictions of the sample after each input; before a recording, those of its first sample."""
        if self.predictions is None:
            return None
        rows, first = torch.from_numpy(chosen).to(self.device), torch.from_numpy(starts).to(self.device)
        low, high = self.edges[rows, None], self.edges[rows + 1, None]
        positions = (low + first[:, None] - field) + torch.arange(1, field + n, device=self.device)
        found = self.predictions[torch.minimum(torch.maximum(positions, low), high - 1)]
        if flipped is None:
            return found
        return torch.where(flipped[:, None, None, None], found * found.new_tensor(FLIPPED), found)

    def _predict(self, predictors: LinearPredictors) -> Tensor:
        """The predictions of all samples; recordings of similar length are read by one thread after another."""
        began = time.perf_counter()
        recordings = self.recordings
        found = np.empty((recordings.n_samples, len(predictors.orders), PARTS), np.float32)

        def read(i: int) -> None:
            found[recordings.edges[i] : recordings.edges[i + 1]] = predictors.predict(recordings[i])

        order = np.argsort(-recordings.lengths, kind="stable").tolist()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(read, order))
        size, seconds = found.nbytes / 2**20, time.perf_counter() - began
        print(f"predictions of {recordings.n_samples:,} samples in {seconds:.1f} s, {size:,.0f} MiB")
        return torch.from_numpy(found).to(self.device)

    def frame_windows(self, chosen: np.ndarray, starts: np.ndarray, before: int, n: int) -> Tensor | None:
        """The frames of windows whose first targets are multiples of the hop; zeros before a recording."""
        if self.frames is None or self.frame_edges is None:
            return None
        rows, first = torch.from_numpy(chosen).to(self.device), torch.from_numpy(starts // HOP).to(self.device)
        low, high = self.frame_edges[rows, None], self.frame_edges[rows + 1, None]
        positions = low + first[:, None] - before + torch.arange(before + -(-n // HOP) + 1, device=self.device)
        frames = self.frames[torch.minimum(positions.clamp(min=0), high - 1)].float()
        return frames.masked_fill((positions < low)[..., None], 0.0)

    def _frames(self) -> tuple[Tensor, Tensor]:
        """Log-mel vectors of all recordings, and the index of the first one of each."""
        table = torch.from_numpy(decode_mulaw(np.arange(256))).to(self.device)
        found = [log_mel(table[self.levels[a:b].long()]) for a, b in zip(self.edges[:-1], self.edges[1:], strict=True)]
        return torch.cat(found), torch.tensor([0, *np.cumsum([len(x) for x in found])], device=self.device)


def log_mel(samples: Tensor) -> Tensor:
    """Log-mel vectors of frames of 25 ms, one for each 80 samples, which are in the middle of the frame."""
    n, wide = len(samples), 200
    padded = torch.nn.functional.pad(samples, ((wide - HOP) // 2, wide + HOP))
    frames = padded.unfold(0, wide, HOP)[: -(-n // HOP)] * torch.hann_window(wide, device=samples.device)
    power = torch.fft.rfft(frames, 256).abs().square()
    mel = torch.linspace(2595 * math.log10(1 + 60 / 700), 2595 * math.log10(1 + 3800 / 700), N_MELS + 2)
    hertz = (700 * (10 ** (mel / 2595) - 1)).to(samples.device)
    bins = torch.arange(129, device=samples.device)[:, None] * (8000 / 256)
    rising = (bins - hertz[:-2]) / (hertz[1:-1] - hertz[:-2])
    falling = (hertz[2:] - bins) / (hertz[2:] - hertz[1:-1])
    return (power @ torch.minimum(rising, falling).clamp(min=0)).clamp(min=1e-6).log()


class Run:
    """One training run; everything that a checkpoint restores is in :meth:`state` and :meth:`restore`."""

    def __init__(self, flags: argparse.Namespace, corpus: Corpus) -> None:
        self.flags, self.corpus, self.device = flags, corpus, torch.device(flags.device)
        indices = np.concatenate([corpus.indices(kind, "train") for kind in flags.kinds])
        self.predictors = LinearPredictors(flags.linear_prediction) if flags.linear_prediction else None
        chosen = corpus.select(indices)
        gain = flags.gain if self.predictors else 0.0
        self.data = Tape(
            with_copies(chosen, flags.speeds, gain, flags.seed), self.device, flags.local, predictors=self.predictors
        )
        self.config = WaveNetConfig(
            d=flags.d, d_skip=flags.d_skip, n_layers=flags.layers, n_blocks=flags.blocks, dropout=flags.dropout,
            linear_prediction=tuple(flags.linear_prediction),
        )  # fmt: skip
        torch.manual_seed(flags.seed)
        counts = np.bincount(self.data.recordings.levels, minlength=256)
        self.model = build_wavenet(
            self.config, counts, n_speakers=len(corpus.conditions) if flags.speakers else 0,
            d_local=N_MELS if flags.local else 0,
        ).to(self.device)  # fmt: skip
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=flags.lr, weight_decay=flags.decay, betas=(0.9, 0.98),
            fused=self.device.type == "cuda",
        )  # fmt: skip
        self.average = MovingAverage(self.model, flags.ema)
        self.step, self.elapsed, self.best, self.best_weights = 0, 0.0, math.inf, None
        self.begun = time.time()
        self.tapes: dict[tuple[str, str], Tape] = {}

    def plan(self, epoch: int) -> WindowPlan:
        """The windows of an epoch."""
        flags = self.flags
        return WindowPlan(
            self.data.recordings, field=self.model.field, n_targets=flags.targets, batch_size=flags.windows,
            hop=HOP if flags.local else 1, seed=flags.seed, epoch=epoch,
        )  # fmt: skip

    def loss(self, plan: WindowPlan, i: int) -> Tensor:
        """The mean loss of batch ``i``; its random choices depend only on the seed and the step."""
        flags = self.flags
        rows = slice(i * flags.windows, (i + 1) * flags.windows)
        chosen, starts = plan.chosen[rows], plan.starts[rows]
        inputs, targets, mask = self.data.windows(chosen, starts, self.model.field, flags.targets)
        generator = Randomness(flags.seed).numpy("windows of a step", self.step)
        dropped, flipped = generator.random((2, len(chosen))) < [[flags.drop_condition], [flags.flip]]
        speakers = self.data.speakers[torch.from_numpy(chosen).to(self.device)]
        speakers = speakers.masked_fill(torch.from_numpy(dropped).to(self.device), -1)
        frames = self.data.frame_windows(chosen, starts, self.model.n_context_frames, flags.targets)
        if flags.gain and self.predictors is None:
            factors = torch.from_numpy(10 ** (generator.uniform(-flags.gain, flags.gain, len(chosen)) / 20))
            inputs, targets = (amplify(x, factors.to(self.device)) for x in (inputs, targets))
        over = torch.from_numpy(flipped).to(self.device)[:, None]  # a sound of opposite sign is as good
        inputs, targets = (torch.where(over, 255 - x, x) for x in (inputs, targets))
        predictions = self.data.prediction_windows(chosen, starts, self.model.field, flags.targets, over[:, 0])
        with self.precision():
            return window_loss(self.model, inputs, targets, mask, speakers, frames, predictions)

    def precision(self) -> Any:
        """bf16 on a GPU."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    @property
    def fraction(self) -> float:
        """The part of the training that is done; with ``--until``, at least the part of the time that is over."""
        flags = self.flags
        done = self.step / flags.steps if flags.steps else self.elapsed / (60 * flags.minutes)
        over = (time.time() - self.begun) / max(flags.until - self.begun, 1.0) if flags.until else 0.0
        return max(done, over)

    def learning_rate(self) -> float:
        """Linear warm-up over the first 200 steps, and a cosine over the whole training."""
        warm = min(1.0, (self.step + 1) / 200)
        return self.flags.lr * warm * 0.5 * (1 + math.cos(math.pi * min(self.fraction, 1.0)))

    def train(self, folder: Path) -> None:
        """Train until the time is over, or all steps are done; evaluate, and write checkpoints."""
        saved, shown = self.elapsed, self.fraction
        length = len(self.plan(1))
        plan = None
        began = time.perf_counter() - self.elapsed
        while self.fraction < 1:
            epoch, i = divmod(self.step, length)
            plan = self.plan(epoch + 1) if plan is None or i == 0 else plan
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate()
            loss = self.loss(plan, i)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.average.after_step()
            self.step += 1
            if self.step % 10 == 0 and self.device.type == "cuda":
                torch.cuda.synchronize()
            self.elapsed = time.perf_counter() - began
            if self.fraction - shown >= 1 / self.flags.evaluations:
                shown = self.fraction
                self.evaluate(loss.item() / math.log(2))
                began += time.perf_counter() - began - self.elapsed  # evaluations do not count
            if self.elapsed - saved >= CHECKPOINT_SECONDS:
                saved = self.elapsed
                save(folder / "checkpoint.pt", self.state())
        self.evaluate(math.nan)
        save(folder / "checkpoint.pt", self.state())

    def evaluate(self, train_bits: float) -> None:
        """Score the development sets with the averaged weights, and keep the best ones."""
        scores = {kind: self.score(kind, "dev") for kind in self.flags.kinds}
        mean = sum(scores.values()) / len(scores)
        if mean < self.best:
            self.best = mean
            self.best_weights = {name: x.clone() for name, x in self.average.average.items()}
        speed = self.step * self.flags.windows * self.flags.targets / max(self.elapsed, 1e-9)
        shown = ", ".join(f"{kind} {bits:.4f}" for kind, bits in scores.items())
        print(f"{self.elapsed:6.0f} s  step {self.step:6}  {speed:,.0f} samples/s  train {train_bits:.3f}  dev {shown}")

    def score(self, kind: str, split: str, known: bool = True, exact: bool = False) -> float:
        """Bits a sample of a set with the averaged weights; without the condition if it is not ``known``."""
        return float(self.bits(kind, split, known, exact).mean())

    def bits(self, kind: str, split: str, known: bool, exact: bool) -> np.ndarray:
        """Bits of each sample of a set."""
        if (kind, split) not in self.tapes:
            chosen = self.corpus.select(self.corpus.indices(kind, split))
            self.tapes[kind, split] = Tape(chosen, self.device, self.flags.local, self.data, self.predictors)
        weights = self.best_weights if exact and self.best_weights is not None else self.average.weights()
        with using(self.model, weights), torch.no_grad():
            self.model.eval()
            with self.precision() if not exact else torch.autocast(self.device.type, enabled=False):
                bits = sample_bits(self.model, self.tapes[kind, split], known)
            self.model.train()
        return bits

    def adapted_bits(self, kind: str, split: str, rate: float, n: int | None = None) -> np.ndarray:
        """Bits of each sample of the first ``n`` recordings of a set, by weights that learn while they read."""
        chosen = self.corpus.select(self.corpus.indices(kind, split)[:n])
        tape = Tape(chosen, self.device, self.flags.local, self.data, self.predictors)
        weights = self.best_weights or self.average.average
        found = []
        with using(self.model, weights):
            for i in range(len(chosen.lengths)):
                found.append(recording_bits(copy.deepcopy(self.model).eval(), tape, i, rate))
        return np.concatenate(found)

    def state(self) -> dict[str, Any]:
        """All values that a resumed run needs."""
        return {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
            "average": self.average.tensors(), "step": self.step, "elapsed": self.elapsed, "best": self.best,
            "best_weights": self.best_weights, "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state_all() if self.device.type == "cuda" else [],
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the values of :meth:`state`."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average.load(state["average"])
        self.step, self.elapsed, self.best = state["step"], state["elapsed"], state["best"]
        self.best_weights = state["best_weights"]
        torch.set_rng_state(state["random"].cpu())
        torch.cuda.set_rng_state_all([x.cpu() for x in state["random_cuda"]])


def amplify(levels: Tensor, factors: Tensor) -> Tensor:
    """Levels of the samples times a factor for each row."""
    table = torch.from_numpy(decode_mulaw(np.arange(256))).to(levels.device)
    samples = (table[levels] * factors[:, None].to(table.dtype)).clamp(-1, 1)
    bent = samples.sign() * (1 + 255 * samples.abs()).log() / math.log(256)
    return ((bent + 1) / 2 * 255 + 0.5).floor().long()


def with_copies(recordings: Recordings, speeds: Sequence[float], gain: float, seed: int) -> Recordings:
    """The recordings, and copies that are faster by these factors and up to ``gain`` dB louder or softer."""
    levels = [recordings[i] for i in range(len(recordings.lengths))]
    speakers = recordings.speakers.tolist()
    generator = np.random.default_rng(seed)
    for speed in speeds:
        for i in range(len(recordings.lengths)):
            samples = decode_mulaw(recordings[i])
            kept = int(len(samples) / speed)
            spectrum = np.fft.rfft(samples)[: kept // 2 + 1]
            factor = 10 ** (generator.uniform(-gain, gain) / 20) / speed
            levels.append(encode_mulaw((np.fft.irfft(spectrum, kept) * factor).clip(-1, 1).astype(np.float32)))
            speakers.append(-1)
    return Recordings.from_levels(levels, speakers)


def window_loss(
    model: WaveNet,
    inputs: Tensor,
    targets: Tensor,
    mask: Tensor,
    speakers: Tensor,
    frames: Tensor | None,
    predictions: Tensor | None,
) -> Tensor:
    """The mean of -log p over the real targets, without waiting for the device."""
    hidden = model.hidden(inputs, model.condition(speakers, frames, predictions))
    log_probs = model.output.log_prob(hidden.flatten(0, 1), targets.flatten())
    return -(log_probs * mask.flatten()).sum() / mask.sum()


def sample_bits(model: WaveNet, tape: Tape, known: bool, n: int = 16_000, batch: int = 16) -> np.ndarray:
    """Bits of each sample of all recordings, one after the other."""
    pairs = [(i, start) for i, length in enumerate(tape.recordings.lengths) for start in range(0, length, n)]
    found = []
    for first in range(0, len(pairs), batch):
        chosen, starts = (np.array(x) for x in zip(*pairs[first : first + batch], strict=True))
        longest = int(min(n, max(tape.recordings.lengths[chosen] - starts)))
        inputs, targets, mask = tape.windows(chosen, starts, model.field, longest)
        speakers = tape.speakers[torch.from_numpy(chosen).to(tape.device)]
        frames = tape.frame_windows(chosen, starts, model.n_context_frames, longest)
        predictions = tape.prediction_windows(chosen, starts, model.field, longest)
        condition = model.condition(speakers if known else torch.full_like(speakers, -1), frames, predictions)
        log_probs = model.output.log_prob(model.hidden(inputs, condition).flatten(0, 1), targets.flatten())
        found.append(log_probs.double()[mask.flatten()].cpu())
    return -torch.cat(found).numpy() / math.log(2)


def recording_bits(model: WaveNet, tape: Tape, i: int, rate: float) -> np.ndarray:
    """Bits of the samples of recording ``i`` without a condition; a step is made after each segment."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), foreach=True)
    found, length = [], int(tape.recordings.lengths[i])
    row, unknown = np.array([i]), torch.full((1,), -1, device=tape.device)
    for start in range(0, length, SEGMENT):
        n = min(SEGMENT, length - start)
        inputs, targets, _ = tape.windows(row, np.array([start]), model.field, n)
        frames = tape.frame_windows(row, np.array([start]), model.n_context_frames, n)
        predictions = tape.prediction_windows(row, np.array([start]), model.field, n)
        hidden = model.hidden(inputs, model.condition(unknown, frames, predictions))
        log_probs = model.output.log_prob(hidden.flatten(0, 1), targets.flatten())
        found.append(log_probs.detach().double().cpu())
        optimizer.zero_grad(set_to_none=True)
        (-log_probs.mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return -torch.cat(found).numpy() / math.log(2)


def score_adapted(run: Run, rates: Sequence[float]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Bits of the unseen voice and the music with the rate that is best on dev, and the bits of dev by rate."""
    found, figures = {}, {}
    for name, kind, split in (("unseen voice", "speech", "unseen"), ("music", "music", "test")):
        if kind in run.flags.kinds:
            dev = {rate: float(run.adapted_bits(kind, "dev", rate, DEV_RECORDINGS).mean()) for rate in (0.0, *rates)}
            best = min(dev, key=dev.__getitem__)
            found[f"{name}, adapted"] = run.adapted_bits(kind, split, best)
            figures[name] = {"rate": best, "dev": dev, "bits": float(found[f"{name}, adapted"].mean())}
            print(name, figures[name])
    return found, figures


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a file under another name first, so that it is never incomplete."""
    unfinished = path.with_suffix(".unfinished")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def run_one(flags: argparse.Namespace) -> None:
    """Train one model, score it, and write its weights and figures."""
    torch.backends.cuda.matmul.allow_tf32 = False
    sys.stdout.reconfigure(line_buffering=True)
    flags.output.mkdir(parents=True, exist_ok=True)
    run = Run(flags, read_corpus(flags.corpus))
    size = sum(p.numel() for p in run.model.parameters())
    print(f"{size:,} parameters, field {run.model.field}, {run.data.recordings.n_samples:,} samples, {run.device}")
    checkpoint = flags.output / "checkpoint.pt"
    if flags.resume and checkpoint.exists():
        run.restore(torch.load(checkpoint, map_location=run.device, weights_only=False))
        print(f"resumed at step {run.step}")
    run.train(flags.output)
    bits = {}
    sets = {**TEST_SETS, **{f"dev {kind}": (kind, "dev") for kind in flags.kinds}}
    for name, (kind, split) in sets.items():
        if kind in flags.kinds and len(run.corpus.indices(kind, split)):
            bits[name] = run.bits(kind, split, known=True, exact=True)
            if flags.speakers and split != "unseen":
                bits[f"{name}, no condition"] = run.bits(kind, split, known=False, exact=True)
    scores = {name: float(each.mean()) for name, each in bits.items()}
    weights = {name: x.cpu() for name, x in (run.best_weights or run.average.average).items()}
    sizes = {"config": run.config.model_dump(), "n_speakers": run.model.n_speakers}
    save(flags.output / "weights.pt", {**sizes, "weights": weights})
    figures = {"bits": scores, "dev": run.best, "steps": run.step, "seconds": run.elapsed, "parameters": size}
    (flags.output / "figures.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    save_bits(flags.output, bits)
    if flags.adapt:
        more, figures["adapted"] = score_adapted(run, flags.rates)
        save_bits(flags.output, {**bits, **more})
        (flags.output / "figures.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    show({flags.output.name: figures})


def save_bits(folder: Path, bits: dict[str, np.ndarray]) -> None:
    """Write the bits of each sample of the unseen voice and the music."""
    kept = {name: each.astype(np.float16) for name, each in bits.items() if name.startswith(("unseen", "music"))}
    np.savez_compressed(folder / "bits.npz", **kept)


def show(runs: dict[str, dict[str, Any]]) -> None:
    """Print the bits of runs, and the distance to the adaptive linear predictor."""
    for run, figures in runs.items():
        print(f"{run}: {figures['parameters']:,} parameters, {figures['steps']:,} steps in {figures['seconds']:.0f} s")
        for name, bits in figures["bits"].items():
            floor = FLOORS.get(name.split(",")[0], math.nan)
            print(f"  {name:28} {bits:.4f} bits a sample, {bits - floor:+.4f} from the linear predictor ({floor})")


def run_suite(flags: argparse.Namespace) -> None:
    """The joint model, then the smaller ones together."""
    (first, options), *others = SUITE.items()
    base = [sys.executable, __file__, str(flags.corpus), "--device", flags.device]
    base += ["--resume"] if flags.resume else []
    subprocess.run([*base, "-o", str(flags.output / first), *options.split()], check=True)
    running = [subprocess.Popen([*base, "-o", str(flags.output / name), *words.split()]) for name, words in others]
    failed = [process.returncode for process in running if process.wait()]
    folders = {name: flags.output / name / "figures.json" for name in SUITE}
    print("\n--- all runs ---")
    show({name: json.loads(path.read_text(encoding="utf-8")) for name, path in folders.items() if path.exists()})
    if failed:
        raise SystemExit(f"{len(failed)} runs failed.")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/wavenet"))
    parser.add_argument("--suite", action="store_true", help="train all models of the table")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in the output folder")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=3.5, help="time for training, without evaluations")
    parser.add_argument("--steps", type=int, help="number of steps, instead of a time")
    parser.add_argument("--until", type=float, help="end training by this time, in seconds since the epoch")
    parser.add_argument("--evaluations", type=int, default=10)
    parser.add_argument("--adapt", action="store_true", help="score with weights that learn while they read, too")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 3e-4, 1e-3], help="with --adapt")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--d-skip", type=int, default=256)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--speakers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--local", action="store_true", help="condition on a log-mel spectrogram")
    parser.add_argument("--linear-prediction", type=int, nargs="*", default=[], help="orders of linear predictors")
    parser.add_argument("--targets", type=int, default=8000, help="samples to predict in a window")
    parser.add_argument("--windows", type=int, default=16, help="windows of a batch")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--ema", type=float, default=0.999)
    parser.add_argument("--drop-condition", type=float, default=0.2)
    parser.add_argument(
        "--gain",
        type=float,
        default=0.0,
        help="largest random change of the level in dB; with --linear-prediction, of the copies of --speeds",
    )
    parser.add_argument("--speeds", type=float, nargs="*", default=[], help="factors of faster copies of the data")
    parser.add_argument("--flip", type=float, default=0.5, help="fraction of windows whose sign is changed")
    return parser.parse_args()


if __name__ == "__main__":
    flags = parse()
    run_suite(flags) if flags.suite else run_one(flags)
