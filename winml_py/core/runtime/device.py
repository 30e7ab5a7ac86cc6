"""LearningModelDevice: where a session runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ...enums import LearningModelDeviceKind
from ...errors import InvalidArgumentError, InvalidDeviceError
from ..base import machine
from ..base.arguments import require_member
from ..base.winrt_object import Object
from .request import Compiler

if TYPE_CHECKING:
    from .providers.provider import ProviderDevice

_WEBGPU = "For any GPU with a Vulkan, Metal or Direct3D 12 driver, run pip install 'winml-py[gpu]'"
_CUDA = "For CUDA, run `pip uninstall onnxruntime`, then `pip install --force-reinstall 'onnxruntime-gpu[cuda,cudnn]'`"
_PACKAGES = {
    ("nvidia", "rtx"): f"For NVIDIA's RTX GPUs, run pip install 'winml-py[nvidia]'. {_CUDA}",
    ("cuda", "tensorrt"): _CUDA,
    ("mlx", "apple"): "For GPUs of Macs with Apple silicon, run pip install 'winml-py[apple]'",
    ("npu", "intel", "openvino"): "For Intel GPUs and NPUs, run pip install 'winml-py[intel]'",
    ("dml", "directml", "directx"): "On Windows, run `pip uninstall onnxruntime`, then `pip install --force-reinstall "
    "onnxruntime-directml`",
    ("gpu", "vulkan", "metal"): _WEBGPU,
}
"""What to install for a device, by the words in the name that a program asks for."""

_CPU_KINDS = (LearningModelDeviceKind.DEFAULT, LearningModelDeviceKind.CPU)

_KINDS = {
    "cpu": LearningModelDeviceKind.CPU,
    "gpu-high-performance": LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE,
    "gpu-min-power": LearningModelDeviceKind.DIRECTX_MIN_POWER,
}
"""The names of kinds: for these, no provider is tried that is not needed."""


class DisplayAdapterId(NamedTuple):
    """An adapter's id: on Windows its LUID, elsewhere its address on the PCI bus; 0 and 0 for the CPU."""

    low_part: int
    high_part: int


