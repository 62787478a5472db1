"""Log-mel energies by the definition of the discrete Fourier transform. Imports nothing of catena or torch."""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def mel_weights(n_mels: int, n_fft: int, rate: int, low: float, high: float) -> list[list[float]]:
    """``weights[m][f]`` of bin f in band m: triangles between neighboring corners on the mel scale."""

    def to_mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    def to_hertz(mel: float) -> float:
        return 700 * (10 ** (mel / 2595) - 1)

    step = (to_mel(high) - to_mel(low)) / (n_mels + 1)
    corners = [to_hertz(to_mel(low) + i * step) for i in range(n_mels + 2)]
    weights = []
    for left, middle, right in zip(corners, corners[1:], corners[2:], strict=False):
        row = []
        for f in range(n_fft // 2 + 1):
            hertz = f * rate / n_fft
            if left < hertz <= middle:
                row.append((hertz - left) / (middle - left))
            elif middle < hertz < right:
                row.append((right - hertz) / (right - middle))
            else:
                row.append(0.0)
        weights.append(row)
    return weights


def log_mel(x: Array, frame: int, hop: int, n_fft: int, weights: list[list[float]], floor: float) -> Array:
    """Natural logarithms of the energies of each frame that fits into x."""
    window = [0.5 - 0.5 * math.cos(2 * math.pi * i / frame) for i in range(frame)]
    rows = []
    for start in range(0, len(x) - frame + 1, hop):
        power = []
        for f in range(n_fft // 2 + 1):
            total = sum(
                window[i]
                * x[start + i]
                * complex(math.cos(2 * math.pi * f * i / n_fft), -math.sin(2 * math.pi * f * i / n_fft))
                for i in range(frame)
            )
            power.append(abs(total) ** 2)
        rows.append([math.log(max(floor, sum(w * p for w, p in zip(band, power, strict=True)))) for band in weights])
    return np.array(rows)
