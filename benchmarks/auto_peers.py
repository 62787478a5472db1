"""Other libraries on the cells of benchmarks/auto.py, such as scikit-learn, fastText, FLAML, CRFsuite and spaCy.

    python benchmarks/auto_peers.py $CATENA_DATA -o OUT --peers sklearn [--only MR] [--sizes 500 all] [--minutes 1]

scikit-learn chooses among TF-IDF features and penalties by cross-validation, fastText and FLAML search for as long as
the cell, and CRFsuite chooses its penalties on a tenth of the training data. Models are then trained on all of it.
spaCy trains its default tagger, lemmatizer or parser, without vectors, on nine tenths for as long as the cell, in CPU
time, and keeps the best of its evaluations on the other tenth. Phonetisaurus has its default options. The library
transformers has no training of its own for such tasks, so it is a usual loop for a small model.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from auto import SETS, Cells, DataSet, split_examples, write_files

from catena.metrics.spans import span_f1, spans_of_tags

PENALTIES = ((0.0, 0.01), (0.0, 0.1), (0.0, 1.0), (0.1, 0.01), (0.1, 0.1))
Texts = tuple[list[str], list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], help="tasks or data sets")
    parser.add_argument("--sizes", nargs="*", default=["500", "all"])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    cells = Cells(options.output / "cells.jsonl")
    for data, size, peer in itertools.product(SETS, options.sizes, options.peers):
        if PEERS[peer][0] != data.task or (options.only and not {data.name, data.task} & set(options.only)):
            continue
        work = options.output / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        train, test = write_files(data, size, options.data, work)
        key = {"data": data.name, "size": size, "minutes": options.minutes, "model": peer}
        cells.get(key, partial(measure, PEERS[peer][1], data, train[0], test[0], 60 * options.minutes))
    cells.print_table()


def measure(fit: Callable[..., float], data: DataSet, train: Path, test: Path, seconds: float) -> dict[str, object]:
    began, before = time.monotonic(), sum(os.times()[:4])
    score = fit(data, train, test, seconds)
    return {"score": score, "seconds": time.monotonic() - began, "cpu": sum(os.times()[:4]) - before}


# --- texts ------------------------------------------------------------------------------------------------------------


def read_texts(path: Path) -> Texts:
    """The texts and labels of a file whose lines begin with the label."""
    rows = [line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines() if " " in line]
    return [text for _, text in rows], [label for label, _ in rows]


def fit_sklearn(data: DataSet, train: Path, test: Path, seconds: float) -> float:
    """The best of eight linear models on TF-IDF features of words and characters, by five folds."""
    linear = importlib.import_module("sklearn.linear_model")
    svm = importlib.import_module("sklearn.svm")
    text = importlib.import_module("sklearn.feature_extraction.text")
    pipeline = importlib.import_module("sklearn.pipeline")
    selection = importlib.import_module("sklearn.model_selection")
    texts, labels = read_texts(train)
    words = text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    characters = text.TfidfVectorizer(ngram_range=(2, 5), analyzer="char_wb", sublinear_tf=True)
    found: list[tuple[float, Any]] = []
    for vectorizer, kind in itertools.product((words, characters), (linear.LogisticRegression, svm.LinearSVC)):
        for c in (0.3, 1.0, 3.0, 10.0):
            both = pipeline.make_pipeline(vectorizer, kind(C=c, max_iter=1000))
            found.append((selection.cross_val_score(both, texts, labels, cv=5).mean(), both))
    best = max(found, key=lambda one: one[0])[1].fit(texts, labels)
    return float(best.score(*read_texts(test)))


def fit_fasttext(data: DataSet, train: Path, test: Path, seconds: float) -> float:
    """fastText with its own search on a tenth of the training data."""
    fasttext = importlib.import_module("fasttext")
    texts, labels = read_texts(train)
    lines = [f"__label__{label} {text}\n" for text, label in zip(texts, labels, strict=True)]
    cut = len(lines) - len(lines) // 10
    for name, part in (("rest", lines[:cut]), ("dev", lines[cut:])):
        (train.parent / name).write_text("".join(part), encoding="utf-8")
    model = fasttext.train_supervised(
        str(train.parent / "rest"), autotuneValidationFile=str(train.parent / "dev"), autotuneDuration=int(seconds),
        thread=1, verbose=0,
    )  # fmt: skip
    texts, labels = read_texts(test)
    found = [model.f.predict(f"{text}\n", 1, 0.0, "strict")[0][1] for text in texts]
    return sum(a == f"__label__{b}" for a, b in zip(found, labels, strict=True)) / len(labels)


def fit_flaml(data: DataSet, train: Path, test: Path, seconds: float) -> float:
    """FLAML on TF-IDF features of words."""
    flaml, numpy = importlib.import_module("flaml"), importlib.import_module("numpy")
    text = importlib.import_module("sklearn.feature_extraction.text")
    texts, labels = read_texts(train)
    words = text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=20_000)
    search = flaml.AutoML()
    names = sorted(set(labels))
    gold = numpy.array([names.index(label) for label in labels])
    search.fit(
        words.fit_transform(texts), gold, task="classification", time_budget=seconds, metric="accuracy",
        estimator_list=["lgbm", "lrl1", "rf", "extra_tree"], n_jobs=1, verbose=0,
    )  # fmt: skip
    texts, labels = read_texts(test)
    predicted = search.predict(words.transform(texts))
    return sum(names[int(p)] == y for p, y in zip(predicted, labels, strict=True)) / len(labels)


# --- tags -------------------------------------------------------------------------------------------------------------


def read_tagged(data: DataSet, path: Path) -> list[list[tuple[str, str]]]:
    """The words and tags of the sentences of a file in the format of CoNLL."""
    column = 2 if "lemma" in data.options else 3
    sentences = []
    for block in split_examples(path.read_text(encoding="utf-8"), "\n\n"):
        rows = [line.split("\t" if "\t" in line else None) for line in block.split("\n")]
        if path.suffix == ".conllu":  # other lines are comments, and words that are written together
            sentences.append([(row[1], row[column]) for row in rows if row[0].isdigit()])
        else:
            sentences.append([(row[0], row[-1]) for row in rows if row])
    return [sentence for sentence in sentences if sentence]


def features(words: Sequence[str], i: int) -> list[str]:
    """Words, affixes and shapes: those of CRFsuite's tutorials."""
    word = words[i]
    found = ["bias", f"word={word}", f"lower={word.lower()}", f"title={word.istitle()}", f"digit={word.isdigit()}"]
    found += [f"suffix{n}={word[-n:]}" for n in (1, 2, 3, 4)] + [f"prefix{n}={word[:n]}" for n in (1, 2, 3)]
    for offset in (-2, -1, 1, 2):
        j = i + offset
        found.append(f"{offset}={words[j].lower() if 0 <= j < len(words) else '-'}")
    return found


