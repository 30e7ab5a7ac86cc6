"""LearningModelExperimental: joins, renames and saves a loaded model. And the experimental sessions, devices and
options.
"""

from __future__ import annotations

import os

from ..core.base.arguments import is_text
from ..core.base.collections import NameMap
from ..core.base.messages import type_name
from ..core.base.winrt_object import Object, private_state
from ..core.model.model import LearningModel, rename
from ..core.runtime.device import LearningModelDevice
from ..core.session.session import LearningModelSession
from ..enums import LearningModelDeviceKind
from ..errors import InvalidArgumentError
from .join import LearningModelJoinOptions, join_models
from .model_file import read_model, save_model, to_bytes


class LearningModelExperimental(Object):
    """Joins a model with another one, renames it, and saves it.

    Args:
        model: the model; it may have sessions.

    Example:
        >>> from winml_py import LearningModel
        >>> from winml_py.experimental import LearningModelExperimental, LearningModelJoinOptions
        >>> edges, invert = LearningModel.load("models/edges.onnx"), LearningModel.load("models/invert.onnx")
        >>> options = LearningModelJoinOptions()
        >>> options.link(edges.output_features[0].name, invert.input_features[0].name)
        >>> options.joined_node_prefix = "invert."
        >>> model = LearningModelExperimental(edges).join_model(invert, options)
        >>> [feature.name for feature in model.output_features]
        ['invert.result']
    """

    def __init__(self, model: LearningModel, /) -> None:
        self._model = require_model(model)

    def join_model(self, other: LearningModel, options: LearningModelJoinOptions, /) -> LearningModel:
        """A new model that evaluates the model, then another one. Neither of them changes.

        Its inputs are those of the first, and those of the other that are not linked; its outputs those of the first
        that are not linked, if `options` promotes them, then those of the other. Metadata and image contracts are those
        of both, as far as they say something of inputs and outputs that are still there.

        Args:
            other: what comes after.
            options: which outputs become its inputs.

        Raises:
            InvalidArgumentError: a link names what is not there, or values that do not fit.
            NotSupportedError: the operator sets or contracts cannot be brought together, or the model would be larger
                than 2 GB.
            ModelDisposedError: a model has been disposed of.
        """
        if not isinstance(options, LearningModelJoinOptions):
            raise InvalidArgumentError(
                f"The options of a join are {type_name(options)}.", hint="Make them: LearningModelJoinOptions()."
            )
        proto = join_models(self._model, require_model(other), options)
        model = type(self._model).load(to_bytes(proto))
        self._attach_contracts(model, other, options)
        if options.close_model_on_join:
            self._model.dispose()
            other.dispose()
        return model

    join_models = join_model

    def _attach_contracts(self, model: LearningModel, other: LearningModel, options: LearningModelJoinOptions) -> None:
        """Attaches what the program had attached to the inputs of both models."""
        input_sources = [(feature.name, self._model) for feature in self._model.input_features]
        input_sources += [
            (feature.name, other) for feature in other.input_features if feature.name not in options.links
        ]
        for feature, (name, source) in zip(model.input_features, input_sources, strict=True):
            if name in source.contracts:
                model.contracts[feature.name] = source.contracts[name]

    def save(self, file_name: str | os.PathLike[str], /) -> None:
        """Writes the model to a file, which appears whole or not at all. It has the name that `set_name` gave.

        Contracts that the program attached are not written: `winml_py.authoring.write_contract` writes one.

        Raises:
            ModelDisposedError: the model has been disposed of.
            StorageNotFoundError: there is no folder to write to.
            StorageAccessError: the file cannot be written.
        """
        save_model(read_model(self._model), file_name)

    def set_name(self, model_name: str, /) -> None:
        """Gives the model another name, which is not empty; its file stays as it is."""
        if not is_text(model_name) or not model_name:
            raise InvalidArgumentError(f"The name of the model is {model_name!r}.", hint="It is text, and not empty.")
        rename(self._model, model_name)


def require_model(model: object) -> LearningModel:
    """Returns a model, or raises InvalidArgumentError."""
    if isinstance(model, LearningModel):
        return model
    raise InvalidArgumentError(
        f"A model is a LearningModel, not {type_name(model)}.", hint="Load it first: LearningModel.load(path)."
    )


# What the experimental API tells of sessions, and the devices that it calls by the runtime's providers.


class LearningModelSessionOptionsExperimental(Object):
    """What a session was compiled with."""

    def __init__(self, session: LearningModelSession, /) -> None:
        """Use `LearningModelSessionExperimental.options`."""
        self._dimensions = dict(private_state(session).engine.options.dimensions)

    def get_named_dimension_overrides(self) -> NameMap[int]:
        """The sizes that the session's options gave to named dimensions; all others are as the model has them."""
        return NameMap(self._dimensions)


class LearningModelSessionExperimental(Object):
    """Tells with which options a session was made.

    Example:
        >>> from winml_py import LearningModel, LearningModelSession
        >>> from winml_py.experimental import LearningModelSessionExperimental
        >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
        >>> dict(LearningModelSessionExperimental(session).options.get_named_dimension_overrides())
        {}
    """

    def __init__(self, session: LearningModelSession, /) -> None:
        if not isinstance(session, LearningModelSession):
            raise InvalidArgumentError(
                f"A session is a LearningModelSession, not {type_name(session)}.",
                hint="Make one: LearningModelSession(model).",
            )
        self._session = session

    @property
    def options(self) -> LearningModelSessionOptionsExperimental:
        """What the session was compiled with; `ClosedError` where it is closed."""
        return LearningModelSessionOptionsExperimental(self._session)


class LearningModelDeviceExperimental(Object):
    """Devices by the provider that uses them; each method raises `InvalidDeviceError` where there is none."""

    @staticmethod
    def create_dml_device() -> LearningModelDevice:
        """A GPU: what DirectML is in Windows, WebGPU or another provider is here."""
        return LearningModelDevice(LearningModelDeviceKind.DIRECTX)

    @staticmethod
    def create_open_vino_device() -> LearningModelDevice:
        """A GPU or NPU of Intel's; `options.engine = "openvino"` runs OpenVINO on the CPU."""
        return LearningModelDevice.find("openvino")

    @staticmethod
    def create_tensor_rt_device() -> LearningModelDevice:
        """A GPU of NVIDIA's, with TensorRT."""
        return LearningModelDevice.find("tensorrt")

    @staticmethod
    def create_cuda_device() -> LearningModelDevice:
        """A GPU of NVIDIA's, with CUDA."""
        return LearningModelDevice.find("cuda")
