"""Exceptions: a common base class, standard base classes, and unchanged messages."""

from __future__ import annotations

import inspect
import pickle

import pytest

from catena import errors
from catena.errors import CatenaError

CLASSES = [thing for _, thing in inspect.getmembers(errors, inspect.isclass) if thing.__module__ == errors.__name__]
PYTHONS_OWN = {
    "ConfigError": ValueError,
    "FormatError": ValueError,
    "DataError": ValueError,
    "ShapeError": ValueError,
    "CheckpointError": RuntimeError,
    "UnknownNameError": KeyError,
    "MissingExtraError": ImportError,
    "OutOfMemoryError": RuntimeError,
}


@pytest.mark.parametrize("error", CLASSES)
def test_all_are_of_one_family_and_explain_themselves(error: type[CatenaError]) -> None:
    assert issubclass(error, CatenaError)
    assert error.__doc__
    assert error.__name__.endswith("Error")


@pytest.mark.parametrize("error", CLASSES)
def test_a_message_prints_as_it_was_written_and_survives_a_pickle(error: type[CatenaError]) -> None:
    raised = error("batch_size is 0: it must be 'above' 0")
    assert str(raised) == "batch_size is 0: it must be 'above' 0"
    assert str(pickle.loads(pickle.dumps(raised))) == str(raised)
    assert str(error()) == ""


def test_invalid_values_survive_a_pickle() -> None:
    raised = errors.InvalidValuesError("two invalid values", problems=["d is 0", "n is 0"])
    assert pickle.loads(pickle.dumps(raised)).problems == ("d is 0", "n is 0")


@pytest.mark.parametrize(("name", "kind"), PYTHONS_OWN.items())
def test_each_is_also_what_python_programs_expect(name: str, kind: type[Exception]) -> None:
    assert issubclass(getattr(errors, name), kind)
