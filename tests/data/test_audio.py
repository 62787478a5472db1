"""Sound files: equal to the samples that were written, whole or in blocks, and one sentence for each bad file."""

from __future__ import annotations

import gzip
import io
import struct
import subprocess
import sys
import tracemalloc
import wave
from pathlib import Path

import numpy as np
import pytest

from catena.data.audio import audio_blocks, read_audio, resample, write_wav
from catena.errors import CatenaError, DataError, FormatError, MissingExtraError

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("soxr")


def tone(n: int = 8000, rate: int = 8000, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(n) / rate)).astype(np.float32)


def wav_header(n_bytes: int, rate: int = 8000, channels: int = 1) -> bytes:
    chunk = struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16)
    return b"RIFF" + struct.pack("<I", 36 + n_bytes) + b"WAVEfmt " + chunk + b"data" + struct.pack("<I", n_bytes)


def pcm(x: np.ndarray) -> bytes:
    return (x * 32767).astype("<i2").tobytes()


@pytest.mark.parametrize(
    ("subtype", "dtype", "scale", "offset"),
    [("PCM_U8", "u1", 128, 128), ("PCM_16", "<i2", 2**15, 0), ("PCM_32", "<i4", 2**31, 0)],
)
def test_read_audio_divides_integers_by_their_full_scale(
    tmp_path: Path, subtype: str, dtype: str, scale: int, offset: int
) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(), 8000, subtype=subtype)
    with wave.open(str(path)) as file:  # the standard library as a peer
        integers = np.frombuffer(file.readframes(8000), dtype)
    np.testing.assert_allclose(read_audio(path).samples, (integers.astype(np.float64) - offset) / scale, atol=1e-7)


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_read_audio_reads_every_container_without_extension(tmp_path: Path, container: str) -> None:
    path = tmp_path / "recording"
    soundfile.write(path, tone(16000, 16000), 16000, format=container)
    found = read_audio(path)
    assert found.sample_rate == 16000
    assert found.samples.dtype == np.float32
    assert np.abs(np.abs(np.fft.rfft(found.samples[:16000])).argmax() - 440) <= 1


def test_read_audio_keeps_floats_above_one(tmp_path: Path) -> None:
    path = tmp_path / "loud.wav"
    soundfile.write(path, 4 * tone(), 8000, subtype="FLOAT")
    np.testing.assert_array_equal(read_audio(path).samples, 4 * tone())


def test_read_audio_averages_channels_before_resampling(tmp_path: Path) -> None:
    path = tmp_path / "stereo.wav"
    left, right = tone(44100, 44100), tone(44100, 44100, 1000.0)
    soundfile.write(path, np.stack((left, right), axis=1), 44100, subtype="FLOAT")
    found = read_audio(path, 8000)
    assert (len(found.samples), found.sample_rate, found.seconds) == (8000, 8000, 1.0)
    wanted = (tone(8000) + tone(8000, 8000, 1000.0)) / 2
    np.testing.assert_allclose(found.samples[200:-200], wanted[200:-200], atol=2e-3)


def test_resample_keeps_an_equal_rate_and_empty_input() -> None:
    np.testing.assert_array_equal(resample(tone(), 8000, 8000), tone())
    assert len(resample(tone(0), 8000, 16000)) == 0
    assert len(resample(tone(), 8000, 16000)) == 16000


@pytest.mark.parametrize("rate", [None, 8000, 11025])
@pytest.mark.parametrize("block", [1000, 65536, 200_001])
def test_audio_blocks_join_to_the_whole_recording(tmp_path: Path, rate: int | None, block: int) -> None:
    path = tmp_path / "long.flac"
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 150_000)
    soundfile.write(path, noise, 22050)
    blocks = list(audio_blocks(path, rate, block))
    assert all(len(x) == block for x in blocks[:-1])
    np.testing.assert_array_equal(np.concatenate(blocks), read_audio(path, rate).samples)


