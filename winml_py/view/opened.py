"""What the page has open: models, with what they take, and pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..core.base.messages import Facts
from ..core.base.winrt_object import inside
from ..core.features.bind_properties import NO_PROPERTIES
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from ..core.features.pictures import contract_for_bind
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.onnx_file.source import FileSource
from ..enums import TensorKind, TensorLayout
from ..errors import WinMLError
from .switches import contract_facts
from .worker import Worker


class PictureOnDisk(NamedTuple):
    """A picture that the page was given.

    Attributes:
        path: its file.
        name: what it was called.
        is_here: whether the file is the user's own, and not a copy.
        width: pixels.
        height: pixels.
    """

    path: str
    name: str
    is_here: bool
    width: int
    height: int


class OpenModel:
    """A model that the page can be asked about.

    Args:
        path: its file; "" where a program's own model has none.
        name: what it is called.
        model: what was loaded.
        worker: evaluates it.
        is_here: whether the file is the user's own, and not a copy.
    """

    def __init__(self, path: str, name: str, model: LearningModel, worker: Worker, is_here: bool) -> None:
        self.path, self.name, self.model, self.worker, self.is_here = path, name, model, worker, is_here
        self.features = {feature.name: feature for feature in model.input_features}

    @property
    def stated_contract(self) -> ImageContract | None:
        """What the model states of its pictures, or its exporter did."""
        images = [one.contract for one in self.features.values() if isinstance(one, ImageFeatureDescriptor)]
        return images[0] if images else None

    @property
    def contract(self) -> ImageContract | None:
        """What pictures are bound by at first; None where no input can be one."""
        stated = self.stated_contract
        if stated is not None:
            return stated
        features = [feature for feature in self.features.values() if may_be_picture(feature)]
        if not features:
            return None
        (feature, *_) = features
        assert isinstance(feature, ShapedDescriptor)
        if feature.shape[1] in (1, 3):
            return contract_for_bind(feature, NO_PROPERTIES)
        contract = contract_for_bind(
            replace(feature, shape=type(feature.shape)((-1, feature.shape[3], -1, -1))), NO_PROPERTIES
        )
        return replace(contract, layout=TensorLayout.NHWC)

    def facts(self) -> Facts:
        """For JSON."""
        contract, is_stated = self.contract, self.stated_contract is not None
        return {
            "name": self.name,
            "path": self.path if self.is_here else "",
            "title": self.model.name,
            "description": self.model.description,
            "contract": None if contract is None else contract_facts(contract),
            "is_stated": is_stated,
            "labels": len(self.model.labels),
            "is_isolated": self.worker.is_isolated,
            "inputs": [
                {
                    "name": one.name,
                    "words": one.describe(),
                    "is_picture": may_be_picture(one),
                    "free_size": _is_free(one),
                }
                for one in self.features.values()
            ],
            "outputs": [{"name": one.name, "words": one.describe()} for one in self.model.output_features],
        }


def may_be_picture(feature: FeatureDescriptor) -> bool:
    """Whether the page offers a picture for an input: four dimensions, one or three channels, floats or bytes."""
    if isinstance(feature, ImageFeatureDescriptor):
        return True
    if not isinstance(feature, ShapedDescriptor) or len(feature.shape) != 4:
        return False
    kinds = (TensorKind.FLOAT, TensorKind.FLOAT16, TensorKind.UINT8)
    channels = [feature.shape[1]] if feature.shape[1] in (1, 3) else [feature.shape[3]]
    return feature.tensor_kind in kinds and channels[0] in (1, 3)


def _is_free(feature: FeatureDescriptor) -> bool:
    return isinstance(feature, ShapedDescriptor) and -1 in tuple(feature.shape)[1:]


def file_of(model: LearningModel) -> str:
    """The file that a model was loaded from; "" where it has none, or has been disposed of."""
    try:
        source = inside(model).open()
    except WinMLError:
        return ""
    return source.path if isinstance(source, FileSource) else ""


def plain_name(name: str, otherwise: str) -> str:
    """The name of a file without folders, of either system's."""
    return name.replace("\\", "/").rpartition("/")[2][:200] or otherwise
