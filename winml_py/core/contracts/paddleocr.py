"""What PaddleOCR's readers of text have in their metadata: `character`, one a line. They state no contract."""

from __future__ import annotations

from collections.abc import Mapping


def labels_of(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The characters by their class, as PaddleOCR's decoder has them: the blank first, as "", and the space last."""
    characters = metadata.get("character", "").removesuffix("\n")
    return ("", *characters.split("\n"), " ") if characters else ()