def test_audio_blocks_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    peaks = []
    for minutes in (1, 8):
        path = tmp_path / f"{minutes}.wav"
        path.write_bytes(wav_header(minutes * 60 * 16000) + bytes(minutes * 60 * 16000))
        tracemalloc.start()
        assert sum(len(x) for x in audio_blocks(path, 16000, 4096)) == minutes * 60 * 16000
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_read_audio_reads_compressed_files_and_unknown_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a.wav.gz"
    path.write_bytes(gzip.compress(wav_header(16000) + pcm(tone())))
    piped = tmp_path / "piped.wav"
    piped.write_bytes(wav_header(16000)[:-4] + b"\xff\xff\xff\xff" + pcm(tone()))
    np.testing.assert_array_equal(read_audio(path).samples, read_audio(piped).samples)
    assert len(read_audio(piped).samples) == 8000


def damaged_flac() -> bytes:
    whole = bytearray(encoded("FLAC"))
    whole[len(whole) // 2 : len(whole) // 2 + 200] = b"\x55" * 200
    return bytes(whole)


def encoded(container: str, subtype: str | None = None, x: np.ndarray | None = None) -> bytes:
    target = io.BytesIO()
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 40_000).astype(np.float32)
    soundfile.write(target, noise if x is None else x, 8000, format=container, subtype=subtype)
    return target.getvalue()


def with_value(value: float) -> bytes:
    x = tone()
    x[4000] = value
    return encoded("WAV", "FLOAT", x)


