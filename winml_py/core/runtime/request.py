"""Compile requests and compilers: the interface between sessions and the code that makes engines."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from ..base.cancellation import Stop
from ..onnx_file.source import Skeleton
from .engine import Engine, EngineInput, EngineOptions


class ModelFeatures(NamedTuple):
    """The facts about a model's inputs and outputs that compiling it needs.

    Attributes:
        inputs: the names of the inputs, in the graph's order; () if unknown.
        outputs: the names of the outputs.
        sizes: the shape of each input tensor, with the sizes that the options override; -1 for a free size.
        non_tensors: the names of the inputs and outputs that are not tensors of numbers.
        has_float16: whether weights, inputs or outputs are float16.
        float16_features: the names of the float16 inputs and outputs.
    """

    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    sizes: Mapping[str, Sequence[int]] = {}
    non_tensors: Sequence[str] = ()
    has_float16: bool = False
    float16_features: frozenset[str] = frozenset()


def do_nothing() -> None:
    """For a model that does not depend on files."""


class ModelOrigin(NamedTuple):
    """The source of a model.

    Attributes:
        size: bytes of the model file.
        total_size: bytes of the model file and its files of weights.
        mappable_weights: bytes of the weights that can be mapped, data files included; 0 if none may be.
        path: the path to the model file; "" for a model in memory.
        data_stamps: identify the versions of the model file and its files of weights.
        require_unchanged: refuses a compiled model if its files were replaced meanwhile.
    """

    size: int = 0
    total_size: int = 0
    mappable_weights: int = 0
    path: str = ""
    data_stamps: Sequence[object] = ()
    require_unchanged: Callable[[], None] = do_nothing


class CompileRequest(NamedTuple):
    """A model and how to compile it.

    Attributes:
        model: the model, in the engine's form.
        options: how to compile it.
        features: its inputs and outputs.
        origin: its source.
        libraries: the paths of shared libraries with custom operators.
        stop: lets another thread end the compilation.
    """

    model: EngineInput
    options: EngineOptions
    features: ModelFeatures = ModelFeatures()
    origin: ModelOrigin = ModelOrigin()
    libraries: Sequence[str] = ()
    stop: Stop | None = None

    def require_not_stopped(self) -> None:
        """Ends the compilation if another thread has requested that.

        Raises:
            CanceledError: another thread has requested it.
        """
        if self.stop is not None:
            self.stop.require_not_requested()

    def compute_digest(self) -> str:
        """A fingerprint of the model: of its bytes, or of its skeleton and the stamps of its files."""
        import hashlib

        files = (self.origin.path, tuple(self.origin.data_stamps))
        digest = hashlib.blake2b(repr(files).encode(), digest_size=20)
        pieces = (self.model.model, *self.model.files.values()) if isinstance(self.model, Skeleton) else (self.model,)
        for piece in pieces:
            if not isinstance(piece, str):
                digest.update(piece)
        return digest.hexdigest()


class Compiler(Protocol):
    """Makes engines for one device. A test's substitute for a device has its own compiler."""

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model.

        Raises:
            InvalidDeviceError: the engine that the options name is not available.
            WinMLError: no engine accepts the model, or the device does not support the options.
        """

    def make_key(self, options: EngineOptions) -> Hashable:
        """The device's part of an engine's key; equal if two sessions of a model may share an engine."""

    def make_session_lock(self) -> AbstractContextManager[object]:
        """The lock that a session holds while it uses the device; none on the CPU."""
