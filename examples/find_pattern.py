"""Which networks find a keyword, and how long may it be? An experiment with symbols in place of sound.

A pattern of k symbols is hidden in half of the sequences; the others have it with one symbol changed. The score of a
sequence is the maximum over time of the scores of its positions, or the score of the last position.

* A convolutional network that sees f < k symbols is correct in at most (1 + f / k) / 2 of the cases.
* Dilated layers see 2^n symbols with n layers.
* A recurrent network reads a pattern of any length. Its last state forgets the pattern if symbols follow; the maximum
  over time does not care where the pattern is. These are trained with at most three symbols after the pattern.

The maximum gives a gradient to one position only, and a recurrent network does not learn from it here. So networks are
trained with the smooth maximum log mean exp, which gives one to every position, and scored with the maximum.
"""

import torch
from torch.nn import functional as F

from catena.data.samples.patterns import hide_patterns
from catena.encoders import SoundNetwork, build_encoder
from catena.encoders.config import ConvolutionConfig, DilatedConfig, EncoderConfig, RecurrentConfig

N_SYMBOLS = 8
PATTERN = (3, 1, 4, 1, 5, 7)


def one_hot(n: int, length: int, n_after: int | None, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    data = hide_patterns(n, length, PATTERN, N_SYMBOLS, n_after=n_after, seed=seed)
    return F.one_hot(torch.from_numpy(data.symbols), N_SYMBOLS).float(), torch.from_numpy(data.labels).float()


def train(config: EncoderConfig, pooling: str = "log_sum_exp", length: int = 16, steps: int = 300) -> SoundNetwork:
    """A network trained on sequences with the pattern at random positions."""
    torch.manual_seed(0)
    network = SoundNetwork(build_encoder(config, N_SYMBOLS), 1, pooling)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    x, y = one_hot(2048, length, None, seed=1)
    for step in range(steps):
        rows = torch.arange(step * 64, step * 64 + 64) % len(x)
        loss = F.binary_cross_entropy_with_logits(network(x[rows]).scores[:, 0], y[rows])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    if pooling == "log_sum_exp":
        network.pooling = "max"
    return network.eval()


@torch.no_grad()
def evaluate(network: SoundNetwork, length: int = 16, n_after: int | None = None) -> float:
    """The accuracy on new sequences, with this number of symbols after the pattern."""
    x, y = one_hot(4000, length, n_after, seed=2)
    return ((network(x).scores[:, 0] > 0) == y.bool()).float().mean().item()


def convolution(n_layers: int, window: int = 3) -> ConvolutionConfig:
    return ConvolutionConfig(windows=(window,), filters=32, n_layers=n_layers)


def recurrent(cell: str) -> RecurrentConfig:
    return RecurrentConfig(cell=cell, d=48, bidirectional=False)


if __name__ == "__main__":
    k = len(PATTERN)
    print(f"pattern of {k} symbols\nnetwork                       field   accuracy   at most")
    for n_layers in (1, 2, 3):
        field = 2 * n_layers + 1
        accuracy = evaluate(train(convolution(n_layers)))
        print(
            f"convolution, {n_layers} layers of 3     {field}     {accuracy:8.3f}   {(1 + min(field, k) / k) / 2:.3f}"
        )
    for n_layers in (2, 3):
        accuracy = evaluate(train(DilatedConfig(d=32, n_layers=n_layers)))
        field = 2**n_layers
        print(
            f"dilated, {n_layers} layers of 2         {field}     {accuracy:8.3f}   {(1 + min(field, k) / k) / 2:.3f}"
        )
    print("\nsymbols after the pattern        0       5      20")
    for name, config, pooling in (
        ("RNN, last state", recurrent("elman"), "last"),
        ("RNN, maximum over time", recurrent("elman"), "log_sum_exp"),
        ("LSTM, maximum over time", recurrent("lstm"), "log_sum_exp"),
    ):
        network = train(config, pooling, length=9, steps=800)
        scores = "   ".join(f"{evaluate(network, k + 3 + n, n):.3f}" for n in (0, 5, 20))
        print(f"{name:<28} {scores}")
