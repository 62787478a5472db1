"""Synthesize clips with the keyword and with other words in its position, for training and for a test of carriers.

    python benchmarks/make_keyword_clips.py TOOLS OUT --clips 1650 --seed 7
    python benchmarks/make_keyword_clips.py TOOLS OUT --clips 300 --seed 8 --carriers

TOOLS is the folder of make_negatives.py, whose sentences, voices and echoes are used; espeak-ng, flite, soundfile and
soxr are needed. Voices are in the train split of welcome_tts or in no split. Frequencies are multiplied by 0.85 to
1.35, as if the vocal tract were longer or shorter, since these Flite voices are men, and in the test they are women.
The clips have no noise, which training adds. OUT/labels.tsv has the columns that make_negatives.py writes.

Two fifths of the clips have the keyword, a third another word in its position, often one that sounds like a part of it,
and the rest are sentences without it. With ``--carriers``, every clip has a word in its position that training does
not have; voices are those that make_negatives.py uses for hours without the keyword, with noise.
"""

from __future__ import annotations

import argparse
import csv
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
import soxr

KEYWORD = "welcome"
PHONES = ["w", "eh", "l", "k", "ax", "m"]
TRAIN_WORDS = (
    "well|come|Wilma|outcome|income|helpful|Malcolm|wealthy|overcome|become|weather|walking|falcon|welder|comfort|calm|"
    "belly|column|silicon|Wellington|volcano|elk|talcum|balcony|dwelling|vulcan|helicopter|will go|walk|quick|warm|"
    "twelve|wool|woman|wonderful|we all|alcohol|unwell|delicate|elegant|"
)
TEST_WORDS = (
    "quiet|ready|helmet|walnut|wisdom|falling|wealth|shellcraft|incoming|wake up|local|vehicle|seldom|weekend|kingdom|"
    "wilderness|swell|twelfth|compass|alarm"
)
EXTRA_VOICES = "Nguyen|Gene2|RicishayMax|RicishayMax2|Storm|Tweaky|announcer|iven4|whisper|whisperf|AnxiousAndy"
"""Variants of espeak-ng in no split."""
FLITE_VOICES = ["kal", "kal16", "awb"]
"""kal16 and awb are in the train split; kal is in no split."""


class Speech(NamedTuple):
    samples: np.ndarray
    start: float
    """Seconds; -1 without the keyword."""
    end: float
    voice: str
    speed: float
    pitch: int


def speak_espeak(tools: Any, engine: Any, rng: random.Random, text: str, split: str, factor: float) -> Speech:
    """Speech of espeak-ng whose frequencies are multiplied by ``factor``."""
    voice, speed, pitch, spread = tools.setting(rng, split)
    if split == "train" and rng.random() < 0.3:
        voice = f"{voice.partition('+')[0]}+{rng.choice(EXTRA_VOICES.split('|'))}"
    rate, engine.rate = engine.rate, engine.rate * factor  # read as if sampled faster, so everything is higher
    try:
        samples, words = engine.speak(text, voice, round(speed / factor), pitch, spread)
    finally:
        engine.rate = rate
    words = [(position, seconds / factor) for position, seconds in words]
    start, end = tools.bounds(samples, words, text.index(KEYWORD)) if KEYWORD in text else (-1.0, -1.0)
    return Speech(samples, start, end, voice, speed, pitch)


def speak_flite(tools: Any, rng: random.Random, text: str, factor: float) -> Speech:
    """Speech of Flite whose frequencies are multiplied by ``factor``."""
    voice, stretch = rng.choice(FLITE_VOICES), rng.uniform(0.75, 1.3)
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        options = ["--setf", f"duration_stretch={stretch * factor:.3f}", "-psdur", "-t", text, "-o", file.name]
        output = subprocess.run(["flite", "-voice", voice, *options], check=True, capture_output=True, text=True)
        samples, rate = soundfile.read(file.name)
    samples = soxr.resample(samples, rate * factor, tools.RATE)
    start, end = -1.0, -1.0
    if KEYWORD in text:
        phones, times = zip(*(pair.split(":") for pair in output.stdout.split()), strict=True)
        first = next(i for i in range(len(phones)) if list(phones[i : i + 6]) == PHONES)
        start, end = float(times[first - 1]) / factor, float(times[first + 5]) / factor
    return Speech(samples, start, end, f"flite {voice}", stretch, 0)


def write_text(tools: Any, rng: random.Random, *, carriers: bool) -> str:
    kind = 0.5 if carriers else rng.random()
    words = TEST_WORDS if carriers else TRAIN_WORDS
    if kind < 0.4:
        return tools.sentence(rng, KEYWORD)
    if kind < 0.73:
        return tools.sentence(rng, rng.choice(words.split("|"))).strip() or "good evening"
    return tools.sentence(rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--clips", type=int, default=1650)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--carriers", action="store_true", help="clips of the test of carriers")
    options = parser.parse_args()
    sys.path.insert(0, str(options.tools))
    import make_negatives as tools

    options.out.mkdir(parents=True, exist_ok=True)
    rng, noise, engine = random.Random(options.seed), np.random.default_rng(options.seed), tools.Espeak()
    with (options.out / "labels.tsv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        table.writerow(("file", "start", "end", "voice", "speed", "pitch", "snr", "text"))
        for i in range(options.clips):
            text = write_text(tools, rng, carriers=options.carriers)
            factor = 1.0 if options.carriers else rng.uniform(0.85, 1.35)
            if options.carriers:
                speech = speak_espeak(tools, engine, rng, text, "negatives", factor)
                samples, snr = tools.spoil(noise, speech.samples)
            else:
                if rng.random() < 0.5:
                    speech = speak_flite(tools, rng, text, factor)
                else:
                    speech = speak_espeak(tools, engine, rng, text, "train", factor)
                samples, snr = speech.samples, 99.0
                if rng.random() < 0.5:
                    samples = tools.room(noise, samples, noise.uniform(0.05, 0.4))
                samples = samples * 0.09 / (samples.std() + 1e-9)
            soundfile.write(options.out / f"clip_{i:05d}.flac", np.clip(samples, -0.99, 0.99), tools.RATE)
            span = [f"{speech.start:.3f}", f"{speech.end:.3f}"] if speech.start >= 0 else ["", ""]
            row = [f"clip_{i:05d}.flac", *span, speech.voice, f"{speech.speed:.2f}", speech.pitch, f"{snr:.1f}", text]
            table.writerow(row)


if __name__ == "__main__":
    main()
