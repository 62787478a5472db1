"""The config of an agent: environment, Q-function, exploration and evaluation. Imports no torch.

Tested in tests/agents/test_evaluation.py and tests/agents/test_learning.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.errors import ConfigError
from catena.training.config import MachineConfig, TrainingConfig

_Sizes = tuple[Annotated[int, Field(gt=0)], ...]

_SUGGESTED: dict[str, dict[str, Any]] = {
    "dqn": {"optimizer": "adam", "learning_rate": 5e-4, "clip_norm": 10.0, "patience": 0},
    "table": {"optimizer": "sgd", "learning_rate": 0.1, "clip_norm": 0.0, "patience": 0},
}
"""Training options of each kind of model, if the user sets none. Returns are not monotone, so nothing stops early."""


class EnvironmentConfig(Config):
    """The environment and what the agent sees of it."""

    name: str | None = None
    """Gymnasium environment, such as CartPole-v1; module:EnvId imports the module that registers it, module:Class
    needs no registration."""
    options: tuple[str, ...] = ()
    """Arguments of the environment as key=value, such as is_slippery=false."""
    max_episode_steps: int | None = Field(None, gt=0)
    """Truncate episodes after this many steps. If not set, the limit of the environment, or 10000 if it has none."""
    observe: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Indices of the observation vector that the agent sees, such as 0,2; all if empty."""
    frames: int = Field(1, ge=1)
    """Number of last observations that the agent sees together."""
    replay_actions: bool = True
    """When a run resumes within an episode, repeat the episode's actions and check that the observation is the same.
    false starts a new episode instead, for environments that are not deterministic."""


class DenseQConfig(Config):
    """A network of dense layers with rectifiers."""

    kind: Literal["dense"] = "dense"
    """Dense layers."""
    sizes: _Sizes = (128, 128)
    """Units of each hidden layer. Empty: a linear function of the observation."""


class ConvolutionQConfig(Config):
    """Convolutions over an image, then dense layers, with rectifiers (Mnih et al. 2015)."""

    kind: Literal["convolution"] = "convolution"
    """Convolutions and dense layers."""
    channels: _Sizes = (32, 64, 64)
    """Channels of each convolution."""
    windows: _Sizes = (8, 4, 3)
    """Window size of each convolution."""
    strides: _Sizes = (4, 2, 1)
    """Stride of each convolution."""
    sizes: _Sizes = (512,)
    """Units of each hidden dense layer."""

    @model_validator(mode="after")
    def _same_lengths(self) -> ConvolutionQConfig:
        check_convolutions(self.channels, self.windows, self.strides)
        return self


class RecurrentQConfig(Config):
    """Dense layers and a recurrent layer that remembers what the agent has seen (Hausknecht & Stone 2015)."""

    kind: Literal["recurrent"] = "recurrent"
    """A recurrent layer, trained on sequences."""
    sizes: _Sizes = (64,)
    """Units of each dense layer below the recurrent one."""
    channels: _Sizes = ()
    """Channels of convolutions below the dense layers, for images. Empty: none."""
    windows: _Sizes = ()
    """Window size of each convolution."""
    strides: _Sizes = ()
    """Stride of each convolution."""
    cell: Literal["lstm", "gru"] = "lstm"
    """The recurrent cell."""
    d: int = Field(64, gt=0)
    """Units of the recurrent layer."""
    n_layers: int = Field(1, gt=0)
    """Number of recurrent layers."""
    length: int = Field(16, gt=0)
    """Steps of a sequence that have a loss."""
    burn_in: int = Field(8, ge=0)
    """Steps before them that only compute the recurrent state."""
    stored_state: bool = True
    """Begin each sequence in the state that the agent was in when it played the sequence; false begins it at 0, so that
    the network never learns in the states that it reaches in long episodes (Kapturowski et al. 2019)."""
    last_action: bool = True
    """Whether the network reads the previous action together with each observation."""

    @model_validator(mode="after")
    def _same_lengths(self) -> RecurrentQConfig:
        check_convolutions(self.channels, self.windows, self.strides)
        return self


def check_convolutions(channels: _Sizes, windows: _Sizes, strides: _Sizes) -> None:
    """Raise ValueError if channels, windows and strides describe different numbers of layers."""
    if not len(channels) == len(windows) == len(strides):
        raise ValueError(
            f"channels, windows and strides must have one value for each convolution, got {len(channels)}, "
            f"{len(windows)} and {len(strides)} values. Give them the same length."
        )


QNetworkConfig = DenseQConfig | ConvolutionQConfig | RecurrentQConfig


class ReplayConfig(Config):
    """The memory of past steps that batches are sampled from."""

    capacity: int = Field(50_000, gt=1)
    """Number of observations that are kept; the oldest are overwritten."""
    batch_size: int = Field(128, gt=0)
    """Steps in a batch; sequences for a recurrent network."""
    warmup: int = Field(1_000, ge=1)
    """Random steps before training begins."""