def fit_crfsuite(data: DataSet, train: Path, test: Path, seconds: float) -> float:
    """CRFsuite with the penalties that are best on a tenth of the training data."""
    pycrfsuite = importlib.import_module("pycrfsuite")

    def learn(sentences: list[list[tuple[str, str]]], c1: float, c2: float) -> Any:
        trainer = pycrfsuite.Trainer(verbose=False)
        for sentence in sentences:
            words = [word for word, _ in sentence]
            trainer.append([features(words, i) for i in range(len(words))], [tag for _, tag in sentence])
        trainer.set_params({"c1": c1, "c2": c2, "max_iterations": 100})
        trainer.train(str(train.parent / "model"))
        tagger = pycrfsuite.Tagger()
        tagger.open(str(train.parent / "model"))
        return tagger

    def score(tagger: Any, sentences: list[list[tuple[str, str]]]) -> float:
        gold = [[tag for _, tag in sentence] for sentence in sentences]
        found = []
        for sentence in sentences:
            words = [word for word, _ in sentence]
            found.append(tagger.tag([features(words, i) for i in range(len(words))]))
        if data.metric == "f1":
            return float(span_f1(spans_of_tags(gold), spans_of_tags(found)))
        pairs = [(a, b) for x, y in zip(gold, found, strict=True) for a, b in zip(x, y, strict=True)]
        return sum(a == b for a, b in pairs) / len(pairs)

    sentences, began = read_tagged(data, train), time.monotonic()
    cut = len(sentences) - len(sentences) // 10
    tried = []
    for c1, c2 in PENALTIES:
        if not tried or time.monotonic() - began < seconds / 2:
            tried.append((score(learn(sentences[:cut], c1, c2), sentences[cut:]), c1, c2))
    _, c1, c2 = max(tried)
    return score(learn(sentences, c1, c2), read_tagged(data, test))


