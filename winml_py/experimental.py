"""Windows ML's experimental API: models built from operators, and models that are joined, renamed and saved."""

from __future__ import annotations

import os

from ._graphs.builder import LearningModelBuilder, LearningModelInputs, LearningModelOperatorSet, LearningModelOutputs
from ._graphs.join import LearningModelJoinOptions, join_models
from ._graphs.model_file import read_model, save_model, to_bytes
from ._graphs.node import LearningModelOperator, require_name
from .core.base.arguments import require_type
from .core.base.collections import NameMap
from .core.base.winrt_object import Object, private_state
from .core.model.model import LearningModel, rename
from .core.runtime.device import LearningModelDevice
from .core.session.session import LearningModelSession
from .enums import LearningModelDeviceKind

__all__ = [
    "LearningModelBuilder",
    "LearningModelDeviceExperimental",
    "LearningModelExperimental",
    "LearningModelInputs",
    "LearningModelJoinOptions",
    "LearningModelOperator",
    "LearningModelOperatorSet",
    "LearningModelOutputs",
    "LearningModelSessionExperimental",
    "LearningModelSessionOptionsExperimental",
]


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
        require_type(model, LearningModel, "Load the model first with LearningModel.load(path).")
        self._model = model

    def join_model(self, other: LearningModel, options: LearningModelJoinOptions, /) -> LearningModel:
        """A new model that evaluates this model, then another one. Neither of them changes.

        Its inputs are those of the first, and the unlinked ones of the other; its outputs are the unlinked ones of the
        first, if `options` promotes them, then those of the other. It has both models' metadata and image contracts, as
        far as they concern remaining inputs and outputs.

        Args:
            other: the model to run after this one.
            options: which outputs become its inputs.

        Raises:
            InvalidArgumentError: a link names an unknown feature, or its types do not fit.
            NotSupportedError: the operator sets or contracts are incompatible, or the model would be larger
                than 2 GB.
            ModelDisposedError: a model has been disposed of.
        """
        require_type(other, LearningModel, "Load the model first with LearningModel.load(path).")
        require_type(options, LearningModelJoinOptions, "Create options with LearningModelJoinOptions().")
        proto = join_models(self._model, other, options)
        model = type(self._model).load(to_bytes(proto))
        # The contracts that the program attached to inputs, which keep their order.
        sources = [(feature.name, self._model) for feature in self._model.input_features]
        sources += [(feature.name, other) for feature in other.input_features if feature.name not in options.links]
        for feature, (name, source) in zip(model.input_features, sources, strict=True):
            if name in source.contracts:
                model.contracts[feature.name] = source.contracts[name]
        if options.close_model_on_join:
            self._model.dispose()
            other.dispose()
        return model

    def save(self, file_name: str | os.PathLike[str], /) -> None:
        """Writes the model to a file, which appears complete or not at all, with the name from `set_name`.

        Contracts attached by the program are not written: `winml_py.authoring.write_contract` writes one.

        Raises:
            ModelDisposedError: the model has been disposed of.
            StorageNotFoundError: the folder does not exist.
            StorageAccessError: the file cannot be written.
        """
        save_model(read_model(self._model), file_name)

    def set_name(self, model_name: str, /) -> None:
        """Gives the model another, non-empty name; its file stays as it is."""
        rename(self._model, require_name(model_name, "The model name"))


# The experimental API's facts about sessions, and its devices, which go by the runtime's providers.


class LearningModelSessionOptionsExperimental(Object):
    """The options that a session was compiled with."""

    def __init__(self, session: LearningModelSession, /) -> None:
        """Use `LearningModelSessionExperimental.options`."""
        self._dimensions = dict(private_state(session).engine.options.dimensions)

    def get_named_dimension_overrides(self) -> NameMap[int]:
        """The sizes that the session's options set for named dimensions; all others are the model's."""
        return NameMap(self._dimensions)


class LearningModelSessionExperimental(Object):
    """Returns the options that a session was made with.

    Example:
        >>> from winml_py import LearningModel, LearningModelSession
        >>> from winml_py.experimental import LearningModelSessionExperimental
        >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
        >>> dict(LearningModelSessionExperimental(session).options.get_named_dimension_overrides())
        {}
    """

    def __init__(self, session: LearningModelSession, /) -> None:
        require_type(session, LearningModelSession, "Create one with LearningModelSession(model).")
        self._session = session

    @property
    def options(self) -> LearningModelSessionOptionsExperimental:
        """The options that the session was compiled with; `ClosedError` if it is closed."""
        return LearningModelSessionOptionsExperimental(self._session)


class LearningModelDeviceExperimental(Object):
    """Devices by the provider that uses them; each method raises `InvalidDeviceError` if there is none."""

    @staticmethod
    def create_dml_device() -> LearningModelDevice:
        """A GPU: DirectML in Windows means WebGPU or another provider here."""
        return LearningModelDevice(LearningModelDeviceKind.DIRECTX)

    @staticmethod
    def create_open_vino_device() -> LearningModelDevice:
        """An Intel GPU or NPU; `options.engine = "openvino"` runs OpenVINO on the CPU."""
        return LearningModelDevice.find("openvino")

    @staticmethod
    def create_tensor_rt_device() -> LearningModelDevice:
        """An NVIDIA GPU, with TensorRT."""
        return LearningModelDevice.find("tensorrt")

    @staticmethod
    def create_cuda_device() -> LearningModelDevice:
        """An NVIDIA GPU, with CUDA."""
        return LearningModelDevice.find("cuda")
