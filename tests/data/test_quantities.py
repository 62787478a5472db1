from __future__ import annotations

import random

import pytest

from catena.data.quantities import find_style


def write(number: float, thousands: str, decimal: str, digits: int) -> str:
    """The number with marks, from the writing of Python."""
    return f"{number:,.{digits}f}".replace(",", "t").replace(".", decimal).replace("t", thousands)


@pytest.mark.parametrize("unit", ["{}", "${}", "{} €", "{}%", "{} %", "CHF {}"])
@pytest.mark.parametrize(
    ("thousands", "decimal"), [("", "."), ("", ","), (",", "."), (".", ","), ("’", "."), ("\xa0", ",")]
)
def test_written_numbers_are_read_back(thousands: str, decimal: str, unit: str) -> None:
    numbers = [round(random.Random(i).uniform(-9e5, 9e5), 2) for i in range(20)]
    cells = [unit.format(write(number, thousands, decimal, 2)) for number in numbers]
    style = find_style(cells)
    assert [style.parse(cell) for cell in cells] == numbers


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,234", "950"], [1234.0, 950.0]),
        (["0,123", "0,456"], [0.123, 0.456]),  # a thousand does not begin with 0
        (["1.234", "2.345"], [1.234, 2.345]),
        (["1.234 €", "950 €"], [1234.0, 950.0]),
        (["1.234.567"], [1234567.0]),
        (["$-5", "-$5", "−5"], [-5.0, -5.0, -5.0]),
        (["1e-3", "-1e3"], [0.001, -1000.0]),
        (["5 USD", "3 EUR"], [None, None]),  # two currencies have no common scale
        (["3,5", "4.2", "1.5"], [None, 4.2, 1.5]),
        (["12.03.2024", "1,2,3", "--3", "-$-3", "12,34,567", "x 5"], [None] * 6),
        ([3, None, "7"], [7.0]),
    ],
)
def test_marks_are_found_from_all_cells(cells: list[object], numbers: list[float | None]) -> None:
    style = find_style(cells)
    assert [style.parse(cell) for cell in cells if isinstance(cell, str)] == numbers