class LearningModelDevice(Object):
    """A device to compile sessions for.

    Args:
        kind: `DEFAULT` and `CPU` are the CPU. `DIRECTX` is a GPU, on any system; the other two prefer a discrete one,
            or one that shares the processor's memory.

    Raises:
        InvalidDeviceError: no installed provider can use a GPU here; the message says what each lacks.

    Example:
        >>> from winml_py import LearningModelDevice, LearningModelDeviceKind
        >>> LearningModelDevice(LearningModelDeviceKind.CPU)
        <LearningModelDevice CPU>
        >>> [device.hardware for device in LearningModelDevice.find_all()][0]
        'cpu'
    """

    def __init__(
        self, kind: LearningModelDeviceKind = LearningModelDeviceKind.DEFAULT, /, *, _device: Any = None
    ) -> None:
        if isinstance(kind, str):
            raise InvalidDeviceError(
                f"Expected a LearningModelDeviceKind, got {kind!r}.", hint=f"Call LearningModelDevice.find({kind!r})."
            )
        self._kind = require_member(LearningModelDeviceKind, kind, "The device kind", InvalidDeviceError)
        self._device: ProviderDevice | None = _device
        if self._device is None and self._kind not in _CPU_KINDS:
            self._device = _find_gpu(self._kind)
        self._private_state: Compiler
        if self._device is None:
            from .cpu_compiler import CpuCompiler

            self._private_state = CpuCompiler()
        else:
            from .gpu_compiler import DeviceCompiler

            self._private_state = DeviceCompiler(self._device)

    @classmethod
    def find_all(cls) -> list[LearningModelDevice]:
        """The CPU, and every GPU and NPU on which an installed provider has just run a small model.

        A device that two providers can use is listed twice, the better provider first. The first call takes about a
        second, because it tries each provider in a child process.
        """
        from .providers import plugins  # not at the top: sessions on the CPU need no provider

        devices = plugins.find_gpus() + plugins.find_devices("npu")
        accelerators = [cls(LearningModelDeviceKind.DIRECTX, _device=device) for device in devices]
        return [cls(LearningModelDeviceKind.CPU), *accelerators]

    @classmethod
    def find(cls, name: str, /) -> LearningModelDevice:
        """The first device of `find_all` whose name, provider or hardware contains `name`; case does not matter.

        Args:
            name: such as "gpu", or a part of what `winml-py devices` prints; "gpu-high-performance" and "gpu-min-power"
                are the kinds `DIRECTX_HIGH_PERFORMANCE` and `DIRECTX_MIN_POWER`.

        Raises:
            InvalidDeviceError: no device matches.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidArgumentError(
                f"A device name must be a string, not {name!r}.", hint="To list the names, run `winml-py devices`."
            )
        needle = name.casefold()
        if needle in _KINDS:
            return cls(_KINDS[needle])
        devices = cls.find_all()
        for device in devices:
            # Kinds come before names, because names of software GPUs may contain "cpu".
            if needle in device.hardware:
                return device
        for device in devices:
            if needle in f"{device.name} {device.provider}".casefold():
                return device
        from .providers import plugins

        install = next((hint for words, hint in _PACKAGES.items() if any(word in needle for word in words)), "")
        names = ", ".join(f"{device.name} ({device.hardware})" for device in devices)
        raise InvalidDeviceError(
            f"There is no device named {name!r}. Available: {names}.",
            hint=". ".join(
                filter(None, (plugins.describe_problems(), install, "To see what is missing, run `winml-py doctor`."))
            ),
        )

    @classmethod
    def create_from_direct3d11_device(cls, device: object, /) -> NoReturn:
        """Windows ML's way to share a Direct3D device.

        Raises:
            InvalidDeviceError: always: Direct3D devices are not supported.
        """
        raise InvalidDeviceError("Direct3D devices are not supported.", hint="Pass a LearningModelDeviceKind instead.")

    create_from_direct3_d11_device = create_from_direct3d11_device  # pywinrt 2's name

    @property
    def kind(self) -> LearningModelDeviceKind:
        """The kind the device was made with; `DIRECTX` for one that was found."""
        return self._kind

    @property
    def adapter_id(self) -> DisplayAdapterId:
        """The number by which Windows knows the adapter; 0 and 0 for the CPU."""
        if self._device is None:
            return DisplayAdapterId(0, 0)
        high, low = self._device.identity
        return DisplayAdapterId(low, high)

    @property
    def hardware(self) -> str:
        """One of "cpu", "gpu" and "npu"."""
        return "cpu" if self._device is None else self._device.hardware

    @property
    def name(self) -> str:
        """The vendor's name for it."""
        return machine.read_processor_name() if self._device is None else self._device.name

    @property
    def vendor(self) -> str:
        """The name of its vendor, or ""."""
        return machine.read_processor_vendor() if self._device is None else self._device.vendor

    @property
    def provider(self) -> str:
        """The execution provider of ONNX Runtime that runs models there, unless a session's options say otherwise."""
        return "CPUExecutionProvider" if self._device is None else self._device.provider

    @property
    def memory(self) -> int | None:
        """Its memory in bytes; for the CPU, what the system or a container allows. None if unknown."""
        return machine.read_total_memory() if self._device is None else self._device.memory

    @property
    def supports_float16(self) -> bool:
        """Whether an installed provider computes in half precision on it."""
        if self._device is None:
            from .providers import plugins

            return any(device.float16 for device in plugins.find_devices("cpu"))
        return self._device.float16

    @property
    def direct3d11_device(self) -> None:
        """None, as for Windows ML's CPU: an engine keeps the Direct3D device that it makes to itself."""
        return

    direct3_d11_device = direct3d11_device  # pywinrt 2's name

    def __eq__(self, other: object) -> bool:
        # A device of a derived class equals only itself.
        if type(self) is type(other) is LearningModelDevice:
            return self._device == other._device
        return self is other

    def __hash__(self) -> int:
        return hash(self._device)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the kind of the CPU, or the facts of a device that was found, for the other process to find again."""
        return (type(self), (self._kind,)) if self._device is None else (_find_again, (self._device,))

    def __repr__(self) -> str:
        name = "" if self._device is None else f" {self._device.name!r} by {self._device.provider}"
        return f"<LearningModelDevice {self._kind.name}{name}>"


def _find_again(pickled: ProviderDevice) -> LearningModelDevice:
    from .providers import plugins

    devices = plugins.find_gpus() + plugins.find_devices("npu")
    matches = [device for device in devices if (device.name, device.provider) == (pickled.name, pickled.provider)]
    if len(matches) > 1:  # several cards of one name
        exact = (pickled.identity, pickled.number)
        matches = [device for device in matches if (device.identity, device.number) == exact]
    if len(matches) == 1:
        return LearningModelDevice(LearningModelDeviceKind.DIRECTX, _device=matches[0])
    names = ", ".join(device.name for device in LearningModelDevice.find_all())
    raise InvalidDeviceError(
        f"The pickled device {pickled.name} ({pickled.provider}) is not available here. Available: {names}.",
        hint="Pickle a kind or a name instead, and find the device where it is used.",
    )


def _find_gpu(kind: LearningModelDeviceKind) -> ProviderDevice:
    from .providers import plugins

    devices = plugins.find_gpus(kind is LearningModelDeviceKind.DIRECTX_MIN_POWER)
    if not devices:
        raise InvalidDeviceError(
            f"No installed package can use a GPU: {plugins.describe_problems() or 'none has a provider for GPUs'}.",
            hint=f"{_WEBGPU}. To see what is missing, run `winml-py doctor`.",
        )
    return devices[0]
