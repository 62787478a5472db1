r"""The neural checklist model: generates texts that mention the items of a list.

A source is a goal (a title) and an agenda (ingredients): the goal's ids, then for each item a separator and its ids.
With :math:`g` and the rows of :math:`E` the sums of word vectors of the goal and of each item, and
:math:`a_t` how much each item is checked off, a step is

.. math::
    r_t, z_t, s_t, q_t &= σ(W x_t + U h_{t-1} + b) \\
    \tilde h_t &= \tanh(W_h x_t + b_h + r_t ∘ U_h h_{t-1} + s_t ∘ Y g + q_t ∘ Z E^\top (1 - a_{t-1})) \\
    h_t &= (1 - z_t) ∘ h_{t-1} + z_t ∘ \tilde h_t

and the next word is predicted by a soft switch :math:`f_t` between the language model, a new item and a used one:

.. math::
    f_t &= \mathrm{softmax}(β S h_t) \\
    α_t^{new} &= \mathrm{softmax}(γ (1 - a_{t-1}) ∘ E P h_t), \quad
    α_t^{used} = \mathrm{softmax}(γ\, a_{t-1} ∘ E P h_t) \\
    o_t &= f_t^{lm} P h_t + κ (f_t^{new} E^\top α_t^{new} + f_t^{used} E^\top α_t^{used}) \\
    a_t &= \min(1, a_{t-1} + f_t^{new} α_t^{new})

Kiddon, Zettlemoyer & Choi (2016), section 3, where κ = 1: with tied weights the vector of a word is too short to
predict it with certainty, so κ is learned here. With a reader, our extension, attention to the words is added to
the language model's vector, which the next step reads; an item's score gets log Σ exp of the attention scores of its
words; and a text starts from the reader's last state (:mod:`catena.seq2seq.checklist_reader`).
Probabilities may be mixed instead of vectors: :mod:`catena.seq2seq.checklist_mixture`.
Projections that do not depend on the step are computed once; a step takes one product with the state and one with the
agenda.
Time O(t (d² + n d)) for n items, and O(t s d) more for a reader of s words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.embeddings.table import EmbeddingTable
from catena.encoders.init import orthogonal_
from catena.encoders.layers import Dropout
from catena.errors import ConfigError
from catena.numerics import NEG_INF, lerp
from catena.outputs.build import build_output
from catena.search.stepper import HasAttention, Stepper
from catena.seq2seq.base import Memory, Source, VectorDecoder, VocabularyInfo, real_targets
from catena.seq2seq.checklist_config import ChecklistConfig
from catena.seq2seq.checklist_mixture import all_log_probs, target_log_probs, word_shares
from catena.seq2seq.checklist_reader import LEAST, AgendaWords, ChecklistEncoder, log_sums
from catena.seq2seq.checklist_state import LM, NEW, USED, Agenda, Checked, ChecklistStep
from catena.seq2seq.grouped import check_rows
from catena.shapes import cat_padded, mask_from_lengths

_GATES = 4


class ChecklistModel(VectorDecoder):
    """Generates a text for each goal and agenda. Source and target have one vocabulary.

    Args:
        settings: the config.
        sides: the vocabulary.
        separator: the source id before each item.
        names: for each id the number of the thing it names, or -1 for none, as for the unknown word; several ids may
            name the same thing. Supervision treats an id that names a word of an item as a mention. By default each id
            names itself.
    """

    def __init__(
        self, settings: ChecklistConfig, sides: VocabularyInfo, separator: int, names: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        if sides.n_source != sides.v:
            raise ConfigError(
                f"source and target must have one vocabulary in a checklist model, got {sides.n_source} and {sides.v} "
                f"ids. Build one vocabulary for both."
            )
        self.settings, self.separator = settings, separator
        self.v, self.begin, self.end = sides.v, sides.begin, sides.end
        d, e = settings.d, settings.d_embedding
        self.embedding = EmbeddingTable(sides.v, e, scale=settings.scale)
        tied = self.embedding.weight if settings.tied else None
        self.output = build_output(settings.output, e, sides.counts, tied=tied, forbidden=sides.forbidden)
        self.drop_input, self.drop_output = Dropout(settings.dropout_input), Dropout(settings.dropout_output)
        self.drop_source = Dropout(settings.dropout_source)
        self.reader = ChecklistEncoder(e, d) if settings.reader == "attention" else None
        self.read = nn.Linear(e, (_GATES + 1) * d)
        self.recur = nn.Linear(d, (_GATES + 1) * d + 3 + (self.reader.d_query if self.reader else 0), bias=False)
        if self.reader is None:
            self.first = nn.Linear(e, d)
        else:
            self.feed = nn.Linear(e, (_GATES + 1) * d, bias=False)
            self.say = nn.Linear(self.reader.d_out, e)
        self.goal = nn.Linear(e, d, bias=False)
        self.term = nn.Linear(e, d, bias=False)
        self.project = nn.Linear(d, e, bias=False)
        self.gain = nn.Parameter(torch.tensor(settings.item_gain), requires_grad=settings.mixture == "vectors")
        numbers = torch.arange(sides.v) if names is None else torch.tensor(list(names))
        numbers[[separator, *sides.forbidden]] = -1
        self.register_buffer("names", numbers)
        self.names: Int[Tensor, " v"]
        for block in self.recur.weight[: (_GATES + 1) * d].split(d):
            orthogonal_(block.detach())

    # --- the source ---------------------------------------------------------------------------------------------------

    def encode(self, source: Source) -> Memory:
        real_ids = mask_from_lengths(source.lengths, source.ids.shape[1])
        states = self.embedding(source.ids).masked_fill(~real_ids[..., None], 0.0)
        read = self.drop_source(states)
        goal, items, belongs = self.gathered(source, read)
        real = belongs.any(dim=1)
        some = real.any(dim=1)
        looked = real | torch.nn.functional.pad(~some[:, None], (0, real.shape[1] - 1))
        ways = states.new_zeros(len(states), 3).masked_fill(~some[:, None], NEG_INF)
        ways[:, LM] = 0.0
        words = self._words(read, source.lengths, goal)
        agenda = Agenda(
            goal=self.drop_source(self.goal(goal)),
            begin=words.last,
            items=items,
            keys=self.settings.item_sharpness * (items @ self.project.weight),
            terms=self.drop_source(self.term(items)),
            closed=torch.zeros_like(looked, dtype=states.dtype).masked_fill(~looked, NEG_INF),
            ways=ways,
            words=words.states,
            word_keys=words.keys,
            word_closed=words.closed,
            belongs=belongs.to(states.dtype),
        )
        return Memory(states, source.lengths, source, tuple(agenda))

    def _words(
        self, read: Float[Tensor, "b s e"], lengths: Int[Tensor, " b"], goal: Float[Tensor, "b e"]
    ) -> AgendaWords:
        """The encoded words of the source; without a reader there are none, and a text starts from the goal."""
        if self.reader is not None:
            return self.reader(read, lengths)
        nothing = read.new_zeros(len(read), 0, 0)
        return AgendaWords(nothing, nothing, nothing.flatten(1), torch.tanh(self.first(goal)))

    def gathered(
        self, source: Source, states: Float[Tensor, "b s e"]
    ) -> tuple[Float[Tensor, "b e"], Float[Tensor, "b n e"], Bool[Tensor, "b s n"]]:
        """The sums of vectors of the goal and of each item, and the words that belong to each."""
        members = self.members(source)
        sums = members.to(states.dtype).transpose(1, 2) @ states
        return sums[:, 0], sums[:, 1:], members[:, :, 1:]

    def members(self, source: Source) -> Bool[Tensor, "b s _"]:
        """``[i, j, m]``: whether token ``j`` is in item ``m``, where 0 is the goal; at least one column of items."""
        apart = source.ids == self.separator
        number = apart.cumsum(dim=1)
        real = mask_from_lengths(source.lengths, source.ids.shape[1]) & ~apart
        n = max(1, int(number.max()))
        return (number[:, :, None] == torch.arange(n + 1, device=number.device)) & real[:, :, None]

    # --- the target ---------------------------------------------------------------------------------------------------

    def started(self, agenda: Agenda) -> ChecklistStep:
        """The state before the first step, with nothing checked off."""
        recurrent, _, _ = self._recurred(agenda.begin)
        nothing, fed = torch.zeros_like(agenda.closed), 0 if self.reader is None else self.settings.d_embedding
        said = agenda.begin.new_zeros(len(agenda.begin), fed)
        return ChecklistStep(agenda.begin, recurrent, agenda.ways, nothing, nothing, nothing, said)

    def _recurred(self, h: Float[Tensor, "b d"]) -> tuple[Tensor, Tensor, Tensor]:
        """The projections of a state for the next step, the switch and the reader, in one product."""
        sizes = (_GATES + 1) * self.settings.d, 3
        return self.recur(h).tensor_split((sizes[0], sum(sizes)), dim=1)

    def step(self, read: Float[Tensor, "b r"], before: ChecklistStep, agenda: Agenda) -> ChecklistStep:
        """One step. ``read`` is W x + b of all gates and the candidate."""
        d, sharpness = self.settings.d, self.settings.switch_sharpness
        if self.reader is not None:
            read = read + self.feed(before.said)
        gates = torch.sigmoid(read[:, : _GATES * d] + before.recurrent[:, : _GATES * d])
        reset, update, goal, item = gates.split(d, dim=1)
        left = 1 - before.ticked
        term = torch.bmm(left[:, None], agenda.terms)[:, 0]
        own = torch.addcmul(read[:, _GATES * d :], reset, before.recurrent[:, _GATES * d :])
        candidate = torch.tanh(torch.addcmul(torch.addcmul(own, goal, agenda.goal), item, term))
        h = lerp(before.h, candidate, update)
        recurrent, ways, query = self._recurred(h)
        scores, said = torch.bmm(agenda.keys, h[:, :, None])[:, :, 0], before.said
        if self.reader is not None:
            of_words, found = self.reader.look(query, agenda.words, agenda.word_keys, agenda.word_closed)
            scores = scores + log_sums(of_words, agenda.belongs)
            said = self.drop_output(torch.tanh(self.project(h) + self.say(found)))
        both = torch.stack((left, before.ticked)) * scores + agenda.closed
        new, used = torch.softmax(both, dim=2).unbind()
        switch = torch.softmax(sharpness * ways + agenda.ways, dim=1)
        ticked = torch.addcmul(before.ticked, switch[:, NEW : NEW + 1], new).clamp(max=1)
        return ChecklistStep(h, recurrent, switch, new, used, ticked, said)

    def unrolled(self, memory: Memory, before: Int[Tensor, "b t"]) -> tuple[Float[Tensor, "b t e"], Checked]:
        """The vectors of the language model at all steps, and the switch and item weights of each step."""
        agenda = Agenda(*memory.more)
        read, state, steps = self.read(self.drop_input(self.embedding(before))), self.started(agenda), []
        for t in range(before.shape[1]):
            state = self.step(read[:, t], state, agenda)
            steps.append(state)
        all_steps = ChecklistStep(*(torch.stack(parts, dim=1) for parts in zip(*steps, strict=True)))
        return self.said(all_steps), Checked(all_steps.switch, all_steps.new, all_steps.used, all_steps.ticked)

    def said(self, step: ChecklistStep) -> Float[Tensor, "*b e"]:
        """The vector of the language model: P h, or with a reader tanh of the sum with the attention context."""
        return self.drop_output(self.project(step.h)) if self.reader is None else step.said

    def mixed(
        self, said: Float[Tensor, "b t e"], checked: Checked, items: Float[Tensor, "b n e"]
    ) -> Float[Tensor, "b t e"]:
        """o: the vectors that predict words."""
        return checked.switch[..., LM, None] * said + self.gain * (checked.share @ items)

    def hidden(self, memory: Memory, before: Int[Tensor, "b t"]) -> Float[Tensor, "b t e"]:
        said, checked = self.unrolled(memory, before)
        return self.mixed(said, checked, Agenda(*memory.more).items)

    def loss(self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        real = real_targets(len(source), targets, lengths)
        memory = self.encode(source)
        said, checked = self.unrolled(memory, self.shifted(targets))
        if self.settings.mixture == "vectors":
            hidden = self.mixed(said, checked, Agenda(*memory.more).items)
            loss = self.output.loss(hidden[real], targets[real])
        else:
            loss = -self._shared_log_probs(memory, said, checked, targets, real)[real].mean()
        if self.settings.supervision:
            loss = loss + self.settings.supervision * self.switch_loss(source, targets, real, checked)
        if self.settings.completion:
            loss = loss + self.settings.completion * self._left_over(Agenda(*memory.more), lengths, checked)
        return loss

    def token_log_probs(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        if self.settings.mixture == "vectors":
            return super().token_log_probs(source, targets, lengths)
        real = real_targets(len(source), targets, lengths)
        memory = self.encode(source)
        said, checked = self.unrolled(memory, self.shifted(targets))
        return self._shared_log_probs(memory, said, checked, targets, real)

    def _shared_log_probs(
        self,
        memory: Memory,
        said: Float[Tensor, "b t e"],
        checked: Checked,
        targets: Int[Tensor, "b t"],
        real: Bool[Tensor, "b t"],
    ) -> Float[Tensor, "b t"]:
        """log p of each target if probabilities are mixed; 0 at padding."""
        own = self.output.log_prob(said[real], targets[real])
        own = own.new_zeros(targets.shape).masked_scatter(real, own)
        members = self.members(memory.source)[:, :, 1:]
        shares = word_shares(said, checked.share, memory.states, members)
        found = target_log_probs(own, checked.switch[..., LM], shares, memory.source.ids, targets)
        return torch.where(real, found, 0.0)

    def switch_loss(
        self, source: Source, targets: Int[Tensor, "b t"], real: Bool[Tensor, "b t"], checked: Checked
    ) -> Float[Tensor, ""]:
        """The mean negative log-likelihood of the gold switch state and, if there is one, of the gold item.

        A target that occurs in an item mentions it: as a new item, if no target before does.
        """
        first, again = self.mentions(source, targets)
        is_new = first.any(dim=2)
        is_used = again.any(dim=2) & ~is_new
        way = torch.where(is_new, NEW, torch.where(is_used, USED, LM))
        chosen = checked.switch.gather(2, way[:, :, None])[:, :, 0]
        item = torch.where(is_new, (checked.new * first).sum(dim=2), (checked.used * again).sum(dim=2))
        found = chosen.clamp(min=LEAST).log() + torch.where(is_new | is_used, item.clamp(min=LEAST).log(), 0.0)
        return -found[real].mean()

    def mentions(
        self, source: Source, targets: Int[Tensor, "b t"]
    ) -> tuple[Bool[Tensor, "b t n"], Bool[Tensor, "b t n"]]:
        """Which items each target mentions for the first time, and which again."""
        named = self.names[targets][:, :, None]
        same = (named == self.names[source.ids][:, None, :]) & (named >= 0)
        members = self.members(source)[:, :, 1:]
        held = (same.float() @ members.float()) > 0
        before = (held.cumsum(dim=1) - held.long()) > 0
        return held & ~before, held & before

    def _left_over(self, agenda: Agenda, lengths: Int[Tensor, " b"], checked: Checked) -> Float[Tensor, ""]:
        """The mean fraction of items not checked off at the end, over texts with items."""
        last = checked.ticked[torch.arange(len(lengths), device=lengths.device), (lengths - 1).clamp(min=0)]
        open_, some = agenda.closed == 0, agenda.ways[:, NEW] == 0
        share = ((1 - last) * open_).sum(dim=1) / open_.sum(dim=1)
        return (share * some).sum() / some.sum().clamp(min=1)

    # --- inspection ---------------------------------------------------------------------------------------------------

    def checked(self, source: Source, targets: Int[Tensor, "b t"]) -> Checked:
        """The switch and item weights for each target; values at padding are undefined."""
        return self.unrolled(self.encode(source), self.shifted(targets))[1]

    def attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t s"]]:
        """The weight of each token of an item by the switch and the item weights; the rest is the language model's."""
        real = real_targets(len(source), targets, lengths)
        found = self.checked(source, targets)
        return [(found.share @ self.spread(source, found.new.dtype) * real[..., None])[:, None]]

    def spread(self, source: Source, dtype: torch.dtype) -> Float[Tensor, "b n s"]:
        """A matrix that distributes the weight of an item evenly over its tokens."""
        member = self.members(source)[:, :, 1:].transpose(1, 2).to(dtype)
        return member / member.sum(dim=2, keepdim=True).clamp(min=1)

    def stepper(self, source: Source) -> ChecklistStepper:
        return ChecklistStepper(self, source)


