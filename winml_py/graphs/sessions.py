"""What the experimental API tells of sessions, and the devices that it calls by the runtime's providers."""

from __future__ import annotations

from ..core.base.collections import NameMap
from ..core.base.type_names import type_name
from ..core.base.winrt_object import Object
from ..core.evaluation.compiled import compiled_of
from ..core.runtime.device import LearningModelDevice
from ..core.session.session import LearningModelSession
from ..enums import LearningModelDeviceKind
from ..errors import InvalidArgumentError


class LearningModelSessionOptionsExperimental(Object):
    """What a session was compiled with."""

    def __init__(self, session: LearningModelSession, /) -> None:
        """Use `LearningModelSessionExperimental.options`."""
        self._dimensions = dict(compiled_of(session).engine.options.dimensions)

    def get_named_dimension_overrides(self) -> NameMap[int]:
        """The sizes that the session's options gave to named dimensions; all others are as the model has them."""
        return NameMap(self._dimensions)


class LearningModelSessionExperimental(Object):
    """Tells with which options a session was made.

    Args:
        session: the session.

    Example:
        >>> from winml_py import LearningModel, LearningModelDevice, LearningModelSession, LearningModelSessionOptions
        >>> from winml_py.experimental import LearningModelSessionExperimental
        >>> options = LearningModelSessionOptions()
        >>> options.batch_size_override = 0
        >>> options.override_named_dimension("batch", 4)
        >>> session = LearningModelSession(
        ...     LearningModel.load("models/digits_batch.onnx"), LearningModelDevice(), options
        ... )
        >>> dict(LearningModelSessionExperimental(session).options.get_named_dimension_overrides())
        {'batch': 4}
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
        """What the session was compiled with.

        Raises:
            ClosedError: the session has been closed.
        """
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