# --- dependencies, and tags by networks -------------------------------------------------------------------------------


def read_conllu(path: Path) -> list[dict[str, list[Any]]]:
    """The columns of each sentence as spaCy has them: the head of the root is the root."""
    sentences = []
    for block in split_examples(path.read_text(encoding="utf-8"), "\n\n"):
        rows = [row for line in block.split("\n") if (row := line.split("\t"))[0].isdigit()]
        heads = [int(row[6]) - 1 if row[6] != "0" else i for i, row in enumerate(rows)]
        names = {"words": 1, "lemmas": 2, "tags": 3, "deps": 7}
        sentences.append({**{name: [row[i] for row in rows] for name, i in names.items()}, "heads": heads})
    return [sentence for sentence in sentences if sentence["words"]]


def fit_spacy(data: DataSet, train: Path, test: Path, seconds: float) -> float:
    """A component of spaCy with its default network, trained in batches that grow from 100 to 1,000 words."""
    spacy = importlib.import_module("spacy")
    doc = importlib.import_module("spacy.tokens").Doc
    training = importlib.import_module("spacy.training")
    by_words = importlib.import_module("spacy.training.batchers").minibatch_by_words
    began = time.process_time()
    spacy.util.fix_random_seed(0)
    kind = "lemmas" if "lemma" in data.options else "tags" if data.task == "tag" else "deps"
    nlp = spacy.blank("xx")
    nlp.add_pipe({"lemmas": "trainable_lemmatizer", "tags": "tagger", "deps": "parser"}[kind])
    sentences, tests = read_conllu(train), read_conllu(test)
    examples = [
        training.Example(doc(nlp.vocab, words=one["words"]), doc(nlp.vocab, **one, sent_starts=None))
        for one in sentences
    ]
    cut = len(examples) - len(examples) // 10
    optimizer = nlp.initialize(lambda: examples)

    def score(gold: list[dict[str, list[Any]]]) -> float:
        right = total = 0
        for one, found in zip(gold, nlp.pipe(doc(nlp.vocab, words=one["words"]) for one in gold), strict=True):
            for i, token in enumerate(found):
                if kind == "deps":
                    right += token.head.i == one["heads"][i] and token.dep_.lower() == one["deps"][i].lower()
                else:
                    right += (token.lemma_ if kind == "lemmas" else token.tag_) == one[kind][i]
            total += len(found)
        return right / total

    sizes = (min(1000.0, 100 * 1.001**i) for i in itertools.count())
    rng, best, needed = random.Random(0), (0.0, nlp.to_bytes()), 0.0
    while time.process_time() - began < seconds - 2 * needed:
        rng.shuffle(first := examples[:cut])
        for batch in by_words(first, size=sizes):
            nlp.update(batch, sgd=optimizer, drop=0.1)
            if time.process_time() - began > seconds - 2 * needed:
                break
        evaluated = time.process_time()
        best = max(best, (score(sentences[cut:]), nlp.to_bytes()), key=lambda one: one[0])
        needed = (time.process_time() - evaluated) * (1 + len(tests) / (len(sentences) - cut))
    nlp.from_bytes(best[1])
    return score(tests)


# --- transductions and translations -----------------------------------------------------------------------------------


def read_pairs(path: Path) -> list[tuple[str, list[str]]]:
    """The words of a lexicon and their symbols: pronunciations behind a blank, or spellings behind a tab."""
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        source, _, target = line.partition("\t" if "\t" in line else " ")
        pairs.append((source.strip(), list(target.strip()) if "\t" in line else target.split()))
    return pairs


