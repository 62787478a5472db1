"""Features and trainings of captions on flickr8k_small.

    python benchmarks/train_captions.py $CATENA_DATA/flickr8k_small --pack features.safetensors
    python benchmarks/train_captions.py $CATENA_DATA/flickr8k_small --features features.safetensors -o OUT \
        --runs soft,hard,blind,pixels --seeds 1,2,3

``--pack`` writes the VGG16 features of the archive in the layout that ``catena train caption --features`` reads. The
second command trains each recipe with each seed, one after another, and writes the test scores to OUT/captions.json.
The test pictures are described once, by a beam of 5, with the checkpoint that has the best BLEU-4 on dev.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from catena.config import parse, read_toml
from catena.recipes.catalog import recipe_path
from catena.tasks.caption.config import CaptionConfig
from catena.tasks.runs import train_run
from catena.training.report import SilentReporter

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "soft": ("flickr8k-soft", {}),
    "hard": ("flickr8k-hard", {}),
    "blind": ("flickr8k-soft", {"blind": True}),
    "pixels": ("flickr8k-pixels", {}),
}
"""The recipe of each run, and what differs in its model."""


def pack(archive: Path, output: Path) -> None:
    """Write the features of the archive by picture: (8000, 49, 64) in 8 bits, with the names of the pictures."""
    from safetensors.numpy import load_file, save_file

    stored = load_file(archive / "vgg16_conv5_3_pca64.safetensors")
    lines = (archive / "captions.tsv").read_text(encoding="utf-8").splitlines()[1:]
    names = list(dict.fromkeys(line.split("\t", 1)[0] for line in lines))
    features = np.ascontiguousarray(stored["features_q"].transpose(1, 2, 0))  # component picture position -> n s d
    save_file({"features": features, "scale": stored["step"]}, output, metadata={"names": json.dumps(names)})
    print(f"{output}: {features.shape}, {len(names)} names")


def train(archive: Path, features: Path, output: Path, name: str, seed: int, limits: dict[str, Any]) -> dict[str, Any]:
    """Train one recipe with one seed; its test scores and time."""
    recipe, changes = RUNS[name]
    values, _ = read_toml(recipe_path(recipe))
    data: dict[str, Any] = {"train": [str(archive / "captions.tsv")], "images": str(archive / "images")}
    if name != "pixels":
        data["features"] = str(features)
    values |= {"seed": seed, "data": {**values.get("data", {}), **data}}
    values["model"] = {**values.get("model", {}), **changes}
    values["training"] = {**values.get("training", {}), **limits}
    start = time.perf_counter()
    config = parse(CaptionConfig, values, source=recipe)
    result = train_run(config, output / f"{name}-{seed}", SilentReporter(), overwrite=True)
    return {"run": name, "seed": seed, "seconds": round(time.perf_counter() - start), **result.test_scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--features", type=Path, default=Path("features.safetensors"))
    parser.add_argument("-o", "--output", type=Path, default=Path("captions"))
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--max-time", help="limit of each run, such as 8m")
    options = parser.parse_args()
    if options.pack:
        pack(options.archive, options.pack)
        return
    limits = {"max_time": options.max_time} if options.max_time else {}
    rows = []
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.runs.split(","):
        for seed in map(int, options.seeds.split(",")):
            rows.append(train(options.archive, options.features, options.output, name, seed, limits))
            print(json.dumps(rows[-1]))
            (options.output / "captions.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
