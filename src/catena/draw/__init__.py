"""Pictures of results as SVG, PNG and terminal text. Independent of models: plain values in, a Picture out."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.draw.alignment import draw_alignment_path as draw_alignment_path
    from catena.draw.alignment import draw_links as draw_links
    from catena.draw.arcs import draw_arcs as draw_arcs
    from catena.draw.automaton import draw_automaton as draw_automaton
    from catena.draw.bars import draw_bars as draw_bars
    from catena.draw.bars import draw_histogram as draw_histogram
    from catena.draw.chart import draw_chart as draw_chart
    from catena.draw.curves import draw_curves as draw_curves
    from catena.draw.curves import series_of_rows as series_of_rows
    from catena.draw.heat import draw_heat as draw_heat
    from catena.draw.map import draw_map as draw_map
    from catena.draw.overlay import draw_overlay as draw_overlay
    from catena.draw.picture import Picture as Picture
    from catena.draw.spans import draw_spans as draw_spans
    from catena.draw.tree import draw_tree as draw_tree
    from catena.draw.trellis import draw_trellis as draw_trellis

__all__ = [
    "Picture",
    "draw_alignment_path",
    "draw_arcs",
    "draw_automaton",
    "draw_bars",
    "draw_chart",
    "draw_curves",
    "draw_heat",
    "draw_histogram",
    "draw_links",
    "draw_map",
    "draw_overlay",
    "draw_spans",
    "draw_tree",
    "draw_trellis",
    "series_of_rows",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Picture": ".picture",
        "draw_alignment_path": ".alignment",
        "draw_arcs": ".arcs",
        "draw_automaton": ".automaton",
        "draw_bars": ".bars",
        "draw_chart": ".chart",
        "draw_curves": ".curves",
        "draw_heat": ".heat",
        "draw_histogram": ".bars",
        "draw_links": ".alignment",
        "draw_map": ".map",
        "draw_overlay": ".overlay",
        "draw_spans": ".spans",
        "draw_tree": ".tree",
        "draw_trellis": ".trellis",
        "series_of_rows": ".curves",
    },
)
