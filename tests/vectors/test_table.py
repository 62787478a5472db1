"""Questions to vectors, against plain numpy over all words; files come back as they were written."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.data.readers.vectors import read_vectors, read_word_vectors
from catena.errors import DataError, FormatError, UnknownNameError
from catena.vectors import neighbors
from catena.vectors.config import SkipGramConfig, SubwordConfig, VectorConfig, VectorTrainingConfig, WordConfig
from catena.vectors.table import Subwords, VectorTable
from catena.vectors.train import train_vectors
from catena.vectors.word_index import WordIndex
from tests.oracle import word2vec as oracle

WORDS = ["the", "cat", "dog", "日本", "naïve", "x-y", "7", "🙂", "zwölf", "end"]


def some_vectors(v: int = 10, d: int = 6, seed: int = 1) -> VectorTable:
    matrix = np.random.default_rng(seed).normal(size=(v, d)).astype(np.float32)
    return VectorTable.of([*WORDS, *(f"w{i}" for i in range(v))][:v], matrix)


def cosines(vectors: VectorTable, query: np.ndarray) -> np.ndarray:
    rows = vectors.matrix.astype(np.float64)
    return rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)


# --- questions --------------------------------------------------------------------------------------------------------


@given(st.integers(3, 40), st.integers(1, 12), st.integers(1, 8), st.integers(0, 5))
def test_neighbors_equal_a_search_of_all_cosines(v: int, k: int, d: int, seed: int) -> None:
    vectors = some_vectors(v, d, seed)
    word = vectors.words[v // 2]
    wanted = cosines(vectors, vectors[word].astype(np.float64))
    order = [i for i in np.argsort(-wanted, kind="stable") if i != v // 2][:k]
    found = vectors.most_similar(word, k)
    assert [score for _, score in found] == pytest.approx(wanted[order].tolist(), abs=1e-5)
    assert {name for name, _ in found if name} <= set(vectors.words) - {word}
    assert len(found) == min(k, v - 1)


def test_neighbors_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = some_vectors(300, 5)
    queries = [vectors.words[i] for i in (0, 150, 299)]
    before = vectors.most_similar_of_all(queries, 7)
    monkeypatch.setattr(neighbors, "LEAST_BLOCK", 13)
    monkeypatch.setattr(neighbors, "MOST_BLOCK", 13)
    after = some_vectors(300, 5).most_similar_of_all(queries, 7)
    assert [[word for word, _ in row] for row in after] == [[word for word, _ in row] for row in before]
    one_by_one = [vectors.most_similar(word, 7) for word in queries]
    assert [[word for word, _ in row] for row in one_by_one] == [[word for word, _ in row] for row in before]


def test_of_equal_vectors_the_first_comes_first_and_zeros_are_near_to_nothing() -> None:
    vectors = VectorTable.of(["a", "b", "c", "zero"], np.array([[1.0, 0], [2, 0], [1, 0], [0, 0]]))
    assert vectors.most_similar("c", 3) == [("a", 1.0), ("b", 1.0), ("zero", 0.0)]
    assert vectors.most_similar(np.array([0.5, 0.0]), 2) == [("a", 1.0), ("b", 1.0)]
    assert vectors.similarity("a", "zero") == 0.0


def test_only_first_words_are_searched_with_most() -> None:
    vectors = some_vectors(50)
    assert {word for word, _ in vectors.most_similar("the", 9, most=10)} == set(WORDS) - {"the"}


@pytest.mark.parametrize("method", ["add", "multiply"])
@given(st.integers(5, 30), st.integers(0, 9))
def test_analogies_equal_their_formulas(method: str, v: int, seed: int) -> None:
    vectors = some_vectors(v, 4, seed)
    a, b, c = (vectors.words[i] for i in (1, 4, 2))
    units = vectors.matrix / np.linalg.norm(vectors.matrix, axis=1, keepdims=True).astype(np.float64)
    if method == "add":
        target = units[4] - units[1] + units[2]
        wanted = units @ target / np.linalg.norm(target)
    else:
        moved = (units @ units.T + 1) / 2
        wanted = moved[4] * moved[2] / (moved[1] + 0.001)
    order = [i for i in np.argsort(-wanted).tolist() if i not in (1, 2, 4)][:3]
    found = vectors.analogy(a, b, c, 3, method)
    assert [word for word, _ in found] == [vectors.words[i] for i in order]
    assert [score for _, score in found] == pytest.approx(wanted[order].tolist(), rel=1e-3, abs=1e-4)


def test_an_analogy_is_solved() -> None:
    matrix = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1], [0.6, 0.6, 0.5]])
    vectors = VectorTable.of(["man", "king", "woman", "queen", "table"], matrix)
    assert vectors.analogy("man", "king", "woman", 1)[0][0] == "queen"
    assert vectors.analogy("man", "king", "woman", 1, "multiply")[0][0] == "queen"


def test_the_odd_one_is_far_from_the_mean() -> None:
    vectors = VectorTable.of(["a", "b", "c", "odd"], np.array([[1, 0.1], [1, 0], [1, -0.1], [-1, 0.2]]))
    assert vectors.odd_one_out(["a", "odd", "b", "c"]) == "odd"
    with pytest.raises(DataError, match="must be 3 or more, got 2"):
        vectors.odd_one_out(["a", "b"])


def test_unknown_words_and_invalid_values_raise_error() -> None:
    vectors = some_vectors()
    with pytest.raises(UnknownNameError, match="No vector for 'Cat': did you mean 'cat'"):
        vectors["Cat"]
    with pytest.raises(DataError, match="must be 1 or more, got"):
        vectors.most_similar("cat", 0)
    with pytest.raises(DataError, match="must be 2, one for each word, got 10"):
        VectorTable.of(["a", "b"], vectors.matrix)


# --- views ------------------------------------------------------------------------------------------------------------


def test_rows_and_tensors_share_the_memory_of_the_matrix(tmp_path: Path) -> None:
    some_vectors().save(tmp_path / "v.safetensors")
    for vectors in (some_vectors(), VectorTable.load(tmp_path / "v.safetensors")):
        tensor = vectors.tensor()
        assert tensor.data_ptr() == vectors.matrix.ctypes.data
        assert np.shares_memory(vectors["dog"], vectors.matrix)
        tensor[2, 0] = 42.0
        assert vectors["dog"][0] == 42.0
    assert VectorTable.load(tmp_path / "v.safetensors")["dog"][0] != 42.0


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "format"),
    [("v.safetensors", None), ("v.bin", None), ("v.txt", None), ("v.vec", None), ("v.glove", "glove")],
)
def test_every_format_gives_back_the_same_bits(tmp_path: Path, name: str, format: str | None) -> None:
    vectors = some_vectors()
    path = vectors.save(tmp_path / "new" / name, format)
    again = VectorTable.load(path)
    assert list(again.words) == WORDS
    assert (again.matrix == vectors.matrix).all()
    assert [p.name for p in path.parent.iterdir()] == [name]
    wanted = read_vectors(path, {"dog", "zwölf", "never"})
    assert wanted.words == ("dog", "zwölf")
    assert (wanted.matrix == vectors.rows(["dog", "zwölf"])).all()


def test_classifiers_and_taggers_read_our_files(tmp_path: Path) -> None:
    vectors = some_vectors()
    rows, known = read_word_vectors(vectors.save(tmp_path / "v.safetensors"), ["<pad>", "dog", "CAT"], d=6)
    assert known.tolist() == [False, True, True]
    assert (rows[2] == vectors["cat"]).all()
    with pytest.raises(FormatError, match="must have 5 dimensions, got 6"):
        read_word_vectors(tmp_path / "v.safetensors", ["dog"], d=5)


def test_words_with_blanks_fit_our_own_file_only(tmp_path: Path) -> None:
    vectors = VectorTable.of(["new york", "paris"], np.eye(2))
    assert VectorTable.load(vectors.save(tmp_path / "v.safetensors"))["new york"].tolist() == [1.0, 0.0]
    for name in ("v.bin", "v.txt"):
        with pytest.raises(DataError, match="The word 'new york' has a blank, which the word2vec format"):
            vectors.save(tmp_path / name)
    assert not list(tmp_path.glob("*.bin"))
    with pytest.raises(DataError, match=r"got 'v\.png'"):
        vectors.save(tmp_path / "v.png")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-3], "it is truncated"),
        (lambda data: data[:8] + b"[" + data[9:], "not a file of word vectors|header"),
        (lambda data: data[:5], "not a file of word vectors|header"),
        (lambda data: data.replace(b"catena-vectors", b"other--vectors"), "without word vectors"),
        (lambda data: data.replace(b'"version":"1"', b'"version":"9"'), "newer Catena"),
        (lambda data: b"\x80\x04" + data, "pickle"),
    ],
)
def test_damaged_file_raises_error(tmp_path: Path, change, message: str) -> None:
    path = some_vectors().save(tmp_path / "v.safetensors")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FormatError, match=message):
        VectorTable.load(path)


def test_network_weights_raise_error(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(FormatError, match=r"without word vectors \(it has weight\)"):
        VectorTable.load(tmp_path / "model.safetensors")


# --- words that were never seen ---------------------------------------------------------------------------------------


def test_unknown_words_get_the_mean_of_their_ngrams(tmp_path: Path) -> None:
    settings = VectorConfig(
        words=WordConfig(min_count=1), model=SkipGramConfig(d=8), threads=1, training=VectorTrainingConfig(epochs=1),
        subwords=SubwordConfig(shortest=2, longest=3, buckets=40),
    )  # fmt: skip
    model = train_vectors([["running", "runner", "sitting"]] * 30, settings).model
    vectors = VectorTable.of_model(model)
    again = VectorTable.load(vectors.save(tmp_path / "v.safetensors"))
    for table in (vectors, again):
        grams = [oracle.fnv1a(gram) % 40 for gram in oracle.character_ngrams("runs", 2, 3)]
        np.testing.assert_allclose(table["runs"], model.bucket_vectors()[grams].mean(0), rtol=1e-5)
        assert "runs" not in table
        assert len(table.most_similar("runs", 3)) == 3
    assert (again["running"] == vectors["running"]).all()
    long = Subwords(SubwordConfig(shortest=9, longest=9, buckets=40), vectors.subwords.rows)
    without = VectorTable(vectors.words, vectors.matrix, long)
    with pytest.raises(UnknownNameError, match="no character n-grams either"):
        without["ab"]


def test_context_vectors_and_both_side_by_side() -> None:
    settings = VectorConfig(
        words=WordConfig(min_count=1), model=SkipGramConfig(d=8), threads=1, training=VectorTrainingConfig(epochs=1)
    )
    model = train_vectors([["a", "b", "c"]] * 30, settings).model
    both = VectorTable.of_model(model, "both")
    assert both.d == 16
    assert (both["b"][8:] == VectorTable.of_model(model, "context")["b"]).all()
    assert (both["b"][:8] == VectorTable.of_model(model)["b"]).all()


def test_unknown_method_raises_error() -> None:
    with pytest.raises(DataError, match="must be 'add' or 'multiply', got 'multply'"):
        some_vectors().analogy("cat", "dog", "the", method="multply")
    assert some_vectors().most_similar_of_all([]) == []


def test_a_missing_word_is_a_key_error_whose_hint_is_searched_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from catena.vectors import word_index as module

    searched: list[str] = []

    def search(name: str, known: Iterable[str]) -> str:
        searched.append(name)
        return "did you mean 'cat'?"

    monkeypatch.setattr(module, "did_you_mean", search)
    vectors = VectorTable.of(["cat", "dog"], np.eye(2))
    for word in ("cta", "bird"):
        with pytest.raises(KeyError) as caught:
            vectors[word]
        assert caught.value.word == word  # type: ignore[attr-defined]
        assert vectors.get(word) is None
        assert vectors.get(word, vectors["dog"]) is not None
    assert searched == []
    assert str(caught.value) == str(caught.value) == "No vector for 'bird': did you mean 'cat'?"
    assert searched == ["bird"]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert np.array_equal(vectors.get("dog"), [0, 1])


def test_get_returns_the_vector_of_character_ngrams_too() -> None:
    settings = SubwordConfig(shortest=3, longest=3, buckets=8)
    vectors = VectorTable(
        WordIndex.of(["cat"]), np.ones((1, 2), np.float32), Subwords(settings, np.ones((8, 2), np.float32))
    )
    assert np.array_equal(vectors.get("cats"), vectors["cats"])
