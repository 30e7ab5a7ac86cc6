"""Scales pictures with Pillow's kernels, and compares time and result with Pillow itself.

    python benchmarks/resize.py [--json FILE]

One thread; both ways go from an array to an array, and take turns, once their results were compared: no level may
differ by more than one, or by two with a kernel that overshoots. Targets: at least 4 times Pillow's speed wherever a
picture of three channels, 320x240 or larger, shrinks by 1.5 or more. (`BOX` misses it: Pillow itself computes it.)
"""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from _measure import arguments, at_least, interleaved, medians, report
from PIL import Image

from winml_py import ImageKernel
from winml_py.core.imaging.pixels import KERNELS, import_fast_resizer, resize

CAT = Path(__file__).parent.parent / "samples" / "pictures" / "cat.jpg"
DIFFERENCE = "mean difference in levels, at most"
SIZES = (
    ((320, 240), (213, 160)),
    ((640, 480), (341, 256)),
    ((640, 480), (224, 224)),
    ((1920, 1080), (1280, 720)),
    ((1920, 1080), (640, 360)),
    ((1920, 1080), (455, 256)),
    ((4000, 3000), (341, 256)),
    ((320, 240), (640, 480)),
)


def photograph(width: int, height: int) -> np.ndarray:
    """The sample photograph in another size, with added camera grain."""
    with Image.open(CAT) as image:
        pixels = np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)).astype(np.float32)
    pixels += np.random.default_rng(0).normal(0, 6, (height, width, 1))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def plain(pixels: np.ndarray, width: int, height: int, name: str) -> np.ndarray:
    image = Image.frombytes("RGB", (pixels.shape[1], pixels.shape[0]), pixels.data)
    return np.asarray(image.resize((width, height), Image.Resampling[name]))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    assert import_fast_resizer() is not None, "cykooz-resizer is not installed: Pillow scales"
    rows = []
    for size, target in SIZES:
        pixels = photograph(*size)
        row: dict[str, Any] = {"picture": "x".join(map(str, size)), "to": "x".join(map(str, target))}
        for kernel in (
            ImageKernel.ANTIALIASED_LINEAR,
            ImageKernel.ANTIALIASED_CUBIC,
            ImageKernel.ANTIALIASED_LANCZOS,
            ImageKernel.ANTIALIASED_BOX,
        ):
            entry = KERNELS[kernel]
            calls = {
                "Pillow": lambda p=pixels, t=target, n=entry.pillow: plain(p, *t, n),
                "ours": lambda p=pixels, t=target, k=kernel: resize(p, *t, k),
            }
            levels = np.abs(calls["Pillow"]().astype(int) - calls["ours"]())
            assert levels.max() <= (2 if entry.overshoots else 1 if entry.fast else 0)
            cost = medians(interleaved(calls, options.rounds, 1))
            row[f"`{entry.pillow}`"] = cost["Pillow"] / cost["ours"]
            row[DIFFERENCE] = max(row.pop(DIFFERENCE, 0.0), float(levels.mean()))
        rows.append(row)
    shrinking = [row for row, (size, target) in zip(rows, SIZES, strict=True) if size[0] >= 1.5 * target[0]]
    bars = [
        at_least(f"shrinking by a factor of 1.5, {name}", min(row[name] for row in shrinking), 4)
        for name in rows[0]
        if name.startswith("`")
    ]
    report({"resize": rows}, options.json, bars)


if __name__ == "__main__":
    main()
