"""Evidence of a learned contract in the model's metadata, and whether it still holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.model.contracts import EVIDENCE
from ..core.model.model import LearningModel
from ..errors import InvalidArgumentError, WinMLError

if TYPE_CHECKING:
    from ..core.base.arrays import Size

KEY = EVIDENCE
"""The metadata key of the evidence, which is JSON."""

VERSION = 1

NOT_TRIED = (
    "Not tested: sizes and contents that no test picture has. A rule that depends on the content of a picture, "
    "or that applies to one size only, may be missing."
)


@dataclass(frozen=True)
class ContractEvidence:
    """What a contract was learned from, and checked on.

    Attributes:
        function: the full name of the function.
        contract: the metadata of the contract.
        largest: height and width of the largest pictures that it was checked on. Binding a picture that fits in none
            of them warns.
        not_tried: what the check may have missed, in sentences.
    """

    function: str
    contract: Mapping[str, str]
    largest: tuple[Size, ...]
    not_tried: str = NOT_TRIED

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> ContractEvidence | None:
        """A model's evidence, or None; raises InvalidArgumentError if it cannot be read."""
        if KEY not in metadata:
            return None
        try:
            facts = json.loads(metadata[KEY])
            if facts["version"] != VERSION:
                raise ValueError(f"expected version {VERSION}, got {facts['version']!r}")
            contract = {str(key): str(value) for key, value in facts["contract"].items()}
            largest = tuple((int(height), int(width)) for height, width in facts["largest"])
            return cls(str(facts["function"]), contract, largest, str(facts["not_tried"]))
        except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError, WinMLError) as error:
            raise InvalidArgumentError(
                f"The model's evidence is invalid: {type(error).__name__}: {error}.",
                hint=f"Correct the metadata entry {KEY}, or learn the contract again.",
            ) from error

    def to_metadata(self) -> dict[str, str]:
        """The metadata entry with the evidence."""
        return {KEY: json.dumps({"version": VERSION, **vars(self)}, separators=(",", ":"))}

    def changes(self, model: LearningModel) -> tuple[str, ...]:
        """How a model's contract differs from the one that was learned, in sentences; empty if it does not."""
        changes = []
        for key in METADATA_KEYS:
            before, now = self.contract.get(key, "nothing"), model.metadata.get(key, "nothing")
            if before != now and key != "Image.DataType":  # added for models of bytes
                changes.append(f"{key} was {before} when the contract was learned, and is now {now}.")
        if find_stated_contract(model.input_features) is None:
            changes.append("The model no longer has an input that takes pictures.")
        return tuple(changes)


def find_stated_contract(features: Iterable[FeatureDescriptor]) -> ImageContract | None:
    """The contract of the first picture input, which the metadata state for all of them; None if there is none."""
    contracts = (image.contract for image in features if isinstance(image, ImageFeatureDescriptor))
    return next(contracts, None)
