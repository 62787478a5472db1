"""Keyword spotting in streams: misses and false alarms of the keyword runs of train_sounds.py.

    python make_negatives.py NEGATIVES --hours 5
    python benchmarks/make_keyword_clips.py TOOLS CARRIERS --carriers --clips 300 --seed 8
    python benchmarks/spot_stream.py $CATENA_DATA NEGATIVES --carriers CARRIERS --weights OUT/keyword.pt -o OUT

    python make_negatives.py DEV --split dev --hours 2 --seed 23
    python benchmarks/spot_stream.py $CATENA_DATA DEV --split dev --weights OUT/keyword.pt -o OUT/dev

Each recording is scored as a stream, as by ``catena spot``: moving average of 0.05 s, dead time of 0.7 s. NEGATIVES has
hours of speech without the keyword by voices that are in no split of welcome_tts. The threshold is the lowest one with
at most one false alarm an hour in the first half of its files; false alarms are counted in the second half and in the
recordings of speech_music_8k, which were not used to choose it. Misses are of the 150 test clips with the keyword: no
detection from 0.3 s before the word to 0.3 s after it. They are also counted at the threshold that has one alarm an
hour in all of these hours, without the error of the choice. The clips without the keyword are listed apart, since a
quarter of them are near misses; their alarms are not of normal speech. The sentences of CARRIERS have another word
where those of the test have the keyword. OUT/stream.json has the figures by run and by engine. Variants are chosen with
``--split dev``, which reads the dev clips and hours by the voices of dev.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from train_sounds import FEATURES, RUNS, read_table

from catena.encoders.log_mel import LogMel
from catena.encoders.sound import SoundNetwork, build_sound_network
from catena.encoders.sound_stream import score_recording
from catena.metrics.detection import choose_threshold, find_detections, score_detections, smooth_scores

SMOOTHING, DEAD_TIME, TOLERANCE = 5, 70, 30
"""Frames of 10 ms."""
RATE = 1.0
"""Allowed false alarms in an hour."""


class Curve(NamedTuple):
    """The smoothed scores of a recording, and its length in seconds."""

    scores: np.ndarray
    seconds: float


def score(paths: Iterable[Path], network: SoundNetwork) -> list[Curve]:
    frames = LogMel(FEATURES)
    curves = (score_recording(path, frames, network) for path in paths)
    return [Curve(smooth_scores(curve.scores[:, 0], SMOOTHING), curve.seconds) for curve in curves]


def count_hours(curves: Sequence[Curve]) -> float:
    return sum(curve.seconds for curve in curves) / 3600


def list_hits(curves: Sequence[Curve], spans: Sequence[tuple[int, int]], threshold: float) -> list[bool]:
    """Whether the keyword of each clip, from one frame to another, is detected."""
    found = [find_detections(curve.scores, threshold, DEAD_TIME) for curve in curves]
    return [
        any(a - TOLERANCE <= one.frame < b + TOLERANCE for one in each)
        for each, (a, b) in zip(found, spans, strict=True)
    ]


def load_network(run: str, weights: dict[str, torch.Tensor]) -> SoundNetwork:
    setting = RUNS[run.split(":")[0]]
    network = build_sound_network(setting.encoder, FEATURES, 1, setting.pooling, setting.dropout)
    network.load_state_dict(weights)
    return network.eval()


def list_music_and_speech(folder: Path) -> list[Path]:
    """All recordings of speech_music_8k; none has the keyword."""
    with (folder / "files.tsv").open(encoding="utf-8") as file:
        return [folder / row["file"] for row in csv.DictReader(file, delimiter="\t")]


def evaluate(network: SoundNetwork, options: argparse.Namespace) -> dict[str, Any]:
    files = sorted(options.negatives.rglob("*.flac"))[: options.limit]
    first, second = (score(files[i::2], network) for i in (0, 1))
    threshold = choose_threshold([curve.scores for curve in first], count_hours(first), RATE, DEAD_TIME)
    rows = [row for row in read_table(options.data / "welcome_tts" / "clips.tsv") if row["split"] == options.split]
    positive = [row for row in rows if row["keyword"] == "1"][: options.limit]
    negative = [row for row in rows if row["keyword"] == "0"][: options.limit]
    clips = [
        score([options.data / "welcome_tts" / row["file"] for row in rows], network) for rows in (positive, negative)
    ]
    found = [[find_detections(curve.scores, threshold, DEAD_TIME) for curve in curves] for curves in clips]
    spans = [(round(100 * float(row["start"])), round(100 * float(row["end"]))) for row in positive]
    others = score(list_music_and_speech(options.data / "speech_music_8k")[: options.limit], network)
    figures: dict[str, Any] = {"threshold": threshold, "hours of the choice": count_hours(first)}
    for name, curves in (("synthesized", second), ("speech and music", others)):
        alarms = [find_detections(curve.scores, threshold, DEAD_TIME) for curve in curves]
        report = score_detections(found[0], spans, alarms, count_hours(curves), threshold, TOLERANCE)
        interval = report.false_alarms
        figures[name] = {"hours": report.hours, "alarms": report.n_false_alarms, "an hour": interval.value}
        figures[name] |= {"low": interval.low, "high": interval.high}
        figures |= {"missed": report.n_missed, "of": len(positive)}
        figures["missed fraction"] = [report.misses.value, report.misses.low, report.misses.high]
    everything = [*first, *second, *others]
    point = choose_threshold([curve.scores for curve in everything], count_hours(everything), RATE, DEAD_TIME)
    figures["one an hour of all"] = {
        "threshold": point,
        "hours": count_hours(everything),
        "missed": sum(not hit for hit in list_hits(clips[0], spans, point)),
    }
    hits = list_hits(clips[0], spans, threshold)
    count, total = Counter(), Counter(row["engine"] for row in positive)
    for row, hit in zip(positive, hits, strict=True):
        count[row["engine"]] += not hit
    figures["missed by engine"] = {engine: [count[engine], n] for engine, n in total.items()}
    figures["clips without the keyword that fired"] = [sum(map(bool, found[1])), len(negative)]
    if options.carriers:
        curves = score(sorted(options.carriers.glob("*.flac"))[: options.limit], network)
        fired = [bool(find_detections(curve.scores, threshold, DEAD_TIME)) for curve in curves]
        figures["carriers without the keyword that fired"] = [sum(fired), len(fired)]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("negatives", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, default=Path("runs"))
    parser.add_argument("--split", default="test", choices=("dev", "test"), help="the clips with the keyword")
    parser.add_argument("--carriers", type=Path, help="folder of sentences with another word in its position")
    parser.add_argument("--runs", nargs="*", help="only these runs of the weights")
    parser.add_argument("--limit", type=int, help="read only this many files of each kind, for a trial")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for run, weights in torch.load(options.weights, map_location="cpu", weights_only=True).items():
        if options.runs and run not in options.runs:
            continue
        results[run] = evaluate(load_network(run, weights), options)
        print(run, json.dumps(results[run]), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "stream.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
