"""The exporters whose own metadata are understood. A new one has a file, and a place in `EXPORTERS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..imaging.contract import ImageContract
from . import ultralytics


class Exporter(Protocol):
    """What the file of an exporter offers.

    Attributes:
        KEYS: keys of the metadata without which its contract is not stated.
    """

    KEYS: frozenset[str]

    def contract_of(self, metadata: Mapping[str, str]) -> ImageContract | None:
        """How the exporter's own code turns a picture into the model's tensor; None where the metadata do not say."""

    def labels_of(self, metadata: Mapping[str, str]) -> tuple[str, ...]:
        """The names of the classes in their order; none where the metadata do not say."""


EXPORTERS: tuple[Exporter, ...] = (ultralytics,)


def contract_of(metadata: Mapping[str, str]) -> ImageContract | None:
    """The contract that the first exporter finds in a model's metadata; None where none does."""
    return next((found for exporter in EXPORTERS if (found := exporter.contract_of(metadata)) is not None), None)


def labels_of(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the classes that the first exporter finds in a model's metadata; none where none does."""
    return next((found for exporter in EXPORTERS if (found := exporter.labels_of(metadata))), ())
