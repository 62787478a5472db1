"""Points in the plane and paths over them: tours, hulls, triangles."""

from __future__ import annotations

from collections.abc import Sequence

from catena.draw.map import fit_points
from catena.draw.picture import Picture
from catena.draw.svg import TINY, Canvas, Path
from catena.draw.values import NumberSequence, array, check_some
from catena.errors import DataError

_RADIUS = 9.0


def draw_path(
    points: NumberSequence, ways: Sequence[Sequence[int]], *, width: int = 420, height: int = 420, title: str = ""
) -> Picture:
    """Draw numbered points and paths through them.

    Args:
        points: ``points[i]`` has the coordinates of point ``i``; x and y have the same scale.
        ways: each path is a list of point indices. A path that ends where it begins is filled faintly.
        width: the largest width of the point cloud, in pixels.
        height: the largest height of the point cloud, in pixels.
        title: a heading.
    """
    check_some("points", list(points))
    given = array("points", points, "n c")
    places = fit_points(given, len(given), width, height)
    canvas = Canvas()
    for way in ways:
        if any(not 0 <= k < len(places) for k in way):
            raise DataError(f"ways must hold indices from 0 to {len(places) - 1}, got {list(way)}. Count from 0.")
        if len(way) < 2:
            continue
        path = Path().move(*places[way[0]])
        for k in way[1:]:
            path.line(*places[k])
        if way[0] == way[-1]:
            canvas.path(path, "heat", opacity=0.08)
        canvas.path(path, None, "accent", width=1.8)
    for k, (x, y) in enumerate(places):
        canvas.circle(x, y, _RADIUS, "paper", "edge", tooltip=", ".join(f"{v:.6g}" for v in given[k]))
        canvas.text(x, y, str(k), size=TINY)
    said = "; ".join(" ".join(map(str, way)) for way in ways)
    return canvas.picture("Points and ways over them", f"{len(places)} points; ways: {said}", title)
