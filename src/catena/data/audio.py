"""Sound files: samples at the requested rate, as a whole or in blocks, and WAV output.

Every file becomes one channel of float32: channels are averaged first, then the result is resampled by soxr, so that a
stereo 44.1 kHz copy of a recording equals the mono 8 kHz one as far as the resampling allows. Integer PCM is divided by
its own full scale; floating-point files may exceed 1. The concatenation of the blocks equals the whole recording bit by
bit, for any block size. Reading needs the extra ``audio`` (soundfile, soxr); writing WAV needs nothing. Tested in
tests/data/test_audio.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import struct
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Shaped

from catena.data.files import decompress, open_bytes
from catena.errors import CatenaError, DataError, FormatError
from catena.extras import require
from catena.files import atomic_write

MAX_CHANNELS = 8
"""Largest number of channels that are averaged: 7.1 surround sound."""
MIN_SAMPLE_RATE = 1_000
MAX_SAMPLE_RATE = 768_000
MAX_PEAK = 100.0
"""Largest sample of a floating-point file. A larger one shows that integers were stored without division."""
MAX_SECONDS = 3600.0
"""Longest recording that :func:`read_audio` holds in memory by default."""
_FRAMES = 1 << 16
"""Frames that are decoded in one call."""
_UNKNOWN_SIZES = (0, 0x7FFF_FFFF, 0xFFFF_FFFF)
"""Sizes of a WAV data chunk that a program writes if it cannot seek back to the header."""


@dataclass(frozen=True, eq=False)
class Audio:
    """One channel of sound; full scale is from -1 to 1.

    Args:
        samples: the values, one for each sample.
        sample_rate: samples per second.
    """

    samples: Float32[np.ndarray, " n"]
    sample_rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.sample_rate


def read_audio(
    path: Path | str, sample_rate: int | None = None, *, max_seconds: float | int | None = MAX_SECONDS
) -> Audio:
    """One channel of a sound file, resampled to ``sample_rate``.

    Args:
        path: a WAV, FLAC, Ogg Vorbis, Ogg Opus, MP3, AIFF or AU file, with or without an extension.
        sample_rate: samples in a second; the rate of the file if None.
        max_seconds: longest recording; no limit if None. For longer ones use :func:`audio_blocks`.

    Raises:
        FormatError: if the file is missing, empty, damaged or of a format that libsndfile cannot decode.
        DataError: if the file is readable, but its rate, channels, length or values are out of range.
    """
    path = Path(path)
    with _open_sound(path) as sound:
        seconds = sound.frames / sound.samplerate
        if max_seconds is not None and seconds > max_seconds:
            raise DataError(
                f"The length of {path} must be at most {max_seconds:g} s, got {seconds:.1f} s. Split the recording, or "
                "read it in blocks."
            )
        rate = sound.samplerate if sample_rate is None else _check_rate(sample_rate)
        blocks = list(_resampled_blocks(sound, path, rate))
    return Audio(np.concatenate(blocks), rate)


def audio_blocks(path: Path | str, sample_rate: int | None, block: int) -> Iterator[Float32[np.ndarray, " _"]]:
    """The samples of :func:`read_audio` in blocks of ``block`` samples, the last one shorter.

    Memory does not grow with the recording. Errors are raised as soon as the damaged part is reached.

    Args:
        path: a sound file.
        sample_rate: samples in a second; the rate of the file if None.
        block: samples in a block.
    """
    if block < 1:
        raise DataError(f"block must be at least 1 sample, got {block}. Use a value such as 65536.")
    path = Path(path)
    with _open_sound(path) as sound:
        rate = sound.samplerate if sample_rate is None else _check_rate(sample_rate)
        waiting = np.zeros(0, np.float32)
        for samples in _resampled_blocks(sound, path, rate):
            waiting = np.concatenate((waiting, samples))
            whole = len(waiting) - len(waiting) % block
            yield from waiting[:whole].reshape(-1, block)
            waiting = waiting[whole:]
    if len(waiting):
        yield waiting


def resample(samples: Float32[np.ndarray, " n"], rate: int, sample_rate: int) -> Float32[np.ndarray, " _"]:
    """Samples of ``rate`` resampled to ``sample_rate`` by soxr (HQ), as in :func:`read_audio`."""
    if rate == sample_rate or not len(samples):
        return samples
    return require("soxr", "audio", "resampling sounds").resample(samples, rate, sample_rate)


def write_wav(path: Path | str, samples: Shaped[np.ndarray, " n"], sample_rate: int) -> None:
    """Write one channel as a 16-bit WAV file. Values outside of -1 to 1 are clipped.

    The file is written under a temporary name and then renamed, so that it is never incomplete.

    Args:
        path: the file to write.
        samples: the values of one channel; full scale is from -1 to 1.
        sample_rate: samples per second.
    """
    path = Path(path)
    _check_rate(sample_rate)
    values = np.asarray(samples, np.float64)
    if not np.isfinite(values).all():
        raise DataError("samples must be finite, got nan or an infinite value. Check the model that generated them.")
    pcm = np.clip(np.rint(values * 32768), -32768, 32767).astype("<i2")
    with atomic_write(path) as unfinished, wave.open(str(unfinished), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(pcm.tobytes())


# --- decoding ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_sound(path: Path) -> Iterator[Any]:
    """An open ``soundfile.SoundFile`` whose header was checked."""
    soundfile = require("soundfile", "audio", "reading sounds")
    _check_beginning(path)
    with contextlib.ExitStack() as stack:
        unpacked = stack.enter_context(decompress(path))
        file = stack.enter_context(open(unpacked, "rb"))
        try:
            # By descriptor: soundfile would take a name that ends in .raw for a file without a header. libsndfile
            # 1.2.0 closes the descriptor of a file that it cannot decode, so it gets its own.
            sound = stack.enter_context(soundfile.SoundFile(os.dup(file.fileno())))
        except (soundfile.SoundFileError, TypeError, ValueError) as error:
            raise _not_decoded(path, error) from None
        _check_header(path, sound)
        yield sound


def _resampled_blocks(sound: Any, path: Path, rate: int) -> Iterator[Float32[np.ndarray, " _"]]:
    """The decoded, averaged and resampled samples, in blocks of any size."""
    stream = None
    if rate != sound.samplerate:
        soxr = require("soxr", "audio", "resampling sounds")
        stream = soxr.ResampleStream(sound.samplerate, rate, 1, dtype="float32")
    n_read = 0
    while True:
        frames = _decode(sound, path)
        mono = frames[:, 0] if sound.channels == 1 else frames.mean(axis=1, dtype=np.float32)
        _check_values(path, frames, n_read / sound.samplerate, sound.samplerate)
        n_read += len(frames)
        last = len(frames) < _FRAMES
        yield mono if stream is None else stream.resample_chunk(np.ascontiguousarray(mono), last=last)
        if last:
            break
    tolerance = 0.02 if sound.format == "MP3" else 0.0  # the length of an MP3 file may be an estimate
    if n_read < sound.frames * (1 - tolerance):
        raise FormatError(
            f"{path} is incomplete: its header announces {sound.frames:,} samples, and {n_read:,} could be read. Copy "
            f"the file again, or keep the readable part: {_ffmpeg(path)}"
        )


def _decode(sound: Any, path: Path) -> Float32[np.ndarray, "n c"]:
    soundfile = require("soundfile", "audio", "reading sounds")
    try:
        return sound.read(_FRAMES, dtype="float32", always_2d=True)
    except soundfile.SoundFileError as error:
        raise _not_decoded(path, error) from None


# --- checks -----------------------------------------------------------------------------------------------------------


def _check_beginning(path: Path) -> None:
    """Raise FormatError for what can be seen in the first bytes: no data, another format, a truncated WAV file."""
    with open_bytes(path) as stream:
        head = stream.read(1 << 12)
        size = path.stat().st_size
        plain = isinstance(stream.raw, io.FileIO)
    if not head:
        raise FormatError(f"{path} is empty. Remove it, or record it again.")
    if kind := _undecodable_kind(head):
        raise FormatError(f"{path} is {kind}, which cannot be decoded here. Convert it: {_ffmpeg(path)}")
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        _check_wav(path, head, size if plain else None)


def _undecodable_kind(head: bytes) -> str | None:
    if head[4:8] == b"ftyp":
        return "an MP4 or M4A file (AAC)"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:  # layer bits 00; MP3 has 01
        return "an AAC file"
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return "a Matroska or WebM file"
    if head.startswith(b"\x30\x26\xb2\x75\x8e\x66\xcf\x11"):
        return "a Windows Media file"
    return None


def _check_wav(path: Path, head: bytes, size: int | None) -> None:
    """Raise an error for a rate of 0, and for fewer bytes than the header announces, which libsndfile accepts."""
    at = 12
    while at + 8 <= len(head):
        name, n_bytes = struct.unpack_from("<4sI", head, at)
        if name == b"fmt " and at + 16 <= len(head):
            _check_file_rate(path, struct.unpack_from("<I", head, at + 12)[0])
        if name == b"data":
            _check_wav_size(path, n_bytes, None if size is None else size - at - 8)
            return
        at += 8 + n_bytes + n_bytes % 2


def _check_wav_size(path: Path, announced: int, actual: int | None) -> None:
    if actual is not None and announced not in _UNKNOWN_SIZES and announced > actual:
        raise FormatError(
            f"{path} is incomplete: its header announces {announced:,} bytes of samples, and the file has {actual:,}. "
            f"Copy the file again, or keep the readable part: {_ffmpeg(path)}"
        )


def _check_file_rate(path: Path, rate: int) -> None:
    if not MIN_SAMPLE_RATE <= rate <= MAX_SAMPLE_RATE:
        raise DataError(
            f"The sample rate of {path} must be from {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz, got {rate}. Write the "
            "file again with its real rate."
        )


def _check_header(path: Path, sound: Any) -> None:
    _check_file_rate(path, sound.samplerate)
    if sound.channels > MAX_CHANNELS:
        raise DataError(
            f"The number of channels of {path} must be at most {MAX_CHANNELS}, got {sound.channels}. Run "
            f"{_ffmpeg(path, '-ac 1 ')} to average them."
        )
    if sound.frames <= 0:
        raise DataError(f"{path} has a header but no samples. Remove it, or record it again.")


def _check_values(path: Path, frames: Float32[np.ndarray, "n c"], start: float, rate: int) -> None:
    """Raise DataError if a block that starts at ``start`` seconds has nan, infinite or far too large values."""
    if not len(frames):
        return
    peak = float(np.abs(frames).max())
    if not np.isfinite(peak):
        first = int(np.nonzero(~np.isfinite(frames).all(axis=1))[0][0])
        raise DataError(
            f"{path} has a nan or infinite sample at {start + first / rate:.3f} s. Write it again as 16-bit PCM: "
            f"{_ffmpeg(path)}"
        )
    if peak > MAX_PEAK:
        raise DataError(
            f"The samples of {path} must be from -1 to 1, or slightly more, got {peak:g}. Divide them by the full "
            "scale (32768 for 16 bits) and write the file again."
        )


def _check_rate(sample_rate: int) -> int:
    if not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        raise DataError(
            f"sample_rate must be from {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz, got {sample_rate}. Use a value such "
            "as 8000 or 16000."
        )
    return sample_rate


def _not_decoded(path: Path, error: Exception) -> CatenaError:
    reason = str(getattr(error, "error_string", error)).removeprefix("Error : ").strip().rstrip(".")
    return FormatError(f"{path} cannot be decoded as sound: {reason}. Copy it again, or convert it: {_ffmpeg(path)}")


def _ffmpeg(path: Path, options: str = "") -> str:
    return f"ffmpeg -i {shlex.quote(str(path))} {options}{shlex.quote(str(path.with_suffix('')) + '_new.wav')}"
