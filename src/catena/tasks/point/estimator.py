"""The pointer network as an estimator. Tested in tests/tasks/test_estimator.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from catena.data.examples import SourceLocation
from catena.errors import DataError
from catena.tasks.estimator import Estimator
from catena.tasks.point.data import PointItem, parse_points
from catena.tasks.targets import check_same_length


class Pointer(Estimator, task="point"):
    """Pointer network: sets of points or tokens in, positions of the input out.

    model = Pointer(problem="sort", max_epochs=5).fit([[3, 1, 2], [9, 4, 7]] * 50)
    [p.positions for p in model.predict([[5, 8, 6]])]

    ``y`` has the target positions of each set, counted from 0; None if ``problem`` defines them.
    """

    def _examples(self, x: Iterable[Any], y: Iterable[Any] | None) -> list[PointItem]:
        items = [_item(one, i) for i, one in enumerate(x, start=1)]
        if y is None:
            return items
        targets = [tuple(int(position) for position in target) for target in y]
        check_same_length(items, targets, "set", "target")
        return [replace(item, target=target) for item, target in zip(items, targets, strict=True)]


def _item(things: Any, number: int) -> PointItem:
    location = SourceLocation("fit", number)
    if len(things) and isinstance(things[0], str):
        return PointItem(tuple(things), None, location)
    try:
        points = [tuple(point) if hasattr(point, "__iter__") else point for point in things]
        return PointItem(parse_points(points), None, location)
    except ValueError as error:
        raise DataError(f"{location} {error}. Pass lists of numbers, points or strings.") from None
