"""The base of the estimators, one for each task, with the interface of scikit-learn.

Every option of a task's config is a keyword of the constructor, under the name that it has on the command line, and
every option of prediction is a keyword of ``predict``. The constructor only stores its arguments, so that ``clone``,
``get_params`` and ``GridSearchCV`` work. Tested in tests/tasks/test_estimator.py.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint, write_checkpoint
from catena.config import Config
from catena.config.schema import KIND, NONE, ConfigKey, get_default, get_kind, keys, section_classes
from catena.config.text import short_names
from catena.errors import CatenaError, CheckpointError, ConfigError, DataError
from catena.registry import did_you_mean
from catena.tasks.auto.table import default_values
from catena.tasks.runs import load_task, train_run
from catena.tasks.spec import TaskSpec, get_spec
from catena.tasks.targets import as_items, weigh_examples
from catena.training.report import SilentReporter

if TYPE_CHECKING:
    from torch import nn

    from catena.draw.picture import Picture
    from catena.tasks.base import BaseTask, EvaluationResult
    from catena.training.report import Reporter

_SAVED = "estimator.json"
"""The file in a saved model's folder that stores its parameters and the types of its labels."""
_FIRST = ("model", "max_epochs", "max_time", "batch_size", "learning_rate", "seed", "device")
"""The first keywords of every estimator."""
_NOT_KEYWORDS = ("task",)
_LEARNED = ("_classes", "_columns", "_kind", "_names")
"""The attributes of estimators that ``fit`` sets, in addition to those that end in an underscore."""
_METHODS = ("fit", "predict", "score", "evaluate", "save", "load", "plot", "network", "transform", "spec")
"""Names of methods, which keywords must not hide."""


