"""LearningModelDevice: where a session runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ...enums import LearningModelDeviceKind
from ...errors import InvalidArgumentError, InvalidDeviceError
from ..base import machine
from ..base.arguments import member
from ..base.winrt_object import Object
from .request import Compiler

if TYPE_CHECKING:
    from .providers.provider import ProviderDevice

_CPU_KINDS = (LearningModelDeviceKind.DEFAULT, LearningModelDeviceKind.CPU)


class DisplayAdapterId(NamedTuple):
    """The number that tells an adapter from others: on Windows its LUID, elsewhere its place on the PCI bus.

    Both parts are 0 for the CPU.
    """

    low_part: int
    high_part: int


class LearningModelDevice(Object):
    """A device to compile sessions for.

    Args:
        kind: `DEFAULT` and `CPU` are the CPU. `DIRECTX` is a GPU, on any system; the other two prefer one with
            memory of its own, or one that shares the processor's.

    Raises:
        InvalidDeviceError: no installed provider can use a GPU here; the message says what each lacks.

    Example:
        >>> from winml_py import LearningModelDevice, LearningModelDeviceKind
        >>> LearningModelDevice(LearningModelDeviceKind.CPU)
        <LearningModelDevice CPU>
        >>> [device.hardware for device in LearningModelDevice.find_all()][0]
        'cpu'
    """

    def __init__(self, kind: LearningModelDeviceKind = LearningModelDeviceKind.DEFAULT, /) -> None:
        self._kind = member(LearningModelDeviceKind, kind, "The kind of a device", InvalidDeviceError)
        self._device = None if self._kind in _CPU_KINDS else _gpu(self._kind)
        self._inside = _compiler(self._device)

    @classmethod
    def _from_provider_device(cls, device: ProviderDevice) -> LearningModelDevice:
        instance = cls()
        instance._kind, instance._device = LearningModelDeviceKind.DIRECTX, device
        instance._inside = _compiler(device)
        return instance

    @classmethod
    def find_all(cls) -> list[LearningModelDevice]:
        """The CPU, and every GPU and NPU on which an installed provider has just run a small model.

        A device that two providers can use is there twice, the better provider first. The first call takes a second
        or so: each provider is tried in a process of its own. The answers are kept.
        """
        from .providers import plugins  # not with the class: sessions on the CPU ask no provider

        devices = plugins.gpus() + plugins.devices("npu")
        return [cls(LearningModelDeviceKind.CPU), *(cls._from_provider_device(device) for device in devices)]

    @classmethod
    def find(cls, name: str, /) -> LearningModelDevice:
        """The first device of `find_all` whose name, provider or hardware has `name` in it; case does not matter.

        Raises:
            InvalidDeviceError: if no device has that in its name.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidArgumentError(f"A device's name is text, not {name!r}.", hint="See `winml-py devices`.")
        needle = name.casefold()
        devices = cls.find_all()
        for device in devices:
            # Kinds come before names, because "cpu" stands in the names of software GPUs as well.
            if needle in device.hardware:
                return device
        for device in devices:
            if needle in f"{device.name} {device.provider}".casefold():
                return device
        names = ", ".join(f"{device.name} ({device.hardware})" for device in devices)
        raise InvalidDeviceError(
            f"There is no device named {name!r}; there are {names}.",
            hint=_extra_for(needle),
        )

    @classmethod
    def create_from_direct3d11_device(cls, device: object, /) -> NoReturn:
        """Windows ML's way to share a Direct3D device.

        Raises:
            InvalidDeviceError: always: there is no Direct3D here.
        """
        raise InvalidDeviceError("There is no Direct3D here.", hint="Name a LearningModelDeviceKind instead.")

    create_from_direct3_d11_device = create_from_direct3d11_device  # pywinrt 2's name

    @property
    def kind(self) -> LearningModelDeviceKind:
        """The kind the device was made with; `DIRECTX` for one that was found."""
        return self._kind

    @property
    def adapter_id(self) -> DisplayAdapterId:
        """0 and 0 for the CPU."""
        if self._device is None:
            return DisplayAdapterId(0, 0)
        high, low = self._device.identity
        return DisplayAdapterId(low, high)

    @property
    def hardware(self) -> str:
        """What it is: "cpu", "gpu" or "npu"."""
        return "cpu" if self._device is None else self._device.hardware

    @property
    def name(self) -> str:
        """What its maker calls it."""
        return machine.processor_name() if self._device is None else self._device.name

    @property
    def vendor(self) -> str:
        """Who made it, or ""."""
        return machine.processor_vendor() if self._device is None else self._device.vendor

    @property
    def provider(self) -> str:
        """The execution provider of ONNX Runtime that runs models there, unless a session's options say otherwise."""
        return "CPUExecutionProvider" if self._device is None else self._device.provider

    @property
    def memory(self) -> int | None:
        """Its memory in bytes; for the CPU, the system's. None where nobody says."""
        return machine.total_memory() if self._device is None else self._device.memory

    @property
    def supports_float16(self) -> bool:
        """Whether an installed provider computes in half precision there."""
        if self._device is None:
            from .providers import plugins

            return any(device.float16 for device in plugins.devices("cpu"))
        return self._device.float16

    @property
    def direct3d11_device(self) -> None:
        """None, as for Windows ML's CPU: no device here is a Direct3D one."""
        return

    direct3_d11_device = direct3d11_device  # pywinrt 2's name

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the kind of the CPU, or the name of a device that was found; the other process finds its own."""
        device = self._device
        return (type(self), (self._kind,)) if device is None else (_find_again, (device.name, device.provider))

    def __repr__(self) -> str:
        name = "" if self._device is None else f" {self._device.name!r} by {self._device.provider}"
        return f"<LearningModelDevice {self._kind.name}{name}>"


def _find_again(name: str, provider: str) -> LearningModelDevice:
    devices = LearningModelDevice.find_all()
    match = next((device for device in devices if (device.name, device.provider) == (name, provider)), None)
    if match is None:
        raise InvalidDeviceError(
            f"The device {name} by {provider} was pickled, and this machine has none of that name; there are "
            f"{', '.join(device.name for device in devices)}.",
            hint="Pickle a kind or a word instead, and look for the device where it is used.",
        )
    return match


def are_same(one: LearningModelDevice, other: LearningModelDevice) -> bool:
    """Whether two objects stand for one device, by one provider."""
    if one is other:
        return True
    return type(one) is type(other) is LearningModelDevice and one._device == other._device  # noqa: SLF001 - of its own class


def require_different(devices: Sequence[LearningModelDevice]) -> None:
    """Refuses anything but one device or more, each once.

    Raises:
        InvalidArgumentError: if there is no device, something else, or a device twice.
    """
    if not isinstance(devices, Sequence) or not devices or not all(isinstance(d, LearningModelDevice) for d in devices):
        raise InvalidArgumentError(
            f"The devices are {devices!r}.", hint="Write a list: [session.device, LearningModelDevice.find('gpu')]."
        )
    for one, other in combinations(devices, 2):
        if are_same(one, other):
            raise InvalidArgumentError(f"{one.name} is named twice.", hint="Name each device once.")


def _compiler(device: ProviderDevice | None) -> Compiler:
    if device is None:
        from .cpu.choice import CpuCompiler

        return CpuCompiler()
    from .gpu.compile import DeviceCompiler

    return DeviceCompiler(device)


def _gpu(kind: LearningModelDeviceKind) -> ProviderDevice:
    from .providers import plugins

    devices = plugins.gpus(kind is LearningModelDeviceKind.DIRECTX_MIN_POWER)
    if not devices:
        raise InvalidDeviceError(f"There is no device for {kind.name}: {_no_device_reason()}.", hint=_install_hint())
    return devices[0]


def _no_device_reason() -> str:
    from .providers import plugins

    return plugins.problems() or "no installed package has a provider for one"


_EXTRAS = (
    (
        ("cuda", "nvidia", "geforce", "rtx", "tensorrt"),
        "onnxruntime-gpu",
        "pip install 'winml-py[cuda]', and onnxruntime-gpu in the place of onnxruntime, for NVIDIA's cards",
    ),
    (
        ("openvino", "intel", "npu"),
        "onnxruntime-ep-openvino",
        "pip install 'winml-py[intel]' brings OpenVINO for Intel's GPUs and NPUs",
    ),
    (
        ("directml", "dml"),
        "onnxruntime-directml",
        "pip install onnxruntime-directml, in the place of onnxruntime, brings DirectML on Windows",
    ),
    (("mlx",), "onnxruntime-ep-mlx", "pip install onnxruntime-ep-mlx brings MLX, for Apple's GPUs"),
    (
        ("gpu", "webgpu", "vulkan", "metal", "mps", "directx", "d3d", "amd", "radeon", "apple"),
        "onnxruntime-ep-webgpu",
        "pip install 'winml-py[gpu]' brings WebGPU, for any GPU with a Vulkan, Metal or Direct3D 12 driver",
    ),
)
"""Words for devices, the package that has the provider for them, and how to install it."""


def _extra_for(name: str) -> str:
    """What would bring a device of that name, or why it is not there although that is installed."""
    extra = next(((package, remedy) for words, package, remedy in _EXTRAS if any(word in name for word in words)), None)
    if extra is None:
        return "See `winml-py devices`."
    from .providers import plugins

    package, remedy = extra
    problems = plugins.problems()  # a card may be there that does not work: the cause counts, and not the symptom
    words = _no_device_reason() if _is_installed(package) else "; ".join(filter(None, (remedy, problems)))
    return f"{words}; `winml-py doctor` says more."


def _is_installed(package: str) -> bool:
    from importlib import metadata

    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def _install_hint() -> str:
    return (
        "pip install 'winml-py[gpu]' brings WebGPU, which uses any GPU with a Vulkan, Metal or Direct3D 12 driver; "
        "`winml-py doctor` says what is missing."
    )