BAD = {
    "empty.wav": (b"", FormatError, r"is empty\. Remove it"),
    "header.wav": (wav_header(0), DataError, r"has a header but no samples\. Remove it"),
    "short.wav": (wav_header(16000) + bytes(4000), FormatError, r"announces 16,000 bytes .* has 4,000\. Copy"),
    "tiny.wav": (wav_header(16000) + bytes(2), FormatError, r"announces 16,000 bytes .* has 2\. Copy"),
    "zero.wav": (wav_header(400, rate=0) + bytes(400), DataError, r"must be from 1000 to 768000 Hz, got 0\. Write"),
    "slow.wav": (wav_header(400, rate=1) + bytes(400), DataError, r"must be from 1000 to 768000 Hz, got 1\. Write"),
    "many.wav": (
        wav_header(640, channels=32) + bytes(640),
        DataError,
        r"must be at most 8, got 32\. Run ffmpeg .* -ac 1",
    ),
    "nan.wav": (with_value(np.nan), DataError, r"has a nan or infinite sample at 0\.500 s\. .*ffmpeg"),
    "inf.wav": (with_value(-np.inf), DataError, r"has a nan or infinite sample at 0\.500 s\. .*ffmpeg"),
    "integers.wav": (with_value(32767.0), DataError, r"must be from -1 to 1, .* got 32767\. Divide"),
    "lost.flac": (damaged_flac(), FormatError, r"cannot be decoded as sound: .*flac decoder.* ffmpeg -i"),
    "cut.flac": (encoded("FLAC")[:20_000], FormatError, r"cannot be decoded|is incomplete"),
    "cut.mp3": (encoded("MP3")[:6_000], FormatError, r"is incomplete: .* announces 40,000 samples.*ffmpeg"),
    "a.m4a": (b"\0\0\0\x20ftypM4A " + bytes(99), FormatError, r"is an MP4 or M4A file \(AAC\).*Convert it: ffmpeg -i"),
    "a.aac": (b"\xff\xf1\x50\x80" + bytes(99), FormatError, r"is an AAC file.*Convert it: ffmpeg -i"),
    "a.webm": (b"\x1a\x45\xdf\xa3" + bytes(99), FormatError, r"is a Matroska or WebM file.*Convert it: ffmpeg -i"),
    "text": (b"some text\n" * 30, FormatError, r"cannot be decoded as sound: .*ffmpeg -i"),
    "samples.raw": (pcm(tone()), FormatError, r"cannot be decoded as sound: .*ffmpeg -i"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file_raises_one_sentence_with_cure(tmp_path: Path, name: str) -> None:
    content, error, sentence = BAD[name]
    path = tmp_path / name
    path.write_bytes(content)
    for read in (lambda: read_audio(path, 16000), lambda: list(audio_blocks(path, 16000, 1000))):
        with pytest.raises(error, match=sentence) as caught:
            read()
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_missing_file_and_folder_raise(tmp_path: Path) -> None:
    write_wav(tmp_path / "hello.wav", tone(), 8000)
    with pytest.raises(FormatError, match=r"File not found: .*helo\.wav\. Did you mean .*hello\.wav"):
        read_audio(tmp_path / "helo.wav")
    with pytest.raises(FormatError, match="is a folder"):
        read_audio(tmp_path)


def test_file_name_with_spaces_is_quoted_in_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "my song.m4a"
    path.write_bytes(b"\0\0\0\x20ftypM4A " + bytes(99))
    with pytest.raises(FormatError, match=r"ffmpeg -i '.*my song\.m4a' '.*my song_new\.wav'$"):
        read_audio(path)


def test_recording_longer_than_max_seconds_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, tone(16000), 8000)
    with pytest.raises(DataError, match=r"must be at most 1\.5 s, got 2\.0 s\. Split"):
        read_audio(path, max_seconds=1.5)
    assert read_audio(path, max_seconds=2).seconds == 2
    assert read_audio(path, max_seconds=None).seconds == 2


@pytest.mark.parametrize("wrong", [0, -8000, 10**7])
def test_wrong_sample_rate_raises(tmp_path: Path, wrong: int) -> None:
    write_wav(tmp_path / "a.wav", tone(), 8000)
    for call in (
        lambda: read_audio(tmp_path / "a.wav", wrong),
        lambda: list(audio_blocks(tmp_path / "a.wav", wrong, 100)),
        lambda: write_wav(tmp_path / "b.wav", tone(), wrong),
    ):
        with pytest.raises(DataError, match=rf"sample_rate must be from 1000 to 768000 Hz, got {wrong}\. Use"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


def test_wrong_block_raises(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", tone(), 8000)
    with pytest.raises(DataError, match=r"block must be at least 1 sample, got 0\. Use"):
        list(audio_blocks(tmp_path / "a.wav", None, 0))


def test_write_wav_round_trip_is_within_half_a_step(tmp_path: Path) -> None:
    x = np.random.default_rng(2).uniform(-1, 1, 5000)
    x[:4] = [-1.0, 1.0, -3.0, 3.0]
    write_wav(tmp_path / "new" / "a.wav", x, 16000)
    found = read_audio(tmp_path / "new" / "a.wav")
    assert found.sample_rate == 16000
    wanted = np.clip(x, -1, 32767 / 32768)
    np.testing.assert_allclose(found.samples, wanted, atol=0.5 / 32768 + 1e-9)
    write_wav(tmp_path / "new" / "a.wav", found.samples, 16000)
    np.testing.assert_array_equal(read_audio(tmp_path / "new" / "a.wav").samples, found.samples)


def test_write_wav_of_nan_raises_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"samples must be finite, got nan"):
        write_wav(tmp_path / "a.wav", np.array([0.0, np.nan]), 8000)
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_raise_with_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wav(tmp_path / "a.wav", tone(), 8000)
    monkeypatch.setitem(sys.modules, "soxr", None)
    assert len(read_audio(tmp_path / "a.wav").samples) == 8000  # soxr is used only to change the rate
    with pytest.raises(MissingExtraError, match=r"resampling sounds needs .* pip install soundfile soxr$"):
        read_audio(tmp_path / "a.wav", 16000)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingExtraError, match=r"reading sounds needs .* pip install soundfile soxr$"):
        read_audio(tmp_path / "a.wav")


def test_module_does_not_import_soundfile_or_torch() -> None:
    code = "import sys, catena.data.audio; assert not {'soundfile', 'soxr', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.data
def test_every_evaluation_sound_is_read(real_data: Path) -> None:
    read = 0
    for folder in ("audiomnist_8k/dev", "esc10_8k/dog", "welcome_tts/dev/keyword", "free_spoken_digits"):
        for path in sorted((real_data / folder).iterdir()):
            if path.suffix != ".md":
                found = read_audio(path, 8000)
                assert 0.005 < np.abs(found.samples).max() <= 1.5
                read += 1
    assert read == 400 + 40 + 90 + 180
    with pytest.raises(CatenaError):
        read_audio(real_data / "esc10_8k" / "SOURCE.md")
