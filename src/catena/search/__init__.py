"""What chooses a sequence, given p(next | …), and knows nothing else."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.search.acceptor import Acceptor as Acceptor
    from catena.search.automaton_acceptor import AutomatonAcceptor as AutomatonAcceptor
    from catena.search.beam_search import beam as beam
    from catena.search.check import check_stepper as check_stepper
    from catena.search.combine import Ensemble as Ensemble
    from catena.search.combine import LogLinear as LogLinear
    from catena.search.combine import shallow_fusion as shallow_fusion
    from catena.search.config import BeamConfig as BeamConfig
    from catena.search.config import DiverseBeamConfig as DiverseBeamConfig
    from catena.search.config import GreedyConfig as GreedyConfig
    from catena.search.config import SampleConfig as SampleConfig
    from catena.search.config import SearchConfig as SearchConfig
    from catena.search.config import StochasticBeamConfig as StochasticBeamConfig
    from catena.search.constrained import Constrained as Constrained
    from catena.search.diverse import diverse_beam as diverse_beam
    from catena.search.filters import min_p as min_p
    from catena.search.filters import temperature as temperature
    from catena.search.filters import top_k as top_k
    from catena.search.filters import top_p as top_p
    from catena.search.filters import typical as typical
    from catena.search.forbid_ids import ForbidIds as ForbidIds
    from catena.search.from_functions import from_logits as from_logits
    from catena.search.from_functions import from_step as from_step
    from catena.search.from_functions import from_table as from_table
    from catena.search.greedy_search import greedy as greedy
    from catena.search.hypothesis import Hypothesis as Hypothesis
    from catena.search.ranking import gnmt_length_penalty as gnmt_length_penalty
    from catena.search.ranking import stop_after as stop_after
    from catena.search.repeats import NoRepeatNgram as NoRepeatNgram
    from catena.search.sampling import sample as sample
    from catena.search.sampling import stream as stream
    from catena.search.stepper import Stepper as Stepper
    from catena.search.stochastic import stochastic_beam as stochastic_beam
    from catena.search.text_constraints import TextConstraints as TextConstraints

__all__ = [
    "Acceptor",
    "AutomatonAcceptor",
    "BeamConfig",
    "Constrained",
    "DiverseBeamConfig",
    "Ensemble",
    "ForbidIds",
    "GreedyConfig",
    "Hypothesis",
    "LogLinear",
    "NoRepeatNgram",
    "SampleConfig",
    "SearchConfig",
    "Stepper",
    "StochasticBeamConfig",
    "TextConstraints",
    "beam",
    "check_stepper",
    "diverse_beam",
    "from_logits",
    "from_step",
    "from_table",
    "gnmt_length_penalty",
    "greedy",
    "min_p",
    "sample",
    "shallow_fusion",
    "stochastic_beam",
    "stop_after",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "typical",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Acceptor": ".acceptor",
        "AutomatonAcceptor": ".automaton_acceptor",
        "BeamConfig": ".config",
        "Constrained": ".constrained",
        "DiverseBeamConfig": ".config",
        "Ensemble": ".combine",
        "ForbidIds": ".forbid_ids",
        "GreedyConfig": ".config",
        "Hypothesis": ".hypothesis",
        "LogLinear": ".combine",
        "NoRepeatNgram": ".repeats",
        "SampleConfig": ".config",
        "SearchConfig": ".config",
        "Stepper": ".stepper",
        "StochasticBeamConfig": ".config",
        "TextConstraints": ".text_constraints",
        "beam": ".beam_search",
        "check_stepper": ".check",
        "diverse_beam": ".diverse",
        "from_logits": ".from_functions",
        "from_step": ".from_functions",
        "from_table": ".from_functions",
        "gnmt_length_penalty": ".ranking",
        "greedy": ".greedy_search",
        "min_p": ".filters",
        "sample": ".sampling",
        "shallow_fusion": ".combine",
        "stochastic_beam": ".stochastic",
        "stop_after": ".ranking",
        "stream": ".sampling",
        "temperature": ".filters",
        "top_k": ".filters",
        "top_p": ".filters",
        "typical": ".filters",
    },
)