def fit_phonetisaurus(data: DataSet, train: Path, test: Path, seconds: float) -> float:
    """Phonetisaurus with its default options; a word is wrong if its output is none of its targets."""
    phonetisaurus = importlib.import_module("phonetisaurus")
    environment = {**os.environ, **phonetisaurus.guess_environment()}
    lexicon, model = train.parent / "lexicon", train.parent / "model.fst"
    lexicon.write_text("".join(f"{x}\t{' '.join(y)}\n" for x, y in read_pairs(train)), encoding="utf-8")
    options = ["--lexicon", str(lexicon), "--seq2_del"]
    subprocess.run(["phonetisaurus-train", *options], cwd=train.parent, env=environment, check=True)
    shutil.copy(train.parent / "train" / "model.fst", model)
    targets: dict[str, list[list[str]]] = {}
    for source, target in read_pairs(test):
        targets.setdefault(source, []).append(target)
    found = dict(phonetisaurus.predict(targets, model, env=environment))
    return sum(found.get(source) not in some for source, some in targets.items()) / len(targets)


def fit_transformers(data: DataSet, train: Path, test: Path, seconds: float) -> float:
    """A Transformer of the library transformers from scratch, with 4,000 subwords, trained for the time of the cell.

    Three layers of 256 units on each side, batches of 32 pairs, a learning rate that rises to 0.0007 and falls to 0,
    greedy search.
    """
    torch, hf = importlib.import_module("torch"), importlib.import_module("transformers")
    tokenizers, bleu = importlib.import_module("tokenizers"), importlib.import_module("catena.metrics.translation").bleu
    began = time.process_time()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    def read(path: Path) -> list[str]:
        return path.read_text(encoding="utf-8").lower().splitlines()

    sides = [(read(path), read(path.with_suffix(".de"))) for path in (train, test)]
    cutter = tokenizers.SentencePieceBPETokenizer()
    cutter.train_from_iterator([*sides[0][0], *sides[0][1]], 4000, special_tokens=["<pad>", "</s>", "<s>", "<unk>"])
    config = hf.MarianConfig(
        vocab_size=4000, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, dropout=0.1, pad_token_id=0,
        eos_token_id=1, decoder_start_token_id=2, forced_eos_token_id=1, max_position_embeddings=256,
    )  # fmt: skip
    model = hf.MarianMTModel(config)
    ids = [[[*cutter.encode(line).ids[:100], 1] for line in lines] for lines in sides[0]]
    sources = [[*cutter.encode(line).ids[:100], 1] for line in sides[1][0]]

    def padded(rows: list[list[int]], fill: int) -> Any:
        return torch.tensor([row + [fill] * (max(map(len, rows)) - len(row)) for row in rows])

    optimizer = torch.optim.Adam(model.parameters(), 7e-4, betas=(0.9, 0.98))
    rng, step, limit = random.Random(0), 0, 0.85 * seconds  # the rest of the time is for translating the test set
    while (spent := time.process_time() - began) < limit:
        rows = rng.sample(range(len(ids[0])), 32)
        x, y = padded([ids[0][i] for i in rows], 0), padded([ids[1][i] for i in rows], -100)
        for group in optimizer.param_groups:
            group["lr"] = 7e-4 * min((step + 1) / 100, 1 - spent / limit)
        optimizer.zero_grad()
        model(input_ids=x, attention_mask=(x != 0).long(), labels=y).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
    model.eval()
    written = []
    for i in range(0, len(sources), 50):
        x = padded(sources[i : i + 50], 0)
        out = model.generate(input_ids=x, attention_mask=(x != 0).long(), max_new_tokens=60, num_beams=1)
        written += [cutter.decode(row) for row in out.tolist()]
    return float(bleu(sides[1][1], written))


PEERS: dict[str, tuple[str, Callable[..., float]]] = {
    "sklearn": ("classify", fit_sklearn),
    "fasttext": ("classify", fit_fasttext),
    "flaml": ("classify", fit_flaml),
    "crfsuite": ("tag", fit_crfsuite),
    "spacy-tagger": ("tag", fit_spacy),
    "spacy-parser": ("parse", fit_spacy),
    "phonetisaurus": ("transduce", fit_phonetisaurus),
    "transformers": ("translate", fit_transformers),
}

if __name__ == "__main__":
    main()
