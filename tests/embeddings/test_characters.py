"""Character embeddings compared to their definitions; padding has no effect, and empty words give 0."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from catena.embeddings.characters import (
    CharacterEmbedding,
    ConvolutionOverCharacters,
    LstmOverCharacters,
    build_characters,
)
from catena.embeddings.config import CharacterConvolutionConfig, CharacterLSTMConfig, NoCharacterConfig

WORDS = torch.tensor([[2, 3, 4, 5], [6, 0, 0, 0], [0, 0, 0, 0], [3, 2, 0, 0]])


def makers() -> list[CharacterEmbedding]:
    torch.manual_seed(3)
    return [
        ConvolutionOverCharacters(8, 5, (3,), 6).double(),
        ConvolutionOverCharacters(8, 5, (2, 3, 7), 4).double(),
        LstmOverCharacters(8, 5, 3).double(),
    ]


@pytest.mark.parametrize("number", range(3))
def test_character_embedding_ignores_padding_and_other_words(number: int) -> None:
    embedding = makers()[number]
    found = embedding(WORDS)
    assert found.shape == (4, embedding.d_out)
    longer = torch.cat((WORDS, torch.zeros(4, 9, dtype=torch.long)), dim=1)
    torch.testing.assert_close(embedding(longer), found)
    for i, n in enumerate((4, 1, 0, 2)):
        torch.testing.assert_close(embedding(WORDS[i : i + 1, : max(n, 1)])[0], found[i])


@pytest.mark.parametrize("number", range(3))
def test_character_embedding_of_empty_word_is_zero_without_gradient(number: int) -> None:
    embedding = makers()[number]
    assert torch.equal(embedding(WORDS)[2], torch.zeros(embedding.d_out, dtype=torch.float64))
    assert torch.equal(embedding(torch.zeros(2, 0, dtype=torch.long)), torch.zeros(2, embedding.d_out).double())
    embedding(torch.zeros(2, 3, dtype=torch.long)).sum().backward()
    assert all(p.grad is None or not p.grad.abs().sum() for p in embedding.parameters())


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_character_convolution_is_the_maximum_over_centered_windows(window: int) -> None:
    embedding = ConvolutionOverCharacters(8, 5, (window,), 4).double()
    table, convolution = embedding.table.weight, embedding.convolutions[0]
    assert isinstance(convolution, nn.Conv1d)
    for word in ([2, 3, 4, 5], [6], [3, 2]):
        sums = []
        for i in range(len(word)):
            total = convolution.bias.clone()  # type: ignore[union-attr]
            for j in range(window):
                place = i - (window - 1) // 2 + j
                if 0 <= place < len(word):
                    total = total + convolution.weight[:, :, j] @ table[word[place]]
            sums.append(total)
        torch.testing.assert_close(embedding(torch.tensor([word]))[0], torch.stack(sums).amax(0))


def test_character_lstm_returns_the_last_state_of_each_direction() -> None:
    embedding = LstmOverCharacters(8, 5, 3).double()

    def last(network: nn.LSTM, word: list[int]) -> Tensor:
        return network(embedding.table.weight[torch.tensor(word)])[0][-1]

    for word, found in zip(([2, 3, 4, 5], [6], [3, 2]), embedding(WORDS[[0, 1, 3]]), strict=True):
        expected = torch.cat((last(embedding.forwards, word), last(embedding.backwards, word[::-1])))
        torch.testing.assert_close(found, expected)


def test_build_characters_from_config() -> None:
    assert build_characters(NoCharacterConfig(), 9) is None
    cnn = build_characters(CharacterConvolutionConfig(windows=(2, 3), filters=7), 9)
    lstm = build_characters(CharacterLSTMConfig(d=4, d_hidden=5), 9)
    assert isinstance(cnn, ConvolutionOverCharacters)
    assert cnn.d_out == 14
    assert isinstance(lstm, LstmOverCharacters)
    assert lstm.d_out == 10
    assert lstm.table.weight.shape == (9, 4)
