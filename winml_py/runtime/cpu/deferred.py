"""An engine that is chosen when it first runs: only then are the shapes of its inputs known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import numpy as np

from ...base.cancellation import Stop
from ...enums import Precision
from ...errors import IllegalCallError
from ..engine import Engine, EngineBinding, EngineOptions, HeldValues, PlacedNode, Value
from ..explanation import Explanation
from ..ort.run import opened
from ..request import Inputs

UNDECIDED = Explanation("undecided", Precision.AUTO, "the first evaluation decides, for the model leaves sizes free")


class DeferredEngine:
    """Stands for an engine until the first run, whose inputs decide; later ones keep to it, whatever their shapes."""

    def __init__(self, options: EngineOptions, decide: Callable[[Inputs], Engine]) -> None:
        self.options = options
        self.explanation = UNDECIDED
        self._decide: Callable[[Inputs], Engine] | None = decide  # None once it has decided, or is closed
        self._engine: Engine | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def bind(self, lock: AbstractContextManager[object]) -> EngineBinding:
        """A new, empty binding."""
        if self._engine is not None:
            return self._engine.bind(lock)
        opened(self._decide)
        return _DeferredBinding(self, lock)

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node."""
        return self._required("placed").placement()

    def end_profiling(self) -> bytes:
        """The profile."""
        return self._required("recorded").end_profiling()

    def _required(self, what: str) -> Engine:
        if self._engine is None:
            raise IllegalCallError(f"Nothing is {what} yet: the first evaluation decides.", hint="Evaluate once.")
        return self._engine

    def decided(self, inputs: Inputs) -> Engine:
        """The engine; found on these inputs if it has not been yet."""
        with self._lock:
            if self._engine is None:
                self._engine = opened(self._decide)(inputs)
                self.explanation, self._decide = self._engine.explanation, None
                if self._is_closed:  # while it decided; `close` sets this first, so that one of the two sees the other
                    self._engine.close()
            return self._engine

    def close(self) -> None:
        """Frees the engine; one that is being chosen, as soon as that is done."""
        self._is_closed, self._decide = True, None
        if self._engine is not None:
            self._engine.close()


class _DeferredBinding(HeldValues):
    """Keeps what is bound until the next run, which has an engine to bind it to."""

    def __init__(self, engine: DeferredEngine, lock: AbstractContextManager[object]) -> None:
        self._engine, self._lock = engine, lock
        super().__init__()
        self._native: EngineBinding | None = None

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        if self._native is None:
            arrays = {name: value for name, value in self.inputs.items() if isinstance(value, np.ndarray)}
            self._native = self._engine.decided(arrays).bind(self._lock)
        while self.inputs:
            self._native.set_input(*self.inputs.popitem())
        while self.outputs:
            self._native.set_output(*self.outputs.popitem())
        return self._native.run(stop)
