"""The contracts that `ImageContract` has names for."""

from __future__ import annotations

from collections.abc import Callable

from ..imaging.contract import ImageContract

PRESETS: dict[str, Callable[[], ImageContract]] = {
    "imagenet": ImageContract.imagenet,
    "inception": ImageContract.inception,
    "yolo": ImageContract.yolo,
    "clip": ImageContract.clip,
}
"""By the names that the command line takes."""
