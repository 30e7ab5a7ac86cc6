"""ModelContent: what sessions need of a model."""

from __future__ import annotations

import threading

from ..errors import ModelDisposedError
from ..onnx_file.header import Header
from ..onnx_file.source import ModelSource
from ..runtime.pool import EnginePool


class ModelContent:
    """A model's header, its bytes until it is disposed of, and the engines that were compiled of it.

    Attributes:
        header: what was read of the file.
        engines: those that sessions use at the moment.
    """

    def __init__(self, source: ModelSource, header: Header) -> None:
        self.header = header
        self.engines = EnginePool()
        self._source: ModelSource | None = source
        self._lock = threading.Lock()

    @property
    def is_disposed(self) -> bool:
        """Whether the bytes have been let go."""
        return self._source is None

    def open(self) -> ModelSource:
        """The source, for a session that is about to be compiled.

        Raises:
            ModelDisposedError: the model has been disposed of.
        """
        with self._lock:
            if self._source is None:
                raise ModelDisposedError(
                    "The model has been disposed.", hint="Load it again, or create its sessions before dispose()."
                )
            return self._source

    def dispose(self) -> None:
        """Lets go of the bytes. Twice is harmless."""
        with self._lock:
            self._source = None
