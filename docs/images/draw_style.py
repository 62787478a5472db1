"""Draw docs/images/style.png with the code of docs/style.md: python docs/images/draw_style.py"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from PIL import Image

from catena.niche.style import RandomFilters, synthesize_texture, transfer_style

FOLDER = Path(__file__).parent
SCALE = 2


def main() -> None:
    page = (FOLDER.parent / "style.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    code = re.search(r"```python\n(import numpy.*?)Image\.fromarray\(draw_scene", page, re.S)
    assert code is not None
    exec(compile(code[1], "style.md", "exec"), names)
    scene, waves = names["draw_scene"](96), names["draw_waves"](96)  # type: ignore[operator]
    network = RandomFilters((3, 7, 15, 23))
    texture = synthesize_texture(waves, network=network, steps=80, device="cpu")
    painted = transfer_style(scene, waves, network=network, steps=80, device="cpu")
    gap = np.full((96, 6, 3), 255, np.uint8)
    row = np.concatenate([waves, gap, texture.picture, gap, gap, scene, gap, waves, gap, painted.picture], axis=1)
    picture = Image.fromarray(row).resize((row.shape[1] * SCALE, row.shape[0] * SCALE), Image.Resampling.NEAREST)
    picture.quantize(128).save(FOLDER / "style.png", optimize=True)


if __name__ == "__main__":
    main()
