"""n-gram models with dictionaries and fractions, straight from the formulas. Words are any hashable things.

Sentences are lists of words. ``BEGIN`` precedes each, ``END`` follows it. ``events`` are the words that may be
predicted, END among them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

BEGIN, END = "BEGIN", "END"
Gram = tuple
Prob = Callable[[Gram, object], Fraction]


def count(sentences: list[list], order: int) -> Counter:
    """All n-grams of lengths 1 to order; the single BEGIN is excluded, since it is never predicted."""
    found: Counter = Counter()
    for sentence in sentences:
        marked = [BEGIN, *sentence, END]
        for i in range(len(marked)):
            for k in range(1, order + 1):
                if i + k <= len(marked) and (i, k) != (0, 1):
                    found[tuple(marked[i : i + k])] += 1
    return found


def kneser_ney_count(counts: Counter, order: int) -> Counter:
    """Of n-grams that are shorter than the order, the number of different words before them."""
    found: Counter = Counter()
    for gram in counts:
        if len(gram) == order or gram[0] == BEGIN:
            found[gram] = counts[gram]
        else:
            found[gram] = len({longer[0] for longer in counts if longer[1:] == gram})
    return found


def after(counts: Counter, history: Gram) -> dict:
    """The words after a history, and how often."""
    return {g[-1]: n for g, n in counts.items() if g[:-1] == history and n > 0}


def seen_part(counts: Counter, history: Gram, order: int) -> Gram:
    """The longest end of a history, within the order, after which there is a word."""
    history = history[-(order - 1) :] if order > 1 else ()
    while history and not after(counts, history):
        history = history[1:]
    return history


# --- interpolation ---------------------------------------------------------------------------------------------


def interpolation(
    counts: Counter,
    order: int,
    events: list,
    discount: Callable[[int, int], Fraction],
    types: int = 0,
    kept: Callable[[Gram], bool] = lambda gram: True,
) -> Prob:
    """p(w | h) = [c(hw) - D(k, c)] / (c(h) + types · t(h)) + (what is left) · p(w | h')."""

    def prob(history: Gram, word: object) -> Fraction:
        history = history[-(order - 1) :] if order > 1 else ()
        below = prob(history[1:], word) if history else Fraction(1, len(events))
        here = after(counts, history)
        if not here:
            return below
        k = len(history) + 1
        total = sum(here.values()) + types * len(here)
        amounts = {w: Fraction(n) - discount(k, n) for w, n in here.items() if kept((*history, w))}
        left = (total - sum(amounts.values())) / Fraction(total)
        return amounts.get(word, Fraction(0)) / total + left * below

    return prob


def maximum_likelihood(sentences: list[list], order: int, events: list) -> Prob:
    return interpolation(count(sentences, order), order, events, lambda k, n: Fraction(0))


def witten_bell(sentences: list[list], order: int, events: list) -> Prob:
    return interpolation(count(sentences, order), order, events, lambda k, n: Fraction(0), types=1)


def counts_of_counts(counts: Counter, k: int) -> Counter:
    return Counter(n for gram, n in counts.items() if len(gram) == k)


def one_discount(counts: Counter, k: int) -> Fraction:
    n = counts_of_counts(counts, k)
    return Fraction(n[1], n[1] + 2 * n[2]) if n[1] else Fraction(1, 2)


def absolute_discounting(sentences: list[list], order: int, events: list) -> Prob:
    counts = count(sentences, order)
    discounts = {k: one_discount(counts, k) for k in range(1, order + 1)}
    return interpolation(counts, order, events, lambda k, n: discounts[k])


def kneser_ney(sentences: list[list], order: int, events: list) -> Prob:
    counts = kneser_ney_count(count(sentences, order), order)
    discounts = {k: one_discount(counts, k) for k in range(1, order + 1)}
    return interpolation(counts, order, events, lambda k, n: discounts[k])


def three_discounts(counts: Counter, k: int) -> list[Fraction]:
    fallback = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2)]
    n = counts_of_counts(counts, k)
    if not (n[1] and n[2] and n[3]):
        return fallback
    y = Fraction(n[1], n[1] + 2 * n[2])
    found = [Fraction(0)] + [i - (i + 1) * y * Fraction(n[i + 1], n[i]) for i in (1, 2, 3)]
    return found if all(0 <= found[i] <= i for i in (1, 2, 3)) else fallback


def modified_kneser_ney(sentences: list[list], order: int, events: list, prune: tuple[int, ...] = ()) -> Prob:
    raw = count(sentences, order)
    counts = kneser_ney_count(raw, order)
    discounts = {k: three_discounts(counts, k) for k in range(1, order + 1)}
    thresholds = [*prune, *([prune[-1] if prune else 0] * order)]
    return interpolation(
        counts,
        order,
        events,
        lambda k, n: discounts[k][min(n, 3)],
        kept=lambda gram: len(gram) == 1 or raw[gram] > thresholds[len(gram) - 1],
    )


# --- others ----------------------------------------------------------------------------------------------------


