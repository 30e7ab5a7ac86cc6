"""LearningModelDevice: where a session runs."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, NoReturn

from .errors import InvalidDeviceError
from .kinds import LearningModelDeviceKind
from .objects import Object
from .runtime.engine import Engine, EngineInput, EngineOptions


class DisplayAdapterId(NamedTuple):
    """The number Windows gives an adapter; both parts are 0 for the CPU."""

    low_part: int
    high_part: int


class LearningModelDevice(Object):
    """A device to compile sessions for.

    Args:
        kind: `DEFAULT` and `CPU` are the CPU.

    Raises:
        InvalidDeviceError: a kind that means a GPU, of which this version knows none.

    Example:
        >>> from winml_py import LearningModelDevice, LearningModelDeviceKind
        >>> LearningModelDevice(LearningModelDeviceKind.CPU)
        <LearningModelDevice CPU>
    """

    def __init__(self, kind: LearningModelDeviceKind = LearningModelDeviceKind.DEFAULT, /) -> None:
        try:
            self._kind = LearningModelDeviceKind(kind)
        except ValueError:
            raise InvalidDeviceError(
                f"{kind!r} is no LearningModelDeviceKind.", hint="Use LearningModelDeviceKind.DEFAULT or CPU."
            ) from None
        if self._kind not in (LearningModelDeviceKind.DEFAULT, LearningModelDeviceKind.CPU):
            raise InvalidDeviceError(
                f"There is no device for {self._kind.name}: this version of winml-py runs on the CPU alone.",
                hint="Use LearningModelDeviceKind.DEFAULT or CPU.",
            )

    @classmethod
    def create_from_direct3d11_device(cls, device: Any, /) -> NoReturn:
        """Windows ML's way to share a Direct3D device.

        Raises:
            InvalidDeviceError: always: there is no Direct3D here.
        """
        raise InvalidDeviceError("There is no Direct3D here.", hint="Name a LearningModelDeviceKind instead.")

    @property
    def kind(self) -> LearningModelDeviceKind:
        """The kind the device was made with."""
        return self._kind

    @property
    def adapter_id(self) -> DisplayAdapterId:
        """0 and 0 for the CPU."""
        return DisplayAdapterId(0, 0)

    @property
    def direct3d11_device(self) -> None:
        """None, as for Windows ML's CPU: no device here is a Direct3D one."""
        return

    def __repr__(self) -> str:
        return f"<LearningModelDevice {self._kind.name}>"

    def _compile(self, model: EngineInput, options: EngineOptions) -> Engine:
        from .runtime.ort import compile_for_cpu

        return compile_for_cpu(model, options)

    def _key(self) -> Hashable:
        """Equal for devices whose sessions may share an engine."""
        return "cpu"

    def _session_lock(self) -> AbstractContextManager[object]:
        """What a session holds while it runs: nothing on the CPU; a GPU's provider wants one lock a session."""
        return nullcontext()
