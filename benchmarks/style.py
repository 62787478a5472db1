"""Figures of textures and styles: losses after a number of steps, with the weights of VGG and without.

    python benchmarks/style.py $CATENA_DATA -o OUT --part texture --network vgg
    python benchmarks/style.py $CATENA_DATA -o OUT --part style --network random --steps 60

The sample of ``texture`` is images/brick.png, scaled to 256 pixels, its upper left 128 x 128 pixels. ``style`` paints
images/chelsea.png in the style of each picture of style_images. The table has the relative Gram loss (mean over layers
of |G - A|^2 / |A|^2, both divided by their number of positions) and the relative content loss, before the picture is
rounded, and the CPU time. Pictures are written to OUT.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from catena.data.images import read_image
from catena.data.media_config import ImageConfig
from catena.encoders.image_features import ImageFeatures
from catena.encoders.vgg_weights import read_vgg
from catena.niche.style import RandomFilters, SynthesisProgress, SynthesisResult, synthesize_texture, transfer_style

STYLES = ("starry_night.jpg", "the_scream.jpg", "shipwreck.jpg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("painted"))
    parser.add_argument("--part", choices=("texture", "style"), default="texture")
    parser.add_argument("--network", choices=("vgg", "random"), default="vgg")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--start", choices=("spectrum", "noise", "patches"), default="spectrum")
    parser.add_argument("--levels", type=int, default=1)
    parser.add_argument("--size", type=int, default=192, help="longest side of a painted picture")
    parser.add_argument("--styles", nargs="+", default=STYLES)
    parser.add_argument("--style-weight", type=float)
    parser.add_argument("--color", default="style")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    network = open_network(options.data, options.network)
    print(f"{'picture':<28} {'steps':>5} {'style':>8} {'content':>8} {'cpu s':>6}")
    if options.part == "texture":
        make_texture(options, network)
    else:
        for name in options.styles:
            paint(options, network, name)


def open_network(data: Path, name: str) -> ImageFeatures:
    if name == "random":
        return RandomFilters()
    return read_vgg(data / "vgg16_int8" / "vgg16_conv_int8.safetensors", "torchvision")


def make_texture(options: argparse.Namespace, network: ImageFeatures) -> None:
    brick = read_image(options.data / "images" / "brick.png", ImageConfig(height=256, width=256, filter="lanczos"))
    report = Report(f"brick-{options.start}-{options.network}")
    result = synthesize_texture(
        brick[:128, :128].copy(),
        network=network,
        steps=options.steps,
        levels=options.levels,
        start=options.start,
        device=options.device,
        on_step=report,
    )
    report.end(result, options.output)


def paint(options: argparse.Namespace, network: ImageFeatures, style: str) -> None:
    report = Report(f"chelsea-{Path(style).stem}-{options.network}")
    result = transfer_style(
        options.data / "images" / "chelsea.png",
        options.data / "style_images" / style,
        network=network,
        size=options.size,
        steps=options.steps,
        levels=options.levels,
        style_weight=options.style_weight,
        color=options.color,
        device=options.device,
        on_step=report,
    )
    report.end(result, options.output)


class Report:
    """Prints the losses every 20 steps, with the CPU time since the start."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = time.process_time()

    def __call__(self, progress: SynthesisProgress) -> None:
        losses = progress.losses
        if losses.step % 20 == 0:
            seconds = time.process_time() - self.start
            line = f"{self.name:<28} {losses.step:>5} {losses.style:8.4f} {losses.content:8.4f} {seconds:6.0f}"
            print(line, flush=True)

    def end(self, result: SynthesisResult, folder: Path) -> None:
        result.save(folder / f"{self.name}.png")
        print(f"{self.name:<28} best step {result.best.step}: style {result.best.style:.4f}", flush=True)


if __name__ == "__main__":
    main()