def stupid_backoff(sentences: list[list], order: int, events: list, weight: Fraction = Fraction(2, 5)) -> Prob:
    counts = count(sentences, order)

    def score(history: Gram, word: object) -> Fraction:
        history = seen_part(counts, history, order)
        here = after(counts, history)
        if word in here:
            return Fraction(here[word], sum(here.values()))
        return weight * score(history[1:], word) if history else weight / len(events)

    return score


def add_k(sentences: list[list], order: int, events: list, k: Fraction = Fraction(1)) -> Prob:
    counts = count(sentences, order)

    def prob(history: Gram, word: object) -> Fraction:
        here = after(counts, seen_part(counts, history, order))
        return (here.get(word, 0) + k) / (sum(here.values()) + k * len(events))

    return prob


def katz(sentences: list[list], order: int, events: list, most: int = 5) -> Prob:
    counts = count(sentences, order)
    ratios = {k: katz_ratio(counts_of_counts(counts, k), most) for k in range(1, order + 1)}

    def discounted(history: Gram, word: object) -> Fraction:
        here = after(counts, history)
        return ratios[len(history) + 1](here[word]) * Fraction(here[word], sum(here.values()))

    def of_word(word: object) -> Fraction:
        here = after(counts, ())
        found = {w: discounted((), w) for w in here}
        takers = [w for w in events if w not in here] or events
        share = (1 - sum(found.values())) / len(takers)
        return found.get(word, Fraction(0)) + (share if word in takers else 0)

    def prob(history: Gram, word: object) -> Fraction:
        history = seen_part(counts, history, order)
        if not history:
            return of_word(word)
        here = after(counts, history)
        given = sum(discounted(history, w) for w in here)
        room = 1 - sum(prob(history[1:], w) for w in here)
        if room == 0:
            return discounted(history, word) / given if word in here else Fraction(0)
        return discounted(history, word) if word in here else (1 - given) / room * prob(history[1:], word)

    return prob


def katz_ratio(n: Counter, most: int) -> Callable[[int], Fraction]:
    def half_off(c: int) -> Fraction:
        return (c - Fraction(1, 2)) / c if c <= most else Fraction(1)

    if not all(n[c] for c in range(1, most + 1)) or (most + 1) * n[most + 1] == n[1]:
        return half_off
    common = Fraction((most + 1) * n[most + 1], n[1])
    found = {c: (Fraction((c + 1) * n[c + 1], c * n[c]) - common) / (1 - common) for c in range(1, most + 1)}
    return (lambda c: found.get(c, Fraction(1))) if all(0 < r <= 1 for r in found.values()) else half_off


def good_turing(sentences: list[list], order: int, events: list) -> Callable[[Gram, object], float]:
    counts = count(sentences, order)
    stars = {k: good_turing_stars(counts_of_counts(counts, k), float(len(events)) ** k) for k in range(1, order + 1)}

    def prob(history: Gram, word: object) -> float:
        history = seen_part(counts, history, order)
        here, star = after(counts, history), stars[len(history) + 1]
        total = sum(star(n) for n in here.values()) + (len(events) - len(here)) * star(0)
        return star(here.get(word, 0)) / total

    return prob


def good_turing_stars(n: Counter, kinds: float) -> Callable[[int], float]:
    """Gale & Sampson (1995), section 5: 'A Simple Good-Turing Estimator'."""
    rows = sorted(n.items())
    unseen = kinds - sum(n.values())
    if len(rows) < 2 or rows[0][0] != 1 or unseen < 0.5:
        return lambda c: float(c) if c else (0.5 / unseen if unseen >= 0.5 else 0.0)
    total = sum(c * number for c, number in rows)
    points = []
    for i, (c, number) in enumerate(rows):
        low = rows[i - 1][0] if i else 0
        high = rows[i + 1][0] if i + 1 < len(rows) else 2 * c - low
        points.append((math.log(c), math.log(number / (0.5 * (high - low)))))
    mean_x, mean_y = (sum(p[j] for p in points) / len(points) for j in (0, 1))
    gradient = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    gradient = min(gradient, -1.0)
    by_line = {c: c * (1 + 1 / c) ** (gradient + 1) for c in range(1, rows[-1][0] + 1)}
    stars, turing_holds = {}, True
    for c, line in by_line.items():
        turing_holds = turing_holds and n[c] > 0 and n[c + 1] > 0
        if turing_holds:
            turing = (c + 1) * n[c + 1] / n[c]
            deviation = math.sqrt((c + 1) ** 2 * n[c + 1] / n[c] ** 2 * (1 + n[c + 1] / n[c]))
            turing_holds = abs(turing - line) > 1.65 * deviation
        stars[c] = turing if turing_holds else line
    scale = (1 - n[1] / total) * total / sum(stars[c] * number for c, number in rows)
    return lambda c: stars[c] * scale if c else n[1] / unseen


ESTIMATORS = {
    "maximum-likelihood": maximum_likelihood,
    "add-k": add_k,
    "good-turing": good_turing,
    "katz": katz,
    "stupid-backoff": stupid_backoff,
    "witten-bell": witten_bell,
    "absolute-discounting": absolute_discounting,
    "kneser-ney": kneser_ney,
    "modified-kneser-ney": modified_kneser_ney,
}
