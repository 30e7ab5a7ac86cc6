"""What PaddleOCR's readers of text have in their metadata: `character`, one a line. Their contract is not there."""

from __future__ import annotations

from collections.abc import Mapping

from ..imaging.contract import ImageContract

KEYS = frozenset[str]()


def contract_of(_: Mapping[str, str]) -> ImageContract | None:
    """None: the metadata do not say how pictures become tensors."""
    return None


def labels_of(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The characters by their class, as PaddleOCR's decoder has them: the blank first, as "", and the space last."""
    characters = metadata.get("character", "").removesuffix("\n")
    return ("", *characters.split("\n"), " ") if characters else ()
