"""Geometry problems with exact solutions, as data for pointer networks."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.niche.geometry.problems import PROBLEMS as PROBLEMS

__all__ = ["PROBLEMS"]

__getattr__, __dir__ = lazy_exports(__name__, {"PROBLEMS": ".problems"})
