"""The page's open models, with their inputs, and pictures; and new files beside them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from .._inputs.model import Case
from .._inputs.trial import Running
from ..authoring.evidence import outdated
from ..core.base.arguments import is_text
from ..core.base.atomic_files import written_to
from ..core.base.messages import Facts
from ..core.base.winrt_object import private_state
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from ..core.features.pictures import contract_for_bind
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.onnx_file.source import FileSource
from ..enums import TensorKind, TensorLayout
from ..errors import InvalidArgumentError, StorageExistsError, WinMLError
from .switches import contract_facts, describe
from .worker import Worker

_RESERVED = frozenset('<>:"/\\|?*')
"""Characters that a system does not allow in file names."""


class PictureOnDisk(NamedTuple):
    """The file of a picture, and the seconds to decode it; `is_here` if the file is the user's, not a copy."""

    path: str
    name: str
    is_here: bool
    width: int
    height: int
    seconds: float


class OpenModel:
    """A model that is open on the page.

    Attributes:
        path: its file; "" if a program's own model has none.
        is_here: whether the file is the user's own, rather than a copy.
        features: its inputs, by name.
        stated: the contracts that the model or its exporter states, by input.
        contracts: the initial contract of each input that can take a picture.
        turn: the lock of its evaluation.
        case: the model, its device and its last inputs, for the graph page.
        running: the evaluations of the graph and edit pages.
    """

    def __init__(self, path: str, name: str, model: LearningModel, worker: Worker, is_here: bool) -> None:
        self.path, self.name, self.model, self.worker, self.is_here = path, name, model, worker, is_here
        self.features = {feature.name: feature for feature in model.input_features}
        self.stated = {
            name: one.contract for name, one in self.features.items() if isinstance(one, ImageFeatureDescriptor)
        }
        assumed = {name: _assumed_contract(one) for name, one in self.features.items()}
        self.contracts = {name: contract for name, contract in assumed.items() if contract is not None}
        self.turn, self.running = threading.Lock(), Running()
        self.case: Case = worker.case

    def facts(self) -> Facts:
        """For JSON."""
        return {
            "name": self.name,
            "path": self.path if self.is_here else "",
            "description": self.model.description,
            "outdated": outdated(self.model),
            "is_isolated": self.worker.is_isolated,
            "inputs": [self._input_facts(one) for one in self.features.values()],
            "outputs": [{"name": one.name, "words": one.describe()} for one in self.model.output_features],
        }

    def complete(self, name: str, contract: ImageContract) -> ImageContract:
        """A contract for an input: an input of bytes requires contracts of bytes."""
        feature = self.features[name]
        is_bytes = isinstance(feature, ShapedDescriptor) and feature.tensor_kind is TensorKind.UINT8
        is_open = is_bytes and contract.tensor_kind is None
        return replace(contract, tensor_kind=TensorKind.UINT8) if is_open else contract

    def _input_facts(self, feature: FeatureDescriptor) -> Facts:
        contract = self.contracts.get(feature.name)
        return {
            "name": feature.name,
            "words": _describe(feature),
            "channels": _fixed(feature, contract, 0),
            "is_free": not _fixed(feature, contract, 1) and not _fixed(feature, contract, 2),
            "contract": None if contract is None else contract_facts(contract),
        }


def _describe(feature: FeatureDescriptor) -> str:
    """The type in a line, with the file's image metadata in the page's words."""
    if not isinstance(feature, ImageFeatureDescriptor):
        return feature.describe()
    kind = feature.describe().removesuffix(feature.contract.describe()).rstrip(", ")
    return f"{kind}; in the file: {describe(feature.contract)}"


def _fixed(feature: FeatureDescriptor, contract: ImageContract | None, place: int) -> int:
    """The channels, height or width (0, 1, 2) that the model fixes for a picture; 0 if it does not, or takes none."""
    if contract is None or not isinstance(feature, ShapedDescriptor):
        return 0
    return max(0, feature.shape[contract.axes()[place]])


def _assumed_contract(feature: FeatureDescriptor) -> ImageContract | None:
    """An input's own contract, or Windows ML's rule; None if it takes no pictures.

    The page offers a picture for four dimensions, one or three channels, floats or bytes.
    """
    if isinstance(feature, ImageFeatureDescriptor):
        return feature.contract
    kinds = (TensorKind.FLOAT, TensorKind.FLOAT16, TensorKind.UINT8)
    if not isinstance(feature, ShapedDescriptor) or len(feature.shape) != 4 or feature.tensor_kind not in kinds:
        return None
    if feature.shape[1] in (1, 3):
        return contract_for_bind(feature)
    if feature.shape[3] not in (1, 3):
        return None
    channels_first = replace(feature, shape=type(feature.shape)((-1, feature.shape[3], -1, -1)))
    return replace(contract_for_bind(channels_first), layout=TensorLayout.NHWC)


def file_of(model: LearningModel) -> str:
    """The file that a model was loaded from; "" if it has none, or has been disposed of."""
    try:
        source = private_state(model).open()
    except WinMLError:
        return ""
    return source.path if isinstance(source, FileSource) else ""


def plain_name(name: str, otherwise: str) -> str:
    """A file name without folders, for any system's separators."""
    return name.replace("\\", "/").rpartition("/")[2][:200] or otherwise


@contextmanager
def new_file_beside(path: str, name: object) -> Iterator[str]:
    """The path of a new model file in a model's folder: an empty file reserves the name until the block has written it.

    Raises:
        InvalidArgumentError: not the name of a model file.
        StorageExistsError: the file exists.
        StorageAccessError: the file cannot be written.
    """
    is_name = isinstance(name, str) and is_text(name) and name.endswith(".onnx") and not name.startswith(".")
    if not is_name or any(letter in _RESERVED or ord(letter) < 32 for letter in str(name)):
        raise InvalidArgumentError(
            f"{name!r} is not the name of a model file.", hint="Use a name without folders that ends with .onnx."
        )
    final = Path(path).with_name(str(name))
    with written_to(final):
        try:
            final.open("x").close()
        except FileExistsError:
            raise StorageExistsError(f"{name}: This file exists beside the model.") from None
    try:
        yield str(final)
    except BaseException:
        final.unlink(missing_ok=True)
        raise