class Estimator:
    """A model of one task: ``fit``, ``predict``, ``evaluate``, ``save``, ``load`` and ``plot``.

    After ``fit`` or ``load``, ``task_`` is the trained model and ``scores_`` its scores on dev.
    """

    spec: ClassVar[TaskSpec]
    keyword_keys: ClassVar[dict[str, ConfigKey]]
    """The config key of each keyword of the constructor."""

    def __init_subclass__(cls, task: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if not task:
            return
        cls.spec = get_spec(task)
        cls.keyword_keys = keyword_table(cls.spec.config_class())
        cls.__init__ = _constructor(cls.keyword_keys)  # type: ignore[method-assign]
        cls.__doc__ = f"{cls.__doc__}\n\n    Args:\n{_describe(cls.keyword_keys)}"
        for name in ("predict", "predict_stream", "plot"):
            if getattr(cls, name) is getattr(Estimator, name):
                setattr(cls, name, _with_options(getattr(Estimator, name), cls.spec.options_class()))

    # --- defined by each estimator ------------------------------------------------------------------------------------

    def _prepare(self, x: Any) -> Any:
        """The inputs of ``fit``, before anything is read; raise ConfigError if the parameters do not fit them."""
        return x

    def _examples(self, x: Any, y: Any) -> Iterable[Any]:
        """The training examples of what the user passes to ``fit`` and ``evaluate``."""
        raise NotImplementedError

    def _state(self) -> Mapping[str, Any]:
        """Values to store in addition to the model, such as the types of labels."""
        return {}

    def _set_state(self, state: Mapping[str, Any] | None) -> None:
        """Use the values that :meth:`_state` returned; None for a model of ``catena train``."""

    # --- the interface ------------------------------------------------------------------------------------------------

    def fit(self, x: Any, y: Any = None, *, reporter: Reporter | None = None) -> Self:
        """Train on examples. An older model is forgotten first, so that nothing of it has an effect.

        Without ``model`` and options of a model, the model is the one that ``catena train`` chooses for the number of
        examples (:mod:`catena.tasks.auto.table`).

        Args:
            x: the inputs: a list, an array, a column of a table, a generator, or the path of a file with both.
            y: the outputs, one for each input; None if ``x`` is a path, or if the task needs none.
            reporter: receives the progress; None for silence.
        """
        x = self._start(x)
        return self._fit(x, None if is_path(x) else list(self._examples(self._items(x), y)), reporter)

    def _start(self, x: Any) -> Any:
        """The inputs of ``fit`` when an older model is forgotten, so that nothing of it has an effect."""
        for name in [name for name in vars(self) if name.endswith("_") or name in _LEARNED]:
            delattr(self, name)
        return self._prepare(x)

    def _weighted_examples(self, x: Any, y: Any, sample_weight: Any) -> list[Any] | None:
        """The examples of ``fit`` with their weights; None if ``x`` is a path."""
        if not is_path(x):
            return weigh_examples(list(self._examples(x, y)), sample_weight)
        if sample_weight is not None:
            raise DataError(f"sample_weight must be None for a file, got weights for {x}. Pass lists of its columns.")
        return None

    def _fit(self, x: Any, given: list[Any] | None, reporter: Reporter | None) -> Self:
        """Train on the examples ``given``, or on the file ``x`` if they are None."""
        examples = None if given is None else {"train": given}
        values = self.config_values()  # after the examples, since they may decide options
        if given is None:
            values.setdefault("data", {})["train"] = [os.fspath(x)]
        values, line = default_values(self.spec, values, None if examples is None else examples["train"])
        config = configs.parse(self.spec.config_class(), values, source=type(self).__name__)
        reporter = reporter or SilentReporter()
        if line:
            reporter.note(line)
        with tempfile.TemporaryDirectory(prefix="catena-") as home:
            folder = Path(home) / "run"
            self.scores_ = train_run(config, folder, reporter, examples=examples).scores
            return self._use(folder, None)

    def predict(self, x: Any, **options: Any) -> list[Any]:
        """A prediction for each input.

        Args:
            x: a list, an array, a column of a table, a generator, or a ``Path`` of a file.
            options: the options of prediction of this task.
        """
        return list(self.predict_stream(x, **options))

    def predict_stream(self, x: Any, **options: Any) -> Iterator[Any]:
        """Predictions for any number of inputs, in order, with constant memory. Arguments as in :meth:`predict`."""
        task = self._fitted()
        chosen = configs.parse(task.options_class, options, source="predict")
        return task.predict_stream(self._inputs(x), chosen)

    def evaluate(self, x: Any, y: Any = None) -> EvaluationResult:
        """Compare predictions with gold labels or references. Arguments as in :meth:`fit`.

        Returns:
            The scores, with ``lines()`` as a readable report and ``to_dict()`` for JSON.
        """
        from catena.data.reading import ReadCounter

        task = self._fitted()
        if is_path(x):
            return task.evaluate(task.read(task.config, Path(x), ReadCounter()))
        return task.evaluate(self._examples(self._items(x), y))

    def score(self, x: Any, y: Any = None) -> float:
        """The main metric of the task, such as span F1 of tags; higher is better, as in scikit-learn.

        A metric that is better if it is lower, such as perplexity, is negated. Arguments as in :meth:`fit`.
        """
        task = self._fitted()
        value = self.evaluate(x, y).scores()[task.metric]
        return value if task.find_metric(task.metric).higher_is_better else -value

    def plot(self, item: Any, **options: Any) -> Picture:
        """A picture of the prediction for one input, which has a method ``save``."""
        task = self._fitted()
        return task.draw(task.to_example(item), configs.parse(task.options_class, options, source="plot"))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the trained model into a new folder, for :meth:`load`, ``catena.load`` and the commands."""
        task = self._fitted()
        if Path(folder).exists():
            raise ConfigError(f"{folder} exists. Choose another folder.")

        def write(unfinished: Path) -> None:
            task.save_all(unfinished)
            saved = {"params": self._changed(), "state": dict(self._state())}
            text = json.dumps(saved, ensure_ascii=False, default=str)
            (unfinished / _SAVED).write_text(text + "\n", encoding="utf-8")

        write_checkpoint(Path(folder), task.tensors(), write)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "auto") -> Self:
        """Load a model that :meth:`save` or ``catena train`` wrote.

        Args:
            folder: a run folder, a checkpoint folder, or a folder that :meth:`save` wrote.
            device: auto, cpu, cuda, cuda:1 or mps.
        """
        path = open_checkpoint(Path(folder)).folder
        config = configs.load(cls.spec.config_class(), path / CONFIG)
        saved = _read_saved(path)
        params = saved["params"] if saved else _params_of(cls, config)
        params = {**params, "device": device}
        model = cls(**{name: value for name, value in params.items() if name in cls.keyword_keys})
        return model._use(path, saved["state"] if saved else None)

    @property
    def network(self) -> nn.Module:
        """The trained network, to inspect it or to train it further in your own loop."""
        return self._fitted().network

    # --- parameters, as in scikit-learn -------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {name: getattr(self, name) for name in self.keyword_keys}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor; ``fit`` uses them."""
        for name, value in params.items():
            _check_keyword(type(self), name)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._changed().items())})"

    def _changed(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        defaults = {name: _keyword_default(key) for name, key in self.keyword_keys.items()}
        return {name: value for name, value in self.get_params().items() if not _equal(value, defaults[name])}

    def config_values(self) -> dict[str, Any]:
        """The nested config values of the arguments that were changed."""
        values: dict[str, Any] = {}
        schema = self.spec.config_class()
        kind = getattr(self, "model", None) or get_kind(type(get_default(schema.model_fields["model"])))
        for name, value in self._changed().items():
            here = values
            *sections, leaf = keyword_paths(schema)[name].get(kind, self.keyword_keys[name].path)
            for section in sections:
                here = here.setdefault(section, {})
            here[leaf] = NONE if value is None else value
        return values

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _items(self, x: Any) -> Any:
        """The inputs as items: a data frame gives its column, not the name of the column."""
        return as_items(x)

    def _inputs(self, x: Any) -> Iterable[Any]:
        if isinstance(x, str):
            raise DataError(f"predict must get a list, got one text: {x!r:.60}. Put it in a list: predict([text]).")
        if not is_path(x):
            return self._items(x)
        from catena.data.reading import ReadCounter

        task = self._fitted()
        return task.read_inputs(Path(x), ReadCounter())

    def _use(self, folder: Path, state: Mapping[str, Any] | None) -> Self:
        self.task_ = load_task(folder, getattr(self, "device", "auto"))
        self._set_state(state)
        return self

    def use_task(self, task: BaseTask[Any, Any, Any, Any]) -> Self:
        """Use a model that was loaded elsewhere."""
        self.task_ = task
        self._set_state(None)
        return self

    def _fitted(self) -> BaseTask[Any, Any, Any, Any]:
        if not hasattr(self, "task_"):
            raise CatenaError(f"This {type(self).__name__} is not fitted yet. Call fit first.")
        return self.task_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "task_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        tags = InputTags(string=True, two_d_array=False)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=tags)

    # --- copies -------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: the trained model as the files that :meth:`save` writes."""
        state = {name: value for name, value in vars(self).items() if name != "task_"}
        if hasattr(self, "task_"):
            with tempfile.TemporaryDirectory(prefix="catena-") as home:
                self.save(Path(home) / "model")
                state["_files"] = {
                    path.relative_to(home).as_posix(): path.read_bytes()
                    for path in Path(home).rglob("*")
                    if path.is_file()
                }
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", {})
        vars(self).update(state)
        if files:
            with tempfile.TemporaryDirectory(prefix="catena-") as home:
                for name, content in files.items():
                    path = Path(home) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                self.task_ = load_task(Path(home) / "model", getattr(self, "device", "auto"))


def is_path(x: Any) -> bool:
    """Whether an argument names a file: a ``Path``, or a string that is the name of an existing file."""
    if isinstance(x, os.PathLike):
        return True
    try:
        return isinstance(x, str) and "\n" not in x and Path(x).is_file()
    except OSError:  # too long for a name
        return False


# --- keywords ---------------------------------------------------------------------------------------------------------


@cache
def keyword_table(schema: type[Config]) -> dict[str, ConfigKey]:
    """The key of each keyword: every config key under the shortest unambiguous end of its path.

    Names are unambiguous for one kind of model, so a name may belong to keys of several kinds
    (:func:`keyword_paths`); the table has the first of them.
    """
    by_path = {key.path: key for key in keys(schema)}
    table = {name: by_path[next(iter(paths.values()))] for name, paths in keyword_paths(schema).items()}
    first = [name for name in _FIRST if name in table]
    return {**{name: table[name] for name in first}, **table}


@cache
def keyword_paths(schema: type[Config]) -> dict[str, dict[str, tuple[str, ...]]]:
    """The path of each keyword for each kind of model."""
    table: dict[str, dict[str, tuple[str, ...]]] = {}
    common = [key.path for key in keys(schema) if key.path[0] not in (*_NOT_KEYWORDS, "model")]
    for section in section_classes(schema.model_fields["model"].annotation):
        kind = get_kind(section)
        paths = [*common, *(key.path for key in keys(section, ("model",)))]
        shortest: dict[tuple[str, ...], str] = {}
        for name, path in short_names(paths).items():
            if name not in _METHODS:
                shortest.setdefault(path, name)
        for path in paths:
            table.setdefault(shortest.get(path, "_".join(path)), {})[kind] = path
    return table


def _keyword_default(key: ConfigKey) -> Any:
    """The default of a key if it is the same in every kind; None if the kind, or other options, decide."""
    fields = (key.field, *key.others)
    if key.path[-1] == KIND:
        return None
    values = [get_default(field) for field in fields]
    return values[0] if all(value == values[0] for value in values) else None


def _equal(value: Any, default: Any) -> bool:
    try:
        return value is default or bool(value == default)
    except (TypeError, ValueError):
        return False


def _constructor(table: Mapping[str, ConfigKey]) -> Callable[..., None]:
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for i, (name, key) in enumerate(table.items()):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if i == 0 else inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=_keyword_default(key), annotation=_annotation(key)))
    signature = inspect.Signature(parameters)

    def construct(self: Estimator, *args: Any, **params: Any) -> None:
        for name in params:
            _check_keyword(type(self), name)
        bound = signature.bind(self, *args, **params)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    construct.__signature__ = signature  # type: ignore[attr-defined]
    construct.__name__ = "__init__"
    return construct


