"""A trained translator that is ready to be asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.data.corpus import CorpusBuilder
from catena.data.pairing import sources_of_lines
from catena.data.vocabulary import UNK, UNK_SYMBOL
from catena.errors import ConfigError, DataError
from catena.registry import did_you_mean
from catena.search.config import BaseSearchConfig, GreedyConfig, RankingConfig
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.build import build_encoder_decoder
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.items import listed_texts
from catena.tasks.looks import AttentionMaps, draw, sketch
from catena.tasks.searching import best_search, drawn_search, truncation_warning, with_max_length
from catena.tasks.translate.batches import pair_log_probs
from catena.tasks.translate.candidate_vocabulary import Candidates
from catena.tasks.translate.config import LIKELIHOODS, TRANSLATIONS, TranslateConfig
from catena.tasks.translate.dataset import EncodedPairs, ReferenceTexts, headers
from catena.tasks.translate.encoding import PairEncoding, TranslationSource
from catena.tasks.translate.exported import export_model
from catena.tasks.translate.inputs import about_sources, read_pairs_with, read_sources, resolve_data
from catena.tasks.translate.lexicon import find_candidates, load_candidates
from catena.tasks.translate.picture import translation_attention
from catena.tasks.translate.scoring import (
    build_metric,
    build_report,
    likelihood_measure,
    likelihood_scores,
    missing_packages,
)
from catena.tasks.translate.search import STEP, EnsembleModel, HypothesisAttention, TranslationSearch
from catena.tasks.translate.text_constraints import TranslationConstraints, read_wishes
from catena.tasks.translate.translated import Translation, TranslationResult, copy_unknown_words
from catena.tasks.written import score_cell, unknown_input_warning

if TYPE_CHECKING:
    from catena.draw.picture import Picture

BLOCK = 2048
"""Texts of a stream that are read, sorted by length and translated together."""
_NOTHING = TranslationConstraints()
GUESSED = unknown_input_warning("text", "word")
_BLIND = "this model looks at no word of its source (model.attention = 'none'): there is no alignment to show"


class TranslatePredictor(Predictor):
    """A translator with its encoding, or several that write together.

    Args:
        members: models over one target vocabulary; the first one leads.
        candidates: what each source chooses among; None for all target tokens.
    """

    reads_columns: ClassVar[tuple[str, ...]] = ("source_column", "target_column")
    asks: ClassVar[frozenset[str]] = frozenset(
        {
            "n_best",
            "samples",
            "scores",
            "alignment",
            "constraint",
            "beam_size",
            "length_penalty",
            "max_length",
            "layer",
            "head",
            "word",
            "within",
        }
    )
    formats: ClassVar[tuple[str, ...]] = ("text", "tsv", "jsonl")
    reads_targets = True

    def __init__(
        self, config: TranslateConfig, members: Sequence[EnsembleModel], candidates: Candidates | None = None
    ) -> None:
        self.config, self.members = config, list(members)
        self.searcher = TranslationSearch(members, config.writing, candidates, config.longest)

    @property
    def encoding(self) -> PairEncoding:
        return self.members[0].encoding

    def searching(self, asking: PredictOptions) -> TranslatePredictor:
        """The same with another search."""
        self.check(asking)
        bound = self if asking.max_length is None else self._up_to(asking.max_length)
        config = bound.config.model_copy(update={"search": bound._search(asking)})
        return TranslatePredictor(config, self.members, self.searcher.candidates)

    def _up_to(self, max_length: int) -> TranslatePredictor:
        """The same with translations of so many tokens at most, however long their sources are."""
        writing = self.config.writing.model_copy(update={"extra": max_length})
        changes = {"search": with_max_length(self.config.search, max_length), "writing": writing}
        return TranslatePredictor(self.config.model_copy(update=changes), self.members, self.searcher.candidates)

    def together(self, others: Sequence[Predictor]) -> TranslatePredictor:
        """This model and others as an ensemble, whose probabilities are averaged at every step."""
        members = list(self.members)
        for number, other in enumerate(others, start=2):
            if not isinstance(other, TranslatePredictor):
                raise ConfigError(f"an ensemble is of translators, and model {number} is {other.task_name}")
            mine, theirs = self.encoding.target.vocabulary, other.encoding.target.vocabulary
            if mine.symbols != theirs.symbols:
                raise ConfigError(
                    f"models that write together need one target vocabulary, and model {number} has another one "
                    f"({len(theirs):,} tokens, the first model {len(mine):,}, not all alike): train them on the same "
                    f"pairs with the same tokenizer and vocabulary settings and other seeds, as --seeds 3 does"
                )
            mine_copies, copies = members[0].copies, other.members[0].copies
            if copies != mine_copies or (copies and other.config.tokenizer != self.config.tokenizer):
                raise ConfigError(
                    f"a model of kind 'copy' may also write the words of a source, so it writes together with others "
                    f"of its kind that cut sources alike, and model {number} is of kind {other.config.model.kind!r}: "
                    f"leave out the first or that one"
                )
            members += other.members
        return TranslatePredictor(self.config, members, self.searcher.candidates)

    @property
    def networks(self) -> list[torch.nn.Module]:
        return [member.model for member in self.members]

    def export(self, to: str, folder: Path, quantization: str | None = None) -> None:
        """Write the model for another program, with the tokenizer and the vocabulary beside it."""
        export_model(to, self.members[0].model, self.encoding, folder, quantization)

    # --- translating --------------------------------------------------------------------------------------------------

    def predict(
        self, items: Sequence[str], asking: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> list[TranslationResult]:
        """The translations of each text."""
        texts = listed_texts(items)
        return self._predict(texts, asking, self._wishes(asking, len(texts)))

    def predict_stream(
        self, items: Iterable[str], asking: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[TranslationResult]:
        waiting = iter(listed_texts(items) if isinstance(items, str) else items)
        listed = self._wishes(asking, None)
        wishes = cycle(listed) if len(listed) == 1 else iter(listed)
        read = 0
        while block := list(islice(waiting, BLOCK)):
            own = list(islice(wishes, len(block)))
            if len(own) < len(block):
                raise DataError(_uneven(asking, len(listed), f"{read + len(block):,} or more"))
            yield from self._predict(listed_texts(block, read), asking.after(read), own)
            read += len(block)
        if len(listed) > 1 and next(wishes, None) is not None:
            raise DataError(_uneven(asking, len(listed), f"{read:,}"))

    def texts(self, items: Sequence[str], how: BaseSearchConfig | None = None) -> list[str]:
        """The best translation of each text, by the config's search if no other is given."""
        found = self._translations(items, how or self.config.search, [_NOTHING] * len(items), DEFAULT_PREDICT_OPTIONS)
        return [listed[0].text if listed else "" for listed in found]

    def _wishes(self, asking: PredictOptions, n: int | None) -> list[TranslationConstraints]:
        if asking.constraint is None:
            return [_NOTHING] * (1 if n is None else n)
        found = read_wishes(Path(asking.constraint))
        if n is None:
            return found
        if len(found) not in (1, n):
            raise DataError(_uneven(asking, len(found), f"{n:,}"))
        return found * n if len(found) == 1 else found

    def _predict(
        self, items: Sequence[str], asking: PredictOptions, wishes: Sequence[TranslationConstraints]
    ) -> list[TranslationResult]:
        self.check(asking)
        bound = self if asking.max_length is None else self._up_to(asking.max_length)
        found = bound._translations(items, bound._search(asking), wishes, asking)
        answers = []
        for text, listed in zip(items, found, strict=True):
            tokens = tuple(self.encoding.source.tokenizer.tokens(text))
            answers.append(TranslationResult(text, tokens, tuple(listed), asking, self._knows(tokens)))
        return answers

    def _knows(self, tokens: Sequence[str]) -> bool:
        """Whether any of the tokens that say something is known, or may be copied as it is."""
        telling = [token for token in tokens if any(map(str.isalnum, token))] or tokens
        known = self.encoding.source.vocabulary.ids(telling)
        return any(id != UNK for id in known) or (bool(tokens) and self.members[0].copies)

    def _search(self, asking: PredictOptions) -> BaseSearchConfig:
        """The config's search with what is asked for put over it."""
        how = self.config.search
        if asking.samples:
            return drawn_search(how, asking.samples)
        if asking.beam_size == 1 and asking.n_best == 1 and asking.length_penalty is None:
            return GreedyConfig.model_validate(how.limits())
        own = getattr(how, "n_best", 1)
        if asking.beam_size is None and asking.n_best == own and asking.length_penalty is None:
            return how
        found = best_search(how, asking.n_best, asking.beam_size)
        if not isinstance(how, RankingConfig):
            found = found.model_copy(update={"normalize": "gnmt"})
        if asking.length_penalty is not None:
            found = found.model_copy(update={"normalize": "gnmt", "alpha": asking.length_penalty})
        return found

    def _translations(
        self,
        items: Sequence[str],
        how: BaseSearchConfig,
        wishes: Sequence[TranslationConstraints],
        asking: PredictOptions,
    ) -> list[list[Translation]]:
        """The translations of each text; none where it has no token."""
        coded = [[member.code(text) for member in self.members] for text in items]
        filled = [i for i, text in enumerate(items) if text.strip() and len(coded[i][0]) > 1]
        found = self.searcher.find([coded[i] for i in filled], how, [wishes[i] for i in filled], asking.seed)
        rows = [(i, one) for i, listed in zip(filled, found, strict=True) for one in listed]
        copying = self.config.writing.unknown == "copy"
        looked: list[HypothesisAttention | None] = [None] * len(rows)
        if asking.scores or asking.alignment or copying:
            sources, ones = [coded[i] for i, _ in rows], [one for _, one in rows]
            own = [wishes[i] for i, _ in rows]
            looked = list(self.searcher.look(sources, ones, own, attention=asking.alignment or copying))
        listed_by: list[list[Translation]] = [[] for _ in items]
        for (i, one), seen in zip(rows, looked, strict=True):
            listed_by[i].append(self._translation(coded[i][0], one, seen, asking))
        return listed_by

    def _translation(
        self, source: TranslationSource, one: Hypothesis, seen: HypothesisAttention | None, asking: PredictOptions
    ) -> Translation:
        tokens = self.encoding.tokens(one.ids, source.new)
        steps = len(tokens) + one.finished
        log_probs = seen.log_probs[:steps] if seen is not None and asking.scores else None
        attention = tuple(x[:, :steps] for x in seen.attention) if seen is not None and asking.alignment else None
        written = tokens
        if seen is not None and self.config.writing.unknown == "copy" and UNK_SYMBOL in tokens:
            written = copy_unknown_words(tokens, source.tokens, seen.attention)
        parts = one.log_prob, one.score, log_probs, attention, one.finished
        return Translation(self.encoding.text(written), tuple(tokens), *parts)

    # --- reading ------------------------------------------------------------------------------------------------------

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[str]:
        """The sources of a file of pairs, or every line of a plain one; of tables and JSON lines their sources, beside
        targets or alone."""
        return read_sources(path, reading, self.config.data)

    def about_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> list[str]:
        """That a file begins with the names of its columns, which are not translated."""
        return about_sources(path, reading, self.config.data)

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[str]:
        """Each line is a source; of a line with a tab, what stands before it (behind it, if columns are swapped). A
        first line that names the columns is none."""
        return sources_of_lines(lines, self.config.data.swap)

    def pairs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> ReferenceTexts:
        """The pairs of a file, or of two where ``reading`` names the targets; empty ones are left out."""
        return read_pairs_with(path, reading, self.config.data)

    # --- judging ------------------------------------------------------------------------------------------------------

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        texts = self.pairs(path, reading)
        named = self.config.evaluation.metrics
        usual = ("bleu", "bleu_lowercase", "chrf", "ter")
        wanted = dict.fromkeys((*named, *(usual if not named or any(name in usual for name in named) else ())))
        lost, missing = missing_packages([*wanted], self.config.evaluation)
        names = [name for name in wanted if name not in lost]
        log_probs, tokens = self._likelihood(texts)
        found = self._translations(texts.sources, self.config.search, [_NOTHING] * len(texts), DEFAULT_PREDICT_OPTIONS)
        given = [listed[0].text if listed else "" for listed in found]
        unknown = sum(int((member.code(text).ids == 1).sum()) for member in self.members[:1] for text in texts.sources)
        heading = f"{len(texts):,} pairs, {sum(tokens):,} target tokens; {unknown:,} source tokens that are not known"
        if cut := sum(bool(listed) and not listed[0].finished for listed in found):
            heading += f"; {cut:,} translation{'s' * (cut > 1)} cut at the greatest length"
        if reading.target is None:
            heading += "".join(
                f"; {line}" for line in headers([(str(path), None)], resolve_data(path, reading, self.config.data))
            )
        likelihood = likelihood_scores(float(sum(log_probs)), sum(tokens)) if len(self.members) == 1 else {}
        report = build_report(self.config.evaluation, names, texts.targets, given, likelihood, heading)
        return replace(report, lines=(*report.lines, missing)) if missing else report

    @torch.no_grad()
    def _likelihood(self, texts: ReferenceTexts) -> tuple[list[float], list[int]]:
        """log p(target | source) of each pair under the first model, and how many tokens its target has."""
        builder = CorpusBuilder()
        for source, target in zip(texts.sources, texts.targets, strict=True):
            builder.add(self.encoding.source.tokenizer.tokens(source))
            builder.add(self.encoding.target.tokenizer.tokens(target))
        pairs = EncodedPairs(builder.finish(), builder.tokens, self.encoding)
        member, rows = self.members[0], np.arange(len(texts))
        found = pair_log_probs(member.model, pairs, rows, self.config.batches, member.copies)
        return found.tolist(), pairs.lengths[:, 1].tolist()

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        metric = metric or self.config.training.metric or self.config.metric
        known = (*TRANSLATIONS, *LIKELIHOODS)
        if metric not in known:
            raise DataError(f"a translator has no {metric!r}: {did_you_mean(metric, known)}")
        texts = self.pairs(path, reading)
        if metric in LIKELIHOODS:
            log_probs, tokens = self._likelihood(texts)
            return PairedPredictions(
                likelihood_measure(metric), list(zip(texts.targets, tokens, strict=True)), log_probs
            )
        return PairedPredictions(build_metric(metric, self.config.evaluation), texts.targets, self.texts(texts.sources))

    # --- for people ---------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        model, encoding = self.members[0].model, self.encoding
        sizes = (
            f"{len(encoding.source.vocabulary):,} source tokens and {len(encoding.target.vocabulary):,} target tokens"
        )
        if encoding.joint:
            sizes = f"{len(encoding.source.vocabulary):,} tokens for both sides"
        vocabulary = encoding.target.vocabulary
        frequent = sorted(range(len(vocabulary)), key=lambda i: -vocabulary.counts[i])[:top]
        return [
            f"a translator of kind {self.config.model.kind} over {self.config.tokenizer.kind}: {sizes}",
            f"{sum(p.numel() for p in model.parameters()):,} parameters",
            f"the most frequent target tokens: {' '.join(encoding.target.shown(vocabulary.tokens(frequent)))}",
        ]

    def format_for(self, asking: PredictOptions) -> str:
        """Translations alone, unless more is asked for."""
        return "tsv" if asking.beyond() & {"n_best", "samples", "scores", "alignment"} else "text"

    def write(self, prediction: TranslationResult, item: str, format: str) -> str:
        if format == "text":
            return "\n".join(one.text for one in prediction.translations) or ""
        if format == "jsonl":
            return json.dumps(prediction.as_json(), ensure_ascii=False)
        lines = []
        for one in prediction.listed():
            fields = [" ".join(item.split("\t")), " ".join(one.text.split("\t"))]
            if prediction.asking.scores:
                fields.append(score_cell(one.log_prob))
            if prediction.asking.alignment:
                source, target = self.encoding.source.tokenizer, self.encoding.target.tokenizer
                links = ((source.shown(a), target.shown(b)) for a, b in prediction.links(one))
                fields.append(" ".join(f"{a}|{b}" for a, b in links))
            lines.append("\t".join(fields))
        return "\n".join(lines)

    def remarks(self, prediction: TranslationResult) -> list[str]:
        """That translations were cut, and at what length; that a text was not understood at all."""
        writing, longest = self.config.writing, self.config.longest
        own = (
            f"the greatest length ({writing.ratio:g} tokens for each of the source and {writing.extra} more, in steps "
            f"of {STEP}, at most {min(self.config.search.max_length, longest or self.config.search.max_length):,})"
        )
        words = truncation_warning("translation", prediction.asking.max_length, own)
        said = [GUESSED] if prediction.translations and not prediction.known else []
        if any(one.attention == () for one in prediction.translations):
            said.append(_BLIND)
        return [*said, *[words] * sum(not one.finished for one in prediction.translations)]

    def looks(self, item: str, asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> AttentionMaps:
        """Where the model looks when it translates a text, by layer and head: from the translation to the text, or
        within either (``asking.within``)."""
        found = self.predict([item], replace(asking, alignment=True, n_best=1))[0]
        if not found.translations:
            raise DataError(f"nothing is written for {item!r}, so there is nothing to draw")
        looks = translation_attention(self.members[0], found, asking.within)
        if not looks.layers:
            kind = f"a model of kind {self.config.model.kind!r}"
            if asking.within is not None:
                raise DataError(f"{kind} has no attention within its {asking.within}: Transformers do")
            raise DataError(f"{kind} without attention looks at no word of its source: there is no alignment to draw")
        return looks

    def picture(self, item: str, asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """A heat map: where the model looks in the source (columns) when it writes each token (rows)."""
        return draw(self.looks(item, asking), asking)

    def sketch(self, item: str, asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        """The same for a terminal."""
        return sketch(self.looks(item, asking), asking)


def _uneven(asking: PredictOptions, lines: int, texts: str) -> str:
    return (
        f"{asking.constraint} has {lines:,} lines and there are {texts} texts: give one line for each text (it may be "
        f"empty), or one for all of them"
    )


def load_predictor(folder: Path, device: torch.device) -> TranslatePredictor:
    """Read a trained translator from a run folder or a checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(TranslateConfig, checkpoint.folder / CONFIG)
    encoding = PairEncoding.load(checkpoint.folder)
    model = build_encoder_decoder(config.model, encoding.sides(encoding.target.vocabulary.counts))
    checkpoint.load_into(model)
    candidates = None
    if config.writing.candidates:
        table = load_candidates(checkpoint.folder, len(encoding.source.vocabulary))
        candidates = find_candidates(config, encoding, table)
    return TranslatePredictor(config, [EnsembleModel(model.to(device).eval(), encoding)], candidates)
