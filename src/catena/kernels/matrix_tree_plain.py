r"""The matrix-tree theorem without subtraction, by plain torch; any number of derivatives.

The summed weight of all trees is a determinant (Tutte 1948), but its terms cancel: with scores that differ by
100 nats nothing is left of it in float64. Eliminating one word after the other needs no subtraction, as
Grassmann, Taksar and Heyman (1985) found for Markov chains. With arcs :math:`w_{hm}` and roots :math:`r_m`,
the last word :math:`k` has

.. math::
    d = r_k + \sum_{h<k} w_{hk}, \qquad
    w_{hm} \leftarrow w_{hm} + \frac{w_{hk} w_{km}}{d}, \qquad r_m \leftarrow r_m + \frac{r_k w_{km}}{d}

and :math:`Z` is the product of all :math:`d`: who would hang from :math:`k` hangs from its head instead. All
of it is in log space here.

**A single root.** :math:`Z` is then the part of the sum that is linear in the roots. Words that can head
every other, over any number of arcs, are the *core*: the root's dependent is one of them, and they have no
head outside. So trees are a tree of the core, where :math:`d` leaves out :math:`r_k` except for the last
word, times a forest of the others that hang from the core. Where every arc is possible all words are the
core.

**Probabilities.** A word has head h in proportion to :math:`w_{hm}` times the probability that a walk from h up,
which takes each head in proportion to its weight, ends at the root before it comes to m (Wilson 1996). That
probability comes from eliminating all others and going back, without subtraction too: no probability is ever below
0, and the least ones are as exact as the greatest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from catena.kernels.arc_sums import possible_arcs
from catena.numerics import NEG_INF, log_add_exp, log_sum_exp


def plain_log_partition(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """log Z of every row; -inf where there is no tree, nan where a score is nan or +inf."""
    sound, wrong = _without_wrong_rows(arcs, lengths)
    log_z = _log_partition(*_prepared(sound, lengths, single_root))
    return torch.where(wrong, torch.nan, log_z).to(arcs.dtype)


def plain_marginals(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """The probability of every arc; 0 everywhere where there is no tree, nan where a score is nan or +inf."""
    arcs, wrong = _without_wrong_rows(arcs, lengths)
    words, roots, core, possible = _prepared(arcs, lengths, single_root)
    t = roots.shape[-1]
    # For each word an order of its own, in which it comes first, so that it is left at the end.
    number = torch.arange(t, device=arcs.device)
    order = torch.where(number == 0, number[:, None], number - (number <= number[:, None]).to(number.dtype))
    mine, own_core = words[:, order[:, :, None], order[:, None, :]], core[:, order]
    log_z, steps = _eliminated(mine, roots[:, order], own_core)
    possible = possible & (log_z[:, 0] > NEG_INF)
    escape = torch.full_like(mine[..., :1, 0], NEG_INF)
    for to_words, to_root in reversed(steps[:-1]):
        here = log_sum_exp(torch.cat((to_words + escape, to_root[..., None]), dim=-1), dim=-1)
        escape = torch.cat((escape, here[..., None]), dim=-1)
    # escape[b, m, i] is of the word order[m, i]; back to [b, h, m].
    escape = escape.gather(-1, order.argsort(-1).expand(escape.shape)).transpose(-1, -2)
    direct = core[..., :, None] & ~core[..., None, :]  # nobody in the core comes to a word outside
    ways = possible_arcs(arcs.double(), lengths)[:, :, 1:]
    ways = torch.cat((ways[:, :1], ways[:, 1:] + torch.where(direct, 0.0, escape)), dim=1)
    blocked = (core.any(-1, keepdim=True) & ~core)[:, None] & (torch.arange(t + 1, device=arcs.device) == 0)[:, None]
    ways = torch.where(blocked, NEG_INF, ways)
    total = log_sum_exp(ways, dim=1)[:, None]
    there = possible[:, None, None] & (total > NEG_INF)
    chances = torch.where(there, (ways - torch.where(total == NEG_INF, 0.0, total)).exp(), 0.0)
    chances = torch.cat((torch.zeros_like(chances[:, :, :1]), chances), dim=-1)
    return torch.where(wrong[:, None, None], torch.nan, chances).to(arcs.dtype)


def _without_wrong_rows(arcs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Arcs with no tree in rows where one is nan or +inf, and which rows these are."""
    wrong = ~(possible_arcs(arcs, lengths).flatten(1).amax(1) < torch.inf)
    return torch.where(wrong[:, None, None], NEG_INF, arcs), wrong


def _prepared(arcs: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Arcs between words, roots, the core, and whether there can be a tree.

    Words that are not real hang from the root by an arc of weight 1, which changes no sum.
    """
    arcs = possible_arcs(arcs.double(), lengths)
    words, roots = arcs[:, 1:, 1:], arcs[:, 0, 1:]
    real = torch.arange(roots.shape[-1], device=arcs.device) < lengths[:, None]
    if not single_root:
        return words, torch.where(real, roots, 0.0), torch.zeros_like(real), torch.ones_like(real[:, 0])
    core = _core(words > NEG_INF, real)
    leaving = core[:, :, None] & ~core[:, None, :]
    from_core = log_sum_exp(torch.where(leaving, words, NEG_INF), dim=1)
    roots = torch.where(core, roots, torch.where(real, from_core, 0.0))
    return torch.where(leaving, NEG_INF, words), roots, core, core.any(-1) | ~real.any(-1)


def _core(arc: Tensor, real: Tensor) -> Tensor:
    """The words that can be an ancestor of all others."""
    n = arc.shape[-1]
    reaches = (arc | torch.eye(n, dtype=torch.bool, device=arc.device)).double()
    for _ in range(max(n - 1, 1).bit_length()):
        reaches = (reaches @ reaches > 0).double()
    return ((reaches > 0) | ~real[:, None, :]).all(-1) & real


def _log_partition(words: Tensor, roots: Tensor, core: Tensor, possible: Tensor) -> Tensor:
    total = _eliminated(words, roots, core)[0]
    # A total of -inf would pass a gradient on to its other terms.
    return torch.where(possible & (total > NEG_INF), total, NEG_INF)


def _eliminated(words: Tensor, roots: Tensor, core: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """log Z, and for each word, the last first, the log-probabilities of its heads: those before it, and the root."""
    total = torch.zeros_like(roots[..., 0])
    steps = []
    for k in range(roots.shape[-1] - 1, -1, -1):
        into, root, out = words[..., :k, k], roots[..., k], words[..., k, :k]
        d = log_sum_exp(torch.cat((into, torch.where(core[..., k], NEG_INF, root)[..., None]), dim=-1), dim=-1)
        d = torch.where(core[..., k] & (d == NEG_INF), root, d)
        total = total + d
        d = torch.where(d == NEG_INF, 0.0, d)
        to_words, to_root = into - d[..., None], root - d
        words = log_add_exp(words[..., :k, :k], to_words[..., :, None] + out[..., None, :])
        roots = log_add_exp(roots[..., :k], to_root[..., None] + out)
        steps.append((to_words, to_root))
    return total, steps
