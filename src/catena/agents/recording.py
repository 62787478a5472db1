"""Recording of an episode as a GIF or MP4 file. Tested in tests/agents/test_agent.py."""

from __future__ import annotations

import contextlib
import itertools
import math
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from catena.agents.environment import PlayEnvironment
from catena.agents.evaluation import Episode
from catena.agents.policy import Policy
from catena.errors import ConfigError, DataError, MissingExtraError
from catena.extras import require
from catena.files import atomic_write

_MAX_SIDE = 480
"""Longest side of a GIF in pixels; larger pictures are reduced."""
_MAX_GIF_RATE = 25
"""Pictures per second of a GIF; of faster environments, only every n-th picture is kept."""


def check_recording(path: Path) -> None:
    """Raise an error if a recording cannot be written to this path, before anything is played."""
    suffix = path.suffix.lower()
    if suffix not in (".gif", ".mp4"):
        raise ConfigError(f"A recording must end in .gif or .mp4, got {path.name!r}. Change the extension.")
    if suffix == ".gif":
        require("PIL.Image", "agents", "writing a GIF")
    elif find_ffmpeg() is None:
        raise MissingExtraError(
            "Writing MP4 needs ffmpeg, which is not installed. Install it: pip install imageio-ffmpeg, or write a .gif."
        )
    if not path.parent.is_dir():
        raise ConfigError(f"The folder of {path} does not exist. Create it first.")


def find_ffmpeg() -> str | None:
    """The ffmpeg program, installed on its own or with imageio-ffmpeg; None if there is neither."""
    if found := shutil.which("ffmpeg"):
        return found
    try:
        import imageio_ffmpeg
    except ImportError:
        return None
    return imageio_ffmpeg.get_ffmpeg_exe()


def record_episode(environment: PlayEnvironment, policy: Policy, seed: int, path: Path) -> Episode:
    """Play one episode without exploration and write it to a file.

    Args:
        environment: an environment with the render mode ``rgb_array``.
        policy: the policy.
        seed: the seed of the episode.
        path: a ``.gif`` or ``.mp4`` file.
    """
    check_recording(path)
    watched = _WatchedEpisode(environment, policy, seed)
    rate = environment.frames_per_second
    if path.suffix.lower() == ".gif":
        every = max(1, round(rate / _MAX_GIF_RATE))
        write_gif(_thin(watched, every), rate / every, path)
    else:
        write_mp4(watched, rate, path)
    return watched.episode()


class _WatchedEpisode:
    """Plays an episode and yields its pictures."""

    def __init__(self, environment: PlayEnvironment, policy: Policy, seed: int) -> None:
        self.environment, self.policy, self.seed = environment, policy, seed
        self.rewards: list[float] = []
        self.terminated = False

    def __iter__(self) -> Iterator[np.ndarray]:
        observation = self.environment.reset(self.seed)
        self.policy.begin(1)
        yield _picture(self.environment)
        ended = False
        while not ended:
            result = self.environment.step(int(self.policy.act(observation[None])[0]))
            observation, ended = result.observation, result.ended
            self.rewards.append(result.reward)
            self.terminated = result.terminated
            yield _picture(self.environment)

    def episode(self) -> Episode:
        return Episode(self.seed, math.fsum(self.rewards), len(self.rewards), self.terminated)


def _thin(pictures: Iterable[np.ndarray], every: int) -> Iterator[np.ndarray]:
    """Every n-th picture, and the last one."""
    for i, picture in enumerate(pictures):
        if i % every == 0:
            yield picture
    if i % every:
        yield picture


def _picture(environment: PlayEnvironment) -> np.ndarray:
    picture = np.asarray(environment.render())
    if picture.ndim != 3 or picture.shape[2] != 3:
        raise DataError(
            f"render() of {environment.name} must return a picture of shape (height, width, 3), got shape "
            f"{picture.shape}. Support render_mode='rgb_array' in the environment."
        )
    if picture.dtype != np.uint8:
        picture = np.clip(picture * (255.0 if picture.max() <= 1.0 else 1.0), 0, 255).astype(np.uint8)
    return picture


def write_gif(pictures: Iterable[np.ndarray], rate: float, path: Path) -> None:
    """Write pictures as an animated GIF that repeats."""
    image_module: Any = require("PIL.Image", "agents", "writing a GIF")

    def shrink(picture: np.ndarray) -> Any:
        image = image_module.fromarray(picture)
        image.thumbnail((_MAX_SIDE, _MAX_SIDE))
        return image.quantize(64)

    first, *others = map(shrink, pictures)
    duration = max(20, 10 * round(100 / rate))  # GIF counts in hundredths of a second
    with atomic_write(path) as unfinished:
        first.save(unfinished, format="GIF", save_all=True, append_images=others, duration=duration, loop=0)


def write_mp4(pictures: Iterable[np.ndarray], rate: float, path: Path) -> None:
    """Write pictures as an H.264 video by ffmpeg."""
    program = find_ffmpeg()
    assert program is not None, "checked before playing"
    pictures = iter(pictures)
    first = _even(next(pictures))
    command = [program, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{first.shape[1]}x{first.shape[0]}", "-r", f"{rate:g}", "-i", "-"]
    with atomic_write(path) as unfinished:
        process = subprocess.Popen(
            [*command, "-pix_fmt", "yuv420p", "-f", "mp4", str(unfinished)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            for picture in itertools.chain((first,), map(_even, pictures)):
                process.stdin.write(picture.tobytes())
        said = process.communicate()[1].decode(errors="replace")
        if process.returncode != 0:
            raise DataError(f"ffmpeg could not write {path}: {' '.join(said.split())[:200]}. Write a .gif instead.")


def _even(picture: np.ndarray) -> np.ndarray:
    """The picture with even sides, which H.264 needs."""
    return np.ascontiguousarray(picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2])
