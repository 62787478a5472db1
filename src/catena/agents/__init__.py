"""Agents that learn to act: deep Q-networks and tabular Q-learning in Gymnasium environments."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.agents.agent import DQN as DQN
    from catena.agents.agent import Agent as Agent
    from catena.agents.agent import QLearning as QLearning
    from catena.agents.agent import load_agent as load_agent
    from catena.agents.config import PlayConfig as PlayConfig
    from catena.agents.environment import make_environment as make_environment
    from catena.agents.evaluation import Episode as Episode
    from catena.agents.evaluation import PlayEvaluation as PlayEvaluation
    from catena.agents.evaluation import play_episodes as play_episodes
    from catena.agents.replay import ReplayBuffer as ReplayBuffer
    from catena.agents.targets import q_targets as q_targets
    from catena.agents.targets import td_loss as td_loss

__all__ = [
    "DQN",
    "Agent",
    "Episode",
    "PlayConfig",
    "PlayEvaluation",
    "QLearning",
    "ReplayBuffer",
    "load_agent",
    "make_environment",
    "play_episodes",
    "q_targets",
    "td_loss",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "DQN": ".agent",
        "Agent": ".agent",
        "Episode": ".evaluation",
        "PlayConfig": ".config",
        "PlayEvaluation": ".evaluation",
        "QLearning": ".agent",
        "ReplayBuffer": ".replay",
        "load_agent": ".agent",
        "make_environment": ".environment",
        "play_episodes": ".evaluation",
        "q_targets": ".targets",
        "td_loss": ".targets",
    },
)
