"""ModelContent: what sessions need of a model."""

from __future__ import annotations

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

    @property
    def is_disposed(self) -> bool:
        """Whether the bytes have been let go."""
        return self._source is None

    def open(self) -> ModelSource:
        """The source, for a session that is about to be compiled.

        Raises:
            ModelDisposedError: the model has been disposed of.
        """
        source = self._source
        if source is None:
            raise ModelDisposedError(
                "The model has been disposed.", hint="Load it again, or create its sessions before dispose()."
            )
        return source

    def dispose(self) -> None:
        """Lets go of the bytes. Twice is harmless."""
        self._source = None
