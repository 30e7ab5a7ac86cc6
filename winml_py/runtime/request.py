"""What is to be compiled, and what can be asked about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.cancellation import Stop
from ..onnx_file.source import Skeleton
from .engine import EngineInput, EngineOptions

Inputs = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class CompileRequest:
    """A model and how to compile it.

    Attributes:
        model: what the engine takes.
        options: how.
        has_float16: whether weights, inputs or outputs are float16.
        has_fixed_shapes: whether the options leave no free size in any input.
        has_only_numbers: whether inputs and outputs are tensors of numbers, and not maps, sequences or strings.
        has_examples: whether any numbers will do for its inputs.
        examples: makes such numbers, of these shapes where the model leaves sizes free.
        reopen: gives the model again for a later compilation; refuses a file that has changed.
        size: bytes of the model file.
        weights: bytes of the weights that can be mapped, data files included; 0 where none may be.
        stamp: what tells the file from another of the same name; () for a model in memory.
        stop: lets another thread end the compilation.
        data_stamps: the same of the files beside it that hold weights.
    """

    model: EngineInput
    options: EngineOptions
    has_float16: bool = False
    has_fixed_shapes: bool = False
    has_only_numbers: bool = False
    has_examples: bool = False
    examples: Callable[[Mapping[str, Sequence[int]]], Inputs] = lambda shapes: {}
    reopen: Callable[[], EngineInput] | None = None
    size: int = 0
    weights: int = 0
    stamp: Sequence[object] = field(default=())
    stop: Stop | None = None
    data_stamps: Callable[[], object] = tuple
    float16_features: frozenset[str] = frozenset()

    def require_not_stopped(self) -> None:
        """Refuses to go on where another thread has ended the compilation.

        Raises:
            CanceledError: it has.
        """
        if self.stop is not None:
            self.stop.require_not_requested()

    def digest(self) -> str:
        """A fingerprint of the model: of its bytes, or of its file's skeleton, size, place and time."""
        import hashlib

        stamps = (tuple(self.stamp), self.data_stamps())
        digest = hashlib.blake2b(repr(stamps).encode(), digest_size=20)
        model = self.model.model if isinstance(self.model, Skeleton) else self.model
        if isinstance(model, bytes):
            digest.update(model)
        if isinstance(self.model, Skeleton):
            for data in self.model.files.values():
                digest.update(data)
        return digest.hexdigest()
