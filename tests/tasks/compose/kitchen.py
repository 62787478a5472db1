"""A kitchen of our own: recipes that mention what is on their lists, by rules."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

FOOD = ["flour", "sugar", "butter", "eggs", "milk", "rice", "onions", "garlic", "carrots", "honey"]
AMOUNTS = ["2 cups {}", "1 cup sifted {}", "3 large {}, cut into cubes", "{}"]
DISHES = ["cake", "soup", "stew", "salad"]


def recipe(rng: np.random.Generator) -> dict[str, object]:
    """A dish of two or three things, which its text mentions in the order of its list."""
    foods = [FOOD[k] for k in rng.permutation(len(FOOD))[: rng.integers(2, 4)]]
    dish = DISHES[rng.integers(len(DISHES))]
    steps = [f"Add {food}." for food in foods]
    items = [AMOUNTS[rng.integers(len(AMOUNTS))].format(food) for food in foods]
    title = f"{foods[0].title()} {dish.title()} {rng.integers(1000)}"
    return {"title": title, "ingredients": items, "directions": [*steps, f"Serve {dish}."]}


def kitchen(path: Path, n: int, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    path.write_text("".join(json.dumps(recipe(rng)) + "\n" for _ in range(n)), encoding="utf-8")
    return path