def _annotation(key: ConfigKey) -> Any:
    return key.field.annotation


def _check_keyword(cls: type[Estimator], name: str) -> None:
    if name not in cls.keyword_keys:
        raise ConfigError(f"{cls.__name__} has no option {name!r}: {did_you_mean(name, cls.keyword_keys)}")


def _describe(table: Mapping[str, ConfigKey]) -> str:
    """The ``Args:`` of a docstring."""
    return "\n".join(
        f"        {name}: {' '.join((key.field.description or '').split())}" for name, key in table.items()
    )


def _with_options(method: Callable[..., Any], options: type[Config]) -> Callable[..., Any]:
    """A method with the options of prediction as keywords."""
    parameters = list(inspect.signature(method).parameters.values())[:2]
    for name, field in options.model_fields.items():
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=get_default(field), annotation=field.annotation
            )
        )
    signature = inspect.Signature(parameters)

    def wrapped(self: Estimator, x: Any, **given: Any) -> Any:
        for name in given:
            if name not in options.model_fields:
                known = did_you_mean(name, options.model_fields)
                raise ConfigError(f"{method.__name__} has no option {name!r}: {known}")
        return method(self, x, **given)

    wrapped.__signature__ = signature  # type: ignore[attr-defined]
    wrapped.__name__, wrapped.__doc__ = method.__name__, method.__doc__
    return wrapped


def _params_of(cls: type[Estimator], config: Any) -> dict[str, Any]:
    """The keywords of an estimator with the config of a run of ``catena train``."""
    kind = str(getattr(config.model, KIND, ""))
    params = {}
    for name, paths in keyword_paths(cast("type[Config]", type(config))).items():
        if kind not in paths or paths[kind][:2] in _OF_RUNS:
            continue
        value: Any = config
        for part in paths[kind]:
            value = getattr(value, part, _MISSING)
        if value is not _MISSING and not _equal(value, _keyword_default(cls.keyword_keys[name])):
            params[name] = list(value) if isinstance(value, tuple) else value  # as a saved model has it
    return params


_MISSING = object()
_OF_RUNS = tuple(("data", name) for name in ("train", "dev", "test"))
"""Keys of a run that are not parameters of an estimator."""


def _read_saved(folder: Path) -> dict[str, Any] | None:
    path = folder / _SAVED
    if not path.is_file():
        return None
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        return {"params": dict(saved["params"]), "state": saved["state"]}
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}). Copy the model again.") from None
