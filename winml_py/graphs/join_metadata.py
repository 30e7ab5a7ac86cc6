"""Metadata of two models that are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from ..core.imaging.contract import OUR_KEYS, WINDOWS_KEYS
from ..errors import NotSupportedError

CONTRACT_KEYS = frozenset((*WINDOWS_KEYS, *OUR_KEYS, "imgsz"))
"""Keys that say how pictures become tensors; the last is one of Ultralytics', and without it there is no contract."""


def own_metadata(metadata: Mapping[str, str], kept: Iterable[FeatureDescriptor]) -> dict[str, str]:
    """What a model says of itself in a joined one.

    Args:
        metadata: what it says alone.
        kept: its features that are features of the joined model. The keys of a contract say something of images among
            them, and without any would be taken for the other model's.
    """
    if any(isinstance(feature, ImageFeatureDescriptor) for feature in kept):
        return dict(metadata)
    return {key: value for key, value in metadata.items() if key not in CONTRACT_KEYS}


def joined_metadata(first: Mapping[str, str], second: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The metadata of both models; what they state differently stands under the key, and for the second one under
    the key with the prefix of its names.

    Raises:
        NotSupportedError: both state a contract for images, and another one.
    """
    contracts = [{key: own[key] for key in CONTRACT_KEYS & own.keys()} for own in (first, second)]
    if all(contracts) and contracts[0] != contracts[1]:
        raise NotSupportedError(
            "Both models state how their pictures become tensors, and differently; a model states it once.",
            hint="Write one of them without: winml-py edit MODEL --denotation NAME= --output OUT.",
        )
    differing = {key for key in first.keys() & second.keys() if first[key] != second[key]}
    prefix = prefix or "joined."
    return {**{f"{prefix}{key}" if key in differing else key: text for key, text in second.items()}, **first}