class DQNConfig(Config):
    """A deep Q-network with replay (Mnih et al. 2015)."""

    kind: Literal["dqn"] = "dqn"
    """A deep Q-network."""
    discount: float = Field(0.99, ge=0, le=1)
    """Discount of the reward of the next step."""
    normalize: bool = False
    """Standardize each entry of the observations by its mean and deviation in the random steps before training."""
    double: bool = True
    """Choose the next action by the online network and value it by the target network (van Hasselt et al. 2016)."""
    target: Literal["copy", "average", "none"] = "copy"
    """The target network: a copy made every target_every updates; a moving average of the weights; or none, where
    the online network values the next state itself."""
    target_every: int = Field(250, gt=0)
    """Updates between two copies."""
    target_rate: float = Field(0.005, gt=0, le=1)
    """With target = average: fraction of the online weights in the average after each update."""
    loss: Literal["huber", "squared"] = "huber"
    """Loss of the temporal difference error. huber is linear for errors above 1."""
    train_every: int = Field(2, gt=0)
    """Environment steps for each update."""
    reward_clip: float | None = Field(None, gt=0)
    """Clip rewards to this absolute value in training. Evaluations report the original rewards."""
    network: QNetworkConfig = Field(DenseQConfig(), discriminator="kind")
    replay: ReplayConfig = ReplayConfig()

    @model_validator(mode="after")
    def _fits(self) -> DQNConfig:
        needed = self.replay.warmup
        if isinstance(self.network, RecurrentQConfig):
            needed = max(needed, self.network.length + self.network.burn_in)
        if needed > self.replay.capacity // 2:
            raise ValueError(
                f"replay.capacity must be at least {2 * needed}, twice the warm-up and the length of a sequence, got "
                f"{self.replay.capacity}. Increase it."
            )
        return self


class QTableConfig(Config):
    """A table of Q-values, for a finite number of states (Watkins & Dayan 1992)."""

    kind: Literal["table"] = "table"
    """A table, updated after each step; its step size is training.learning_rate."""
    discount: float = Field(0.99, ge=0, le=1)
    """Discount of the reward of the next step."""
    initial: float = 0.0
    """Initial value of each entry. A high value makes the agent try every action."""


class ExplorationConfig(Config):
    """Epsilon-greedy exploration: a random action with probability epsilon, otherwise the best one."""

    epsilon_start: float = Field(1.0, ge=0, le=1)
    """Epsilon at the beginning."""
    epsilon_end: float = Field(0.05, ge=0, le=1)
    """Epsilon after epsilon_steps."""
    epsilon_steps: int = Field(10_000, gt=0)
    """Environment steps after the warm-up in which epsilon falls linearly."""


class EpisodesConfig(Config):
    """Episodes of evaluation, played without exploration and with seeds that training never uses."""

    dev_episodes: int = Field(20, ge=1)
    """Episodes of an evaluation in training, which selects the best checkpoint."""
    test_episodes: int = Field(100, ge=2)
    """Other episodes, played once at the end with the best checkpoint."""


class PlayConfig(Config):
    """Config of an agent that learns to act in an environment."""

    task: Literal["play"] = "play"
    """The task."""
    seed: int = Field(0, ge=0)
    """Seed of weights, exploration, replay and training episodes."""
    epoch_steps: int = Field(5_000, gt=0)
    """Environment steps in an epoch. The agent is evaluated and saved after each epoch."""
    machine: MachineConfig = MachineConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    model: DQNConfig | QTableConfig = Field(DQNConfig(), discriminator="kind")
    exploration: ExplorationConfig = ExplorationConfig()
    evaluation: EpisodesConfig = EpisodesConfig()
    training: TrainingConfig = Field(default_factory=TrainingConfig)

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        model, training = data.get("model", {}), data.get("training", {})
        kind = model.get("kind", "dqn") if isinstance(model, dict) else model.kind
        if not isinstance(training, dict) or "optimizer" in training:
            return data
        return {**data, "training": {**_SUGGESTED.get(str(kind), {}), **training}}

    @model_validator(mode="after")
    def _fits(self) -> PlayConfig:
        if isinstance(self.model, QTableConfig):
            self._check_table_training()
        elif self.epoch_steps < self.model.train_every:
            raise ValueError(
                f"epoch_steps must be at least train_every = {self.model.train_every}, got {self.epoch_steps}. "
                f"Increase it."
            )
        elif self.environment.frames > 1 and isinstance(self.model.network, RecurrentQConfig):
            raise ValueError(
                f"environment.frames must be 1 for a recurrent network, which remembers, got "
                f"{self.environment.frames}. Remove it."
            )
        return self

    def _check_table_training(self) -> None:
        """Raise ValueError for training options that would change a table other than by its update rule."""
        training = self.training
        plain = {"optimizer": "sgd", "schedule": "constant", "momentum": 0.0, "weight_decay": 0.0, "l1": 0.0}
        for name, value in plain.items():
            if getattr(training, name) != value:
                raise ValueError(
                    f"training.{name} must be {value!r} for model.kind = 'table', got {getattr(training, name)!r}. "
                    f"Remove it."
                )
        if training.warmup_steps or self.environment.frames > 1:
            raise ValueError(
                "training.warmup_steps and environment.frames do not apply to model.kind = 'table'. Remove them."
            )


def count_epochs(steps: int, epoch_steps: int, warmup: int = 0) -> int:
    """The number of epochs in a number of environment steps. Raise ConfigError if there is none."""
    if steps < warmup + epoch_steps:
        raise ConfigError(
            f"steps must be at least {warmup + epoch_steps}, the warm-up and one epoch, got {steps}. Increase steps, "
            f"or reduce warmup or epoch_steps."
        )
    return (steps - warmup) // epoch_steps