class ChecklistRow(NamedTuple):
    """The state of a search: the model's state, the agenda of each row, and the tokens of its items."""

    step: ChecklistStep
    agenda: Agenda
    spread: Float[Tensor, "n k s"]
    mask: Bool[Tensor, "n s"]
    ids: Int[Tensor, "n s"]
    embedded: Float[Tensor, "n s e"]


class ChecklistStepper(Stepper[ChecklistRow], HasAttention[ChecklistRow]):
    """A checklist model as a stepper, with a row for each source."""

    def __init__(self, model: ChecklistModel, source: Source) -> None:
        self.model, self.source = model, source
        self.v, self.end = model.v, model.end

    @torch.no_grad()
    def start(self, n: int) -> ChecklistRow:
        check_rows(n, len(self.source))
        memory = self.model.encode(self.source)
        agenda = Agenda(*memory.more)
        mask = mask_from_lengths(self.source.lengths, self.source.ids.shape[1])
        spread = self.model.spread(self.source, memory.states.dtype)
        first = ChecklistRow(self.model.started(agenda), agenda, spread, mask, self.source.ids, memory.states)
        return self.advance(first, torch.full((n,), self.model.begin, device=mask.device))

    @torch.no_grad()
    def log_probs(self, state: ChecklistRow) -> Float[Tensor, "n v"]:
        said = self.model.said(state.step)
        checked = state.step.checked
        if self.model.settings.mixture == "vectors":
            return self.model.output.log_probs(self.model.mixed(said[:, None], checked, state.agenda.items)[:, 0])
        members = state.spread.transpose(1, 2) > 0
        shares = word_shares(said[:, None], checked.share, state.embedded, members)[:, 0]
        return all_log_probs(self.model.output.log_probs(said), state.step.switch[:, LM], shares, state.ids)

    @torch.no_grad()
    def advance(self, state: ChecklistRow, ids: Int[Tensor, " n"]) -> ChecklistRow:
        read = self.model.read(self.model.embedding(ids[:, None])[:, 0])
        return state._replace(step=self.model.step(read, state.step, state.agenda))

    def select(self, state: ChecklistRow, rows: Int[Tensor, " m"]) -> ChecklistRow:
        step = ChecklistStep(*(part[rows] for part in state.step))
        return ChecklistRow(step, state.agenda.select(rows), *(part[rows] for part in state[2:]))

    def join(self, states: Sequence[ChecklistRow]) -> ChecklistRow:
        steps, agendas, *others = zip(*states, strict=True)
        step = ChecklistStep(*(cat_padded(parts) for parts in zip(*steps, strict=True)))
        return ChecklistRow(step, Agenda.join(agendas), *(cat_padded(parts) for parts in others))

    def attention(self, state: ChecklistRow) -> Float[Tensor, "n s"]:
        return torch.bmm(state.step.checked.share, state.spread)[:, 0]

    def source_mask(self, state: ChecklistRow) -> Bool[Tensor, "n s"]:
        return state.mask
