"""The description of a provider: the fields of its `Provider` say everything specific to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ....enums import Precision
from ..engine import ONNXRUNTIME, EngineOptions

BUILT_IN = "onnxruntime"
"""Represents the providers in ONNX Runtime's own package, such as CUDA's in onnxruntime-gpu."""

CPU_NAME = "CPUExecutionProvider"


class ProviderDevice(NamedTuple):
    """A device that a provider can use, because it ran a small model on it.

    Attributes:
        provider: the provider's name in ONNX Runtime.
        package: the package it comes from.
        library: its shared library; "" for providers in the runtime's package.
        number: its index among the provider's devices.
        hardware: "cpu", "gpu" or "npu".
        identity: high and low part of a number that identifies the device.
        memory: the device's memory in bytes; None if unknown.
        float16: whether it computes in half precision.
        is_software: whether it is a GPU that a driver emulates on the processor.
        is_discrete: whether it is a GPU with separate memory.
        half_types: the 16-bit types that it computes in, such as "bfloat16 float16"; "" if it does not say.
    """

    provider: str
    package: str
    library: str
    number: int
    hardware: str
    name: str
    vendor: str
    identity: tuple[int, int] = (0, 0)
    memory: int | None = None
    float16: bool = False
    is_software: bool = False
    is_discrete: bool = False
    half_types: str = ""

    @property
    def engine(self) -> str:
        """The provider in the spelling of the option `engine`."""
        return shorten(self.provider)

    def computes_in(self, precision: Precision) -> bool:
        """Whether it computes in a number type; every device computes in float32."""
        types = self.half_types or "float16" * self.float16
        return not precision.is_half or precision.name.lower() in types.split()


class Target(NamedTuple):
    """The target of a compilation: a device (None is ONNX Runtime on the CPU), and a number type."""

    device: ProviderDevice | None = None
    precision: Precision = Precision.FLOAT32

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.device.provider if self.device else CPU_NAME

    @property
    def engine(self) -> str:
        """The engine in the spelling of an `Explanation`."""
        return self.device.provider if self.device else ONNXRUNTIME


class Provider(NamedTuple):
    """An execution provider of ONNX Runtime, or another engine. The defaults are for one that is not in the catalogue.

    Attributes:
        name: its name in ONNX Runtime, or the engine's.
        rank: if two providers can use one GPU, the lower rank is the better one.
        option_keys: the names of its options, separated by spaces; None if it refuses unknown names itself.
        options: its options for a target, unless the caller sets them.
        memory: the runtime's name for its memory, if that can be bound; "" if it takes only the host's.
        is_sequential: whether it runs one node after the other, regardless of the execution mode.
        has_addresses: whether its memory has addresses that other libraries can use.
        capture_option: the option that makes it capture the graph of its work and replay it; "" if it cannot.
        cache_option: the option that names a folder for compiled models; "" if it has none. It finds them there by the
            path of the model, or by names in its graph, so that each model needs its own folder.
        worth_trying: options, as pairs, that `winml-py tune` tries; they change only the last digits.
        shares_lock: whether all sessions on a device share one lock.
        takes_one_thread: whether only one thread at a time may run a session of it.
        built_in_devices: lists its devices, for a provider in the runtime's package; None if the runtime or a plugin
            lists them. Raises InvalidDeviceError if there are none.
        prepare: called before a provider of the runtime's package is used.
        meta_device_key: a key in the metadata of devices that represent others, which are left out.
        is_software_on_cpu: whether a device that the system calls a CPU is a software GPU.
        exact_operators: ONNX operators that it computes as ONNX Runtime does for finite floats; see `perf/exact.py`.
        package: the package of an engine that is not a provider of ONNX Runtime.
        probe: the module that tries that package, in a separate process.
    """

    name: str
    rank: int = 100
    option_keys: str | None = None
    options: Callable[[Target, EngineOptions], Mapping[str, str]] = lambda target, options: {}
    memory: str = ""
    is_sequential: bool = False
    has_addresses: bool = False
    capture_option: str = ""
    cache_option: str = ""
    worth_trying: tuple[tuple[str, str], ...] = ()
    shares_lock: bool = False
    takes_one_thread: bool = False
    built_in_devices: Callable[[], Sequence[ProviderDevice]] | None = None
    prepare: Callable[[], None] = lambda: None
    meta_device_key: str = ""
    is_software_on_cpu: bool = False
    exact_operators: frozenset[str] = frozenset()
    package: str = ""
    probe: str = ""


def shorten(name: str) -> str:
    """A provider's short name, for options: `openvino` for OpenVINOExecutionProvider."""
    return name.lower().removesuffix("executionprovider")
