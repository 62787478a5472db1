"""Word input layers: slices of the vector, padding, and initialization from a language model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from catena.data.vocabulary import UNK
from catena.embeddings.config import CharacterLSTMConfig, EmbeddingConfig, NoCharacterConfig
from catena.embeddings.table import EmbeddingTable
from catena.encoders.config import RecurrentConfig, TransformerConfig
from catena.errors import ConfigError
from catena.tasks.pretrained import initial_vectors
from catena.tasks.word_inputs.config import WordInputConfig
from catena.tasks.word_inputs.encoding import WordEncoding
from catena.tasks.word_inputs.model import build_reader, build_sentence_encoder
from catena.tasks.word_inputs.sentences import Sentence
from catena.tasks.word_inputs.task import adopt_words, pretrained_layer_groups, start_reader
from tests.tasks.word_inputs.language_model import language_model

CPU = torch.device("cpu")
SENTENCES = [
    Sentence(("The", "dog", "saw", "the", "dogs"), (("D", "N", "V", "D", "N"),)),
    Sentence(("Dogs", "saw"), (("N", "V"),)),
]


def words(**values: object) -> WordInputConfig:
    return WordInputConfig.model_validate({"columns": ("1",), "embedding": {"d": 6}, "d_column": 3, **values})


@pytest.mark.parametrize(
    "characters", [{"kind": "none"}, {"kind": "cnn", "filters": 4}, CharacterLSTMConfig(d_hidden=2)]
)
@pytest.mark.parametrize("encoder", [RecurrentConfig(d=5), TransformerConfig(d=8, n_heads=2, n_layers=1)])
def test_output_does_not_depend_on_padding(characters: object, encoder: object) -> None:
    settings = words(characters=characters)
    encoding = WordEncoding.count(settings, SENTENCES)
    config: Any = SimpleNamespace(words=settings, encoder=encoder, dropout=0.5, locked=False)
    model = build_sentence_encoder(config, encoding).double().eval()
    encoded = encoding.encode(SENTENCES)
    together = model(encoded.batch([0, 1], CPU))
    assert together.shape == (2, 5, model.d_out)
    assert not together[1, 2:].any()
    for i, n in enumerate((5, 2)):
        torch.testing.assert_close(model(encoded.batch([i], CPU))[0], together[i, :n])


def test_each_input_has_its_slice_of_the_vector() -> None:
    settings = words(features=("shape",), d_feature=4)
    encoding = WordEncoding.count(settings, SENTENCES)
    reader = build_reader(settings, encoding).eval()
    assert reader.characters is not None
    assert isinstance(reader.embedding, EmbeddingTable)
    batch = encoding.encode(SENTENCES).batch([0, 1], CPU)
    found = reader(batch)
    assert reader.d_out == 6 + 50 + 3 + 4 == found.shape[-1]
    assert batch.characters is not None
    assert batch.spellings is not None
    assert batch.columns is not None
    torch.testing.assert_close(found[..., :6], reader.embedding.weight[batch.words])
    torch.testing.assert_close(found[..., 6:56], reader.characters(batch.characters)[batch.spellings])
    torch.testing.assert_close(found[..., 56:59], reader.columns[0](batch.columns[..., 0]))
    torch.testing.assert_close(found[..., 59:], reader.columns[1](batch.columns[..., 1]))


def test_word_dropout_is_more_frequent_for_rare_words() -> None:
    settings = words(unknown_dropout=1.0, characters=NoCharacterConfig(), columns=(), dropout=0.0)
    text = [Sentence(("often",) * 9), Sentence(("once",))]
    encoding = WordEncoding.count(settings, text)
    reader = build_reader(settings, encoding)
    assert isinstance(reader.embedding, EmbeddingTable)
    unknown = reader.embedding.weight[UNK]
    batch = encoding.encode([Sentence(("often", "once") * 2000), Sentence(("often",))]).batch([0, 1], CPU)
    seen = (reader(batch) == unknown).all(-1)
    assert seen[0, ::2].float().mean().item() == pytest.approx(1 / 10, abs=0.03)
    assert seen[0, 1::2].float().mean().item() == pytest.approx(1 / 2, abs=0.05)
    assert not seen[1, 1:].any()  # padding is never a word
    assert not (reader.eval()(batch) == unknown).all(-1).any()
    never = build_reader(words(unknown_dropout=0.0, characters=NoCharacterConfig(), columns=(), dropout=0.0), encoding)
    assert torch.equal(never(batch), never.eval()(batch))


def test_file_vectors_are_fixed_or_tuned(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("dog 1 2\nsaw 3 4\n", encoding="utf-8")
    for mode in ("static", "tuned"):
        settings = words(embedding=EmbeddingConfig(d=2, mode=mode, vectors=str(path)))
        encoding = WordEncoding.count(settings, SENTENCES)
        report: list[str] = []
        reader = build_reader(settings, encoding, initial_vectors(settings.embedding, encoding.words, report))
        assert "vectors for 2 words" in report[0]
        assert isinstance(reader.embedding, EmbeddingTable)
        assert reader.embedding.weight[encoding.words.ids(["saw"])[0]].tolist() == [3.0, 4.0]
        assert reader.embedding.weight.requires_grad == (mode == "tuned")
        blank = build_reader(settings, encoding)
        blank.load_state_dict(reader.state_dict())
        batch = encoding.encode(SENTENCES).batch([0, 1], CPU)
        assert torch.equal(blank.eval()(batch), reader.eval()(batch))
    assert initial_vectors(words().embedding, encoding.words, []) is None


TEXT = "the dog saw the dogs\nDogs saw dogs\n" * 10


def test_language_model_provides_the_context_of_words() -> None:
    start = language_model(TEXT)
    settings = adopt_words(words(), start)
    encoding = WordEncoding.count(settings, SENTENCES, start.encoding.vocabulary)
    reader = build_reader(settings, encoding).eval()
    start_reader(reader, start)
    assert torch.equal(reader.embedding.state_dict()["weight"], start.weights["embedding.weight"])
    assert reader.d_out == 4 + 5 + 50 + 3
    assert reader.context is not None
    encoded = encoding.encode(SENTENCES)
    found = reader(encoded.batch([0, 1], CPU))
    # The state after a word equals the state of the language model after <s> and the words so far.
    own = start.encoding.vocabulary
    ids = torch.tensor([[own.special("<s>"), *own.ids(SENTENCES[0].words)]])
    expected = reader.context(reader.embedding(ids), torch.tensor([6]))[0, 1:]
    torch.testing.assert_close(found[0, :, 4:9], expected)
    assert not found[1, 2:].any()
    assert [len(group) for group in pretrained_layer_groups(reader)][-1] == 1
    assert len(pretrained_layer_groups(reader)) == 3


def test_language_model_over_subwords_raises() -> None:
    start = language_model(TEXT, tokenizer={"kind": "bytes"})
    with pytest.raises(ConfigError, match=r"must be a language model over words, got .* with tokenizer 'bytes'"):
        adopt_words(words(), start)
