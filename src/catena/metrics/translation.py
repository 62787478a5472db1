r"""BLEU, chrF and TER as in sacrebleu (Post 2018), as functions of sums over sentences.

.. math::  \mathrm{BLEU} = \min(1, e^{1 - r/c}) \prod_{n=1}^{4} p_n^{1/4}, \qquad
           \mathrm{chrF} = \frac{5 P R}{4 P + R}, \qquad \mathrm{TER} = \frac{\text{edits}}{r}

Papineni et al. 2002; Popović 2015; Snover et al. 2006. All range from 0 to 100, as in sacrebleu, except that TER may be
higher. The statistics of a sentence (matches, n-grams, lengths) of BLEU and TER are counted by sacrebleu, whose
signature is kept; chrF needs no package. The scores of sums are computed here for many corpora together, so that
intervals and paired tests do not count again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.extras import require
from catena.metrics.measure import Metric, MetricValue, as_pairs
from catena.registry import did_you_mean

_Cut = Literal["13a", "intl", "zh", "char", "none"]
"""The tokenizer of sacrebleu for BLEU: 13a for most languages, zh for Chinese, char for scripts without blanks, none
for texts that are tokenized already."""

_WORD = re.compile(r"\w+")
ORDER, LETTERS = 4, 6
"""The maximum length of word n-grams in BLEU, and of character n-grams in chrF."""

_CHRF = "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no"
"""The signature of chrF, as sacrebleu writes it, without a version."""
TRANSLATION_METRICS = ("bleu", "bleu_lowercase", "chrf", "ter")
"""The names of the metrics in this module. Lower TER is better."""


def translation_measure(name: str, cut: _Cut = "13a") -> Metric:
    """A metric of translations by name, for untokenized references and predictions.

    A reference is a text, or a sequence of texts: then n-grams may match any of them, and the length of the one that is
    closest to the prediction counts.

    Args:
        name: ``bleu``, ``bleu_lowercase`` (both sides in lower case), ``chrf`` or ``ter``.
        cut: the tokenizer of BLEU.
    """
    if name not in TRANSLATION_METRICS:
        raise DataError(f"Unknown metric of translations {name!r}: {did_you_mean(name, TRANSLATION_METRICS)}")
    if name == "chrf":
        return Metric(_CHRF, partial(_statistics, _chrf_counts, "chrF2"), chrf_of_sums)
    counter = _counter(name, cut)
    counter.num_refs = 1
    title, score = ("TER", ter_of_sums) if name == "ter" else ("BLEU", bleu_of_sums)
    signature = f"{title}|{counter.get_signature().format()}"
    count = partial(_counts_of_sacrebleu, counter)
    return Metric(signature, partial(_statistics, count, title), score, higher_is_better=title != "TER")


def _counter(name: str, cut: _Cut) -> Any:
    """The metric object of sacrebleu."""
    metrics = require("sacrebleu.metrics", "translate", f"scoring translations by {name}")
    if name == "ter":
        return metrics.TER()
    return metrics.BLEU(lowercase=name == "bleu_lowercase", tokenize=cut, force=True)


def _counts_of_sacrebleu(counter: Any, references: Sequence[tuple[str, ...]], predictions: Sequence[str]) -> Any:
    most = max(map(len, references))
    streams = [[own[k] if k < len(own) else None for own in references] for k in range(most)]
    return counter._extract_corpus_statistics(predictions, streams)


def _chrf_counts(references: Sequence[tuple[str, ...]], predictions: Sequence[str]) -> list[np.ndarray]:
    """The statistics of each prediction and the reference with the highest chrF."""
    found = []
    for own, text in zip(references, predictions, strict=True):
        given = _letter_ngrams(text)
        counts = np.array([_matches(given, _letter_ngrams(reference)) for reference in own], np.float64)
        found.append(counts[int(np.argmax(chrf_of_sums(counts)))])
    return found


def _letter_ngrams(text: str) -> list[Counter[str]]:
    """The n-grams of 1 to 6 characters other than blanks, by their length."""
    text = "".join(text.split())
    return [Counter(text[i : i + n] for i in range(len(text) - n + 1)) for n in range(1, LETTERS + 1)]


def _matches(given: list[Counter[str]], wanted: list[Counter[str]]) -> list[int]:
    pairs = list(zip(given, wanted, strict=True))
    rows = ((one.total() if other else 0, other.total(), (one & other).total()) for one, other in pairs)
    return [count for row in rows for count in row]


def _statistics(
    count: Callable[..., Any], title: str, references: Sequence[str | Sequence[str]], predictions: Sequence[str]
) -> np.ndarray:
    if isinstance(references, str) or isinstance(predictions, str):
        raise DataError(f"{title} needs lists of texts, got one text. Put the reference and the prediction in lists.")
    right, given = as_pairs(title, references, predictions)
    several = [(one,) if isinstance(one, str) or not isinstance(one, list | tuple) else tuple(one) for one in right]
    texts = [*((f"reference {i}", text) for i, own in enumerate(several) for text in own or (None,))]
    texts += [(f"prediction {i}", text) for i, text in enumerate(given)]
    for what, text in texts:
        if not isinstance(text, str):
            raise DataError(
                f"{title} needs strings, got {what} of type {type(text).__name__}. "
                "Join tokens by blanks, and pass a reference, or a tuple of references, for each prediction."
            )
    return np.array(count(several, given), np.float64)


def bleu_of_sums(sums: Float[np.ndarray, "*batch 10"], order: int = ORDER) -> Float[np.ndarray, "*batch"]:
    """BLEU from the lengths of both sides, matches and n-grams, with exponential smoothing of zero matches.

    Args:
        sums: the lengths of predictions and references, and the matches and numbers of n-grams of sizes 1 to 4.
        order: the maximum length of the n-grams that count.
    """
    given, wanted = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2 : 2 + order], sums[..., 2 + ORDER : 2 + ORDER + order]
    misses = np.cumsum(matches == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, 0.5**misses) / totals
        brevity = np.where(given < wanted, np.exp(1 - wanted / given), 1.0)
        score = 100 * brevity * np.exp(np.log(precisions).mean(axis=-1))
    possible = (matches.sum(axis=-1) > 0) & (totals > 0).all(axis=-1)
    return np.where(possible, score, 0.0)


def caption_measures(cut: _Cut | Literal["words"] = "words") -> dict[str, Metric]:
    """BLEU-1 to BLEU-4 and chrF of captions with several references each.

    Args:
        cut: the tokenizer of BLEU; ``words`` compares words in lower case without punctuation, as papers on captions
            do.
    """
    bleu, chrf = translation_measure("bleu", "none" if cut == "words" else cut), translation_measure("chrf")
    options = bleu.name.partition("|")[2].replace("nrefs:1|", "nrefs:var|")
    if cut == "words":
        options = options.replace("case:mixed", "case:lc").replace("tok:none", "tok:words")
    statistics = partial(_of_words, bleu.statistics) if cut == "words" else bleu.statistics
    measures = {
        f"bleu_{n}": Metric(f"BLEU-{n}|{options}", statistics, partial(bleu_of_sums, order=n))
        for n in range(1, ORDER + 1)
    }
    return {**measures, "chrf": Metric(chrf.name.replace("nrefs:1|", "nrefs:var|"), chrf.statistics, chrf.score)}


def _of_words(
    count: Callable[..., np.ndarray], references: Sequence[Sequence[str]], predictions: Sequence[str]
) -> np.ndarray:
    return count([tuple(map(words_only, own)) for own in references], [words_only(text) for text in predictions])


def words_only(text: str) -> str:
    """The words of a text in lower case, separated by blanks, without punctuation."""
    return " ".join(_WORD.findall(text.lower()))


def chrf_of_sums(sums: Float[np.ndarray, "*batch 18"]) -> Float[np.ndarray, "*batch"]:
    """F2 of the mean precision and recall over the n-gram orders that both sides have."""
    counts = sums.reshape(*sums.shape[:-1], LETTERS, 3)
    given, wanted, matches = counts[..., 0], counts[..., 1], counts[..., 2]
    both = (given > 0) & (wanted > 0)
    orders = np.maximum(both.sum(axis=-1), 1)
    precision = (np.where(both, matches, 0) / np.maximum(given, 1)).sum(axis=-1) / orders
    recall = (np.where(both, matches, 0) / np.maximum(wanted, 1)).sum(axis=-1) / orders
    below = 4 * precision + recall
    return np.where(below > 0, 500 * precision * recall / np.where(below > 0, below, 1.0), 0.0)


def ter_of_sums(sums: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch"]:
    """Edits divided by the length of the references; 100 if a reference is empty and its prediction is not."""
    edits, wanted = sums[..., 0], sums[..., 1]
    return np.where(wanted > 0, 100 * edits / np.where(wanted > 0, wanted, 1.0), np.where(edits > 0, 100.0, 0.0))


def bleu(references: Sequence[str | Sequence[str]], predictions: Sequence[str], tokenize: _Cut = "13a") -> MetricValue:
    """Corpus BLEU of ``predictions`` in [0, 100], as sacrebleu computes it.

    Args:
        references: one reference for each prediction, or a tuple of several.
        predictions: detokenized texts.
        tokenize: how sacrebleu splits texts into words.
    """
    return translation_measure("bleu", tokenize)(references, predictions)


def chrf(references: Sequence[str | Sequence[str]], predictions: Sequence[str]) -> MetricValue:
    """Corpus chrF2 of ``predictions`` in [0, 100], as sacrebleu computes it.

    Args:
        references: the reference of each prediction, or several.
        predictions: the predicted texts.
    """
    return translation_measure("chrf")(references, predictions)


def ter(references: Sequence[str], predictions: Sequence[str]) -> MetricValue:
    """Translation edit rate of ``predictions`` in percent, as sacrebleu computes it; lower is better.

    Args:
        references: the reference of each prediction.
        predictions: the predicted texts.
    """
    return translation_measure("ter")(references, predictions)
