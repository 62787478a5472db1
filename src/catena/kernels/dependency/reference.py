r"""Reference implementations of sums over dependency trees; any number of derivatives.

**Projective trees** are summed by the algorithm of Eisner (1996).

**Non-projective trees.** The summed weight of all trees is a determinant (Tutte 1948), but its terms cancel: with
scores that differ by 100 nats nothing is left of it in float64. Eliminating one word after the other needs no
subtraction, as Grassmann, Taksar and Heyman (1985) found for Markov chains. With arcs :math:`w_{hm}` and roots
:math:`r_m`, the last word :math:`k` has

.. math::
    d = r_k + \sum_{h<k} w_{hk}, \qquad
    w_{hm} \leftarrow w_{hm} + \frac{w_{hk} w_{km}}{d}, \qquad r_m \leftarrow r_m + \frac{r_k w_{km}}{d}

and :math:`Z` is the product of all :math:`d`: a dependent of :math:`k` becomes a dependent of its head instead. The
computation is in log space.

**A single root.** :math:`Z` is then the part of the sum that is linear in the roots. Words that can head every other,
over any number of arcs, are the *core*: the root's dependent is one of them, and they have no head outside. So trees
are a tree of the core, where :math:`d` leaves out :math:`r_k` except for the last word, times a forest of the others
whose roots are in the core. If every arc is possible all words are the core.

**Probabilities.** A word has head h in proportion to :math:`w_{hm}` times the probability that a walk from h up, which
takes each head in proportion to its weight, ends at the root before it comes to m (Wilson 1996). That probability comes
from eliminating all others and substituting back, again without subtraction: no probability is ever below 0, and the
smallest ones are as exact as the largest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from catena.kernels.dependency.ops import possible_arcs
from catena.numerics import NEG_INF, log_add_exp, log_sum_exp


def projective_log_partition(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    n = arcs.shape[-1]
    arcs = possible_arcs(arcs, lengths)
    right = [arcs.new_zeros(arcs.shape[:-1])]
    left = list(right)
    right_arc = list(right)
    left_arc = list(right)
    for w in range(1, n):
        size = n - w
        splits = range(w)
        below = _joined([right[k][:, :size] + left[w - 1 - k][:, k + 1 : k + 1 + size] for k in splits])
        if single_root:
            below = torch.cat((left[w - 1][:, 1:2], below[:, 1:]), dim=1)
        right_arc.append(below + arcs.diagonal(w, 1, 2))
        left_arc.append(below + arcs.diagonal(-w, 1, 2))
        right.append(_joined([right_arc[w - k][:, :size] + right[k][:, w - k : w - k + size] for k in splits]))
        left.append(_joined([left_arc[w - k][:, k : k + size] + left[k][:, :size] for k in splits]))
    reached = torch.stack([half[:, 0] for half in right], dim=1)
    return reached.gather(1, lengths[:, None])[:, 0]


def _joined(ways: list[Tensor]) -> Tensor:
    return log_sum_exp(torch.stack(ways), dim=0)


def nonprojective_log_partition(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """log Z of every row; -inf where there is no tree, nan where a score is nan or +inf."""
    sound, wrong = _without_wrong_rows(arcs, lengths)
    log_z = _log_partition(*_prepared(sound, lengths, single_root))
    return torch.where(wrong, torch.nan, log_z).to(arcs.dtype)


def nonprojective_marginals(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """The probability of every arc; 0 everywhere where there is no tree, nan where a score is nan or +inf."""
    arcs, wrong = _without_wrong_rows(arcs, lengths)
    words, roots, core, possible = _prepared(arcs, lengths, single_root)
    t = roots.shape[-1]
    # For each word an order of its own, in which it comes first, so that it is left at the end.
    number = torch.arange(t, device=arcs.device)
    order = torch.where(number == 0, number[:, None], number - (number <= number[:, None]).to(number.dtype))
    mine = words[:, order[:, :, None], order[:, None, :]]
    own_core = core[:, order]
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
    marginals = torch.where(there, (ways - torch.where(total == NEG_INF, 0.0, total)).exp(), 0.0)
    marginals = torch.cat((torch.zeros_like(marginals[:, :, :1]), marginals), dim=-1)
    return torch.where(wrong[:, None, None], torch.nan, marginals).to(arcs.dtype)


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
        into = words[..., :k, k]
        root = roots[..., k]
        out = words[..., k, :k]
        d = log_sum_exp(torch.cat((into, torch.where(core[..., k], NEG_INF, root)[..., None]), dim=-1), dim=-1)
        d = torch.where(core[..., k] & (d == NEG_INF), root, d)
        total = total + d
        d = torch.where(d == NEG_INF, 0.0, d)
        to_words = into - d[..., None]
        to_root = root - d
        words = log_add_exp(words[..., :k, :k], to_words[..., :, None] + out[..., None, :])
        roots = log_add_exp(roots[..., :k], to_root[..., None] + out)
        steps.append((to_words, to_root))
    return total, steps
