"""What is to be compiled, and what compiles it: the seam between sessions and everything that makes engines."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ..base.arrays import Array
from ..base.cancellation import Stop
from ..onnx_file.nodes import ModelGraph
from ..onnx_file.source import Skeleton
from .engine import Engine, EngineInput, EngineOptions

Inputs = Mapping[str, Array]


@dataclass(frozen=True)
class ModelFeatures:
    """What goes into a model and comes out of it, as far as a choice of engine asks.

    Attributes:
        inputs: the names of the inputs, in the graph's order; () where nobody has read them.
        outputs: those of the outputs.
        sizes: the shape of each tensor that goes in, with what the options override; -1 where a size stays free.
        has_fixed_shapes: whether the options leave no free size in any input.
        non_tensors: names of the inputs and outputs that are not tensors of numbers.
        has_only_numbers: whether somebody has looked, and there are none of those. Of a part of a model nobody has.
        has_float16: whether weights, inputs or outputs are float16.
        float16_features: the names of the inputs and outputs that are.
    """

    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    has_fixed_shapes: bool = False
    non_tensors: Sequence[str] = ()
    has_only_numbers: bool = False
    has_float16: bool = False
    float16_features: frozenset[str] = frozenset()


def _no_graph() -> ModelGraph:
    """For a model that nobody has looked into; a function with a name can be sent to another process."""
    return ModelGraph([], frozenset(), [], {})


def do_nothing() -> None:
    """For a model that no file can change."""


@dataclass(frozen=True)
class ModelOrigin:
    """Where a model is from, and what of it can be read again.

    Attributes:
        size: bytes of the model file.
        total_size: bytes of the model file and of the files beside it that hold weights.
        mappable_weights: bytes of the weights that can be mapped, data files included; 0 where none may be.
        path: of the model file; "" for a model in memory.
        data_stamps: what tells it, and the files beside it that hold weights, from others of their names.
        graph: reads the model's nodes.
        reopen: gives the model again for a later compilation; refuses a file that has changed.
        require_unchanged: refuses what was compiled of other files than these, because they were replaced meanwhile.
    """

    size: int = 0
    total_size: int = 0
    mappable_weights: int = 0
    path: str = ""
    data_stamps: Sequence[object] = ()
    graph: Callable[[], ModelGraph] = _no_graph
    reopen: Callable[[], EngineInput] | None = None
    require_unchanged: Callable[[], None] = do_nothing


@dataclass(frozen=True)
class CompileRequest:
    """A model and how to compile it.

    Attributes:
        model: what the engine takes.
        options: how.
        features: what goes in and comes out.
        origin: where it is from.
        libraries: the paths of shared libraries with operators of the program's own.
        stop: lets another thread end the compilation.
    """

    model: EngineInput
    options: EngineOptions
    features: ModelFeatures = ModelFeatures()
    origin: ModelOrigin = ModelOrigin()
    libraries: Sequence[str] = ()
    stop: Stop | None = None

    def require_not_stopped(self) -> None:
        """Refuses to go on where another thread has ended the compilation.

        Raises:
            CanceledError: if another thread has ended the compilation.
        """
        if self.stop is not None:
            self.stop.require_not_requested()

    def digest(self) -> str:
        """A fingerprint of the model: of its bytes, or of its skeleton and what tells its files from others."""
        import hashlib

        files = (self.origin.path, tuple(self.origin.data_stamps))
        digest = hashlib.blake2b(repr(files).encode(), digest_size=20)
        pieces = (self.model.model, *self.model.files.values()) if isinstance(self.model, Skeleton) else (self.model,)
        for piece in pieces:
            if not isinstance(piece, str):
                digest.update(piece)
        return digest.hexdigest()


class Compiler(Protocol):
    """Makes engines for one device. A test's substitute for a device brings its own."""

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model.

        Raises:
            InvalidDeviceError: the engine that the options name is not there.
            WinMLError: no engine takes the model, or the options ask for what the device cannot do.
        """

    def key(self, options: EngineOptions) -> Hashable:
        """Equal for two sessions of a model if they may share an engine, as far as the device is concerned."""

    def session_lock(self) -> AbstractContextManager[object]:
        """What a session holds while it talks to the device: nothing on the CPU."""
