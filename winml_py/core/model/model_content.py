"""ModelContent: what sessions need of a model."""

from __future__ import annotations

from ...errors import ModelDisposedError
from ..base.collections import Vector
from ..features.descriptors import FeatureDescriptor
from ..onnx_file.header import Header
from ..onnx_file.source import ModelSource
from ..runtime.pool import EnginePool
from .contracts import AttachedContracts
from .exporters import exported
from .missing_contracts import MissingContracts
from .operators import ModelOperators


class ModelContent:
    """A model's header, its bytes until it is disposed of, and the engines that were compiled of it.

    Attributes:
        header: what was read of the file.
        engines: those that sessions use at the moment.
        inputs: what the file says of them.
        contracts: what the program has attached to them.
        is_silent: whether what a program may have written by mistake is passed over, as in Windows ML.
        missing_contracts: warns of pictures without a contract.
        operators: those of the program's own.
    """

    def __init__(
        self,
        source: ModelSource,
        header: Header,
        inputs: Vector[FeatureDescriptor],
        is_silent: bool,
        operators: ModelOperators,
    ) -> None:
        self.operators = operators
        self.header, self.is_silent = header, is_silent
        self.inputs = Vector(map(self.exported, inputs))
        self.contracts = AttachedContracts(self.inputs)
        self.missing_contracts = MissingContracts(is_silent)
        self.engines = EnginePool()
        self._source: ModelSource | None = source

    def exported(self, feature: FeatureDescriptor) -> FeatureDescriptor:
        """An input as an image, where the exporter says so in the metadata."""
        return feature if self.is_silent else exported(feature, self.header.metadata)

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
