"""Train models of captions on flickr8k_small, several in parallel within a time limit.

    python benchmarks/train_captions.py $CATENA_DATA/flickr8k_small --pack packed
    python benchmarks/train_captions.py packed -o OUT --minutes 60 --parallel 1

``--pack`` writes the captions, the pictures, and the VGG16 features of the archive in the layout that ``catena train
caption --features`` reads. The second command trains the recipes flickr8k-soft, flickr8k-hard and flickr8k-pixels
(which starts from flickr8k-words), and flickr8k-soft with blind = true, with seeds 1, 2 and 3. It writes
OUT/captions.json: BLEU on the test pictures, described by a beam of 5 with the checkpoint that has the best BLEU-4 on
dev; and again with the length penalty, out of PENALTIES, that has the best BLEU-4 on dev. OUT/captions-test.tsv has the
captions themselves. Each run is also scored as an ensemble with the same run of the seeds that have ended before.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from train_runs import describe_device, parse_arguments, prepare_device, run_all, write_results

from catena.config import parse, read_toml
from catena.data.reading import ReadCounter
from catena.recipes.catalog import recipe_path
from catena.tasks.caption.config import CaptionConfig, CaptionOptions
from catena.tasks.caption.data import CaptionExample
from catena.tasks.caption.predict import CaptionEvaluation
from catena.tasks.caption.task import CaptionTask
from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter

JOINT: dict[str, dict[str, Any]] = {
    "model": {
        "augmentation": {"padding": 6, "zoom": 0.2, "flip": 0.5, "erase": 16, "brightness": 0.2, "contrast": 0.2}
    },
    "training": {"max_epochs": 60, "eval_every": 282, "weight_decay": 0.05, "slow_factor": 1.0},
}
"""Captions and words are learned together from the start."""
RUNS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "soft": ("flickr8k-soft", {}),
    "hard": ("flickr8k-hard", {}),
    "blind": ("flickr8k-soft", {"model": {"blind": True}}),
    "pixels": ("flickr8k-pixels", {}),
    "hard-mean": ("flickr8k-hard", {"model": {"baseline": "mean"}}),
    "pixels-joint": ("flickr8k-pixels", JOINT),
    "pixels-captions": ("flickr8k-pixels", {**JOINT, "model": {**JOINT["model"], "word_weight": 0.0}}),
}
"""The recipe of each run, and what differs in its sections."""
WORDS = {"pixels": (0.42, "flickr8k-words")}
"""Runs whose encoder first learns the words of captions: the fraction of the time for it, and its recipe."""
DEFAULT_RUNS = [f"{name}:{seed}" for seed in (1, 2, 3) for name in ("soft", "hard", "blind", "pixels")]
PENALTIES = (0.4, 0.7, 1.0, 1.3, 1.6)
EVALUATION_SECONDS = 60.0
"""Part of the time limit that is not used for training."""


def pack(archive: Path, target: Path) -> None:
    """Write the features by picture, (8000, 49, 64) in 8 bits with the names of the pictures, and copy the rest."""
    from safetensors.numpy import load_file, save_file

    target.mkdir(parents=True, exist_ok=True)
    stored = load_file(archive / "vgg16_conv5_3_pca64.safetensors")
    lines = (archive / "captions.tsv").read_text(encoding="utf-8").splitlines()[1:]
    names = list(dict.fromkeys(line.split("\t", 1)[0] for line in lines))
    features = np.ascontiguousarray(stored["features_q"].transpose(1, 2, 0))  # component picture position -> n s d
    data = {"features": features, "scale": stored["step"]}
    save_file(data, target / "features.safetensors", metadata={"names": json.dumps(names)})
    shutil.copy(archive / "captions.tsv", target)
    shutil.copytree(archive / "images", target / "images", dirs_exist_ok=True)
    print(f"{target}: features {features.shape}, {len(names)} names")


def build_config(
    arguments: argparse.Namespace, name: str, seed: int, first: tuple[float, str] | None = None
) -> CaptionConfig:
    """The config of a run, or of its first phase, with a time limit."""
    recipe, changes = RUNS[name]
    part = 1.0
    if first is not None:
        part, recipe = first
    values, _ = read_toml(recipe_path(recipe))
    data: dict[str, Any] = {
        "train": [str(arguments.data / "captions.tsv")],
        "images": str(arguments.data / "images"),
    }
    if recipe in ("flickr8k-soft", "flickr8k-hard"):
        data["features"] = str(arguments.data / "features.safetensors")
    left = max(arguments.deadline - EVALUATION_SECONDS - time.time(), 1.0)
    values |= {"seed": seed, "data": {**values.get("data", {}), **data}}
    values["machine"] = {"device": arguments.device, "threads": 1}
    for section, change in changes.items():
        values[section] = {**values.get(section, {}), **change}
    values["training"]["max_time"] = f"{part * left:.1f}s"
    if arguments.epochs is not None:
        values["training"]["max_epochs"] = arguments.epochs
    return parse(CaptionConfig, values, source=recipe)


def train_one(arguments: argparse.Namespace) -> None:
    """Train one run in this process; write its scores, its evaluations during training and its captions."""
    device = prepare_device(arguments.device, fixed_shapes=False)
    name, seed = arguments.runs[0].split(":")
    folder = arguments.one.with_suffix("")
    start = time.perf_counter()
    words = folder.with_name(f"{folder.name}-words") if name in WORDS else None
    if words is not None:
        train_run(build_config(arguments, name, int(seed), WORDS[name]), words, SilentReporter(), overwrite=True)
    config = build_config(arguments, name, int(seed))
    outcome = train_run(config, folder, SilentReporter(), init_from=words, overwrite=True)
    lines = [
        line
        for run in (words, folder)
        if run is not None
        for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    result: dict[str, Any] = {
        "run": name,
        "seed": int(seed),
        "seconds": round(time.perf_counter() - start),
        "test": outcome.test_scores,
        "device": describe_device(device),
        "history": [json.loads(line) for line in lines],
    }
    arguments.one.write_text(json.dumps(result), encoding="utf-8")  # kept if there is no time for the rest
    task: Any = load_task(folder, str(device))
    parts = {part: read_part(task, part) for part in ("dev", "test")}
    dev = {penalty: describe(task, parts["dev"], penalty).scores()["bleu_4"] for penalty in PENALTIES}
    best = max(dev, key=dev.__getitem__)
    chosen = describe(task, parts["test"], best)
    result |= {"dev_bleu_4_by_penalty": dev, "penalty": best, "test_with_penalty": chosen.scores()}
    result["captions"] = {e.path.name: text for e, text in zip(parts["test"], chosen.captions, strict=True)}
    arguments.one.write_text(json.dumps(result), encoding="utf-8")
    others = trained_before(arguments.one)
    if others:
        models = [load_task(path.with_suffix(""), str(device)) for path in others]
        both = describe(task.ensemble(models), parts["test"], task.config.search.length_penalty)
        seeds = sorted([int(seed), *(int(path.stem.split(":")[1]) for path in others)])
        result["ensemble"] = {"seeds": seeds, "test": both.scores()}
        arguments.one.write_text(json.dumps(result), encoding="utf-8")


def trained_before(own: Path) -> list[Path]:
    """The results of the same run with other seeds that exist already; their models are next to them."""
    name = own.stem.split(":")[0]
    return sorted(path for path in own.parent.glob(f"{name}:*.json") if path != own)


def read_part(task: CaptionTask, part: str) -> list[CaptionExample]:
    """The pictures of a split."""
    config = task.config.model_copy(update={"data": task.config.data.model_copy(update={"part": part})})
    return list(task.read(config, Path(config.data.train[0]), ReadCounter()))


def describe(task: CaptionTask, examples: Sequence[CaptionExample], penalty: float) -> CaptionEvaluation:
    """Evaluate captions of a beam search with a length penalty."""
    search = task.config.search.model_copy(update={"length_penalty": penalty})
    with torch.no_grad():
        best = [listed[0] for listed in task.searcher.describe(examples, search, CaptionOptions())]
    truncated = np.array([one.truncated for one in best])
    references, captions = [e.captions for e in examples], [one.caption for one in best]
    return CaptionEvaluation(task.config.evaluation.cut, references, captions, [], [], truncated)


def save(folder: Path, results: Sequence[dict[str, Any]]) -> None:
    lines = [
        f"{r['run']}:{r['seed']}\t{file}\t{text}\n" for r in results for file, text in r.get("captions", {}).items()
    ]
    write_results(folder / "captions.json", [{k: v for k, v in r.items() if k != "captions"} for r in results])
    (folder / "captions-test.tsv").write_text("".join(lines), encoding="utf-8")


def show(results: Sequence[dict[str, Any]]) -> None:
    """Print BLEU of each run, and means over seeds."""
    for key in ("test", "test_with_penalty"):
        for name in dict.fromkeys(r["run"] for r in results):
            own = [r for r in results if r["run"] == name and key in r]
            for r in own:
                scores = " ".join(f"{r[key][f'bleu_{n}']:.2f}" for n in range(1, 5))
                print(f"{key} {name} seed {r['seed']}: BLEU-1 to 4 {scores}, {r['seconds']} s")
            if own:
                print(f"{key} {name} mean BLEU-4: {np.mean([r[key]['bleu_4'] for r in own]):.2f} of {len(own)}")
    for r in results:
        if "ensemble" in r:
            both = r["ensemble"]
            print(f"test {r['run']} ensemble of seeds {both['seeds']}: BLEU-4 {both['test']['bleu_4']:.2f}")


def main() -> None:
    arguments = parse_arguments(__doc__ or "", DEFAULT_RUNS)
    if arguments.pack:
        pack(arguments.data, arguments.pack)
    elif arguments.one:
        train_one(arguments)
    else:
        show(run_all(__file__, arguments, lambda results, _: save(arguments.out, results)))


if __name__ == "__main__":
    main()
