"""LearningModel: a parsed ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self, cast

from ...enums import TensorKind
from ...errors import InvalidArgumentError, ModelDisposedError, ModelNotFoundError
from ..base.arguments import is_stream, read_bytes
from ..base.async_operation import AsyncOperation
from ..base.collections import NameMap, Vector
from ..base.messages import type_name
from ..base.winrt_object import Closeable, Object, private_state
from ..contracts.exporters import read_exporters_labels
from ..contracts.labels import read_written_labels
from ..contracts.published import NOTHING, Published, find_model
from ..features.descriptors import TENSOR_KINDS, FeatureDescriptor, make_descriptor
from ..features.tensor_classes import FLOAT_KINDS
from ..imaging.contract import ImageContract
from ..onnx_file.header import Header
from ..onnx_file.source import BytesSource, FileSource, ModelSource, PackedFile, pack, reopen
from ..runtime.custom.operator import ModelOperators, Operators
from ..runtime.pool import EnginePool
from .contracts import AttachedContracts, MissingContracts, apply_exporters_contract, apply_published

_NO_OPERATORS = ModelOperators()

if TYPE_CHECKING:
    from onnx import ModelProto

    from ..features.descriptors import AnyFeature

    Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | ModelProto
    """What a model is loaded from."""


class LearningModel(Closeable, Object):
    """A parsed ONNX model: its name, its inputs and its outputs.

    Loading reads only the header: the weights are neither read nor copied, and the graph is not checked before a
    session compiles it. The file and those with its weights must not change until then.
    All methods may be called from any thread.

    Example:
        >>> from winml_py import LearningModel
        >>> with LearningModel.load("models/digits.onnx") as model:
        ...     model.input_features[0].name
        'image'
    """

    _is_silent: ClassVar[bool] = False
    """Whether exporters' metadata, unknown names and missing contracts are ignored, as in Windows ML."""

    def __init__(self, content: ModelContent, /) -> None:
        """Use `load`, `load_from_file_path` or `load_from_stream`."""
        if not isinstance(content, ModelContent):
            raise InvalidArgumentError(
                "A LearningModel cannot be created from a path directly.", hint="Call LearningModel.load(path)."
            )
        self._private_state = content

    @classmethod
    def load(cls, source: Source, *, operators: Operators = (), file: str = "") -> Self:
        """Loads a model from a path, from bytes, from a binary stream, or from a `ModelProto` of the package onnx.

        Args:
            source: the path to an .onnx file, or to a folder as models are published in, whose other files state the
                contract and the labels; the file's bytes (`bytes` are kept, not copied); an open binary stream,
                which is read from its position to its end; or an `onnx.ModelProto`, which is copied, so that later
                changes to it have no effect.
            operators: custom operators: `CustomOperator` objects, which are Python functions, and paths of shared
                libraries that ONNX Runtime registers. A library runs code in this process: pass only those that you
                trust.
            file: which model of a folder, by its path in the folder; by default the only one.

        Raises:
            ModelNotFoundError: there is no such file, or it cannot be opened.
            CorruptModelError: it is not an ONNX model.
            NotSupportedError: it has a feature of a type that Windows ML refuses, such as `optional`.
            InvalidArgumentError: the source is none of these, or an operator is invalid; a folder has several models,
                or a file that is damaged or leads out of it.
        """
        model_operators = ModelOperators.from_list(operators)
        if file and not isinstance(source, (str, os.PathLike)):
            raise InvalidArgumentError("file= selects a model in a folder, but the source is not a folder's path.")
        if isinstance(source, (str, os.PathLike)):
            if not file and not os.path.isdir(source):
                return cls._load_file(source, model_operators)
            from ..contracts.files import read_published  # with all readers, which only folders need

            path = find_model(source, file)
            return cls._from_source(*FileSource.open(path), model_operators, read_published(source, path))
        if isinstance(source, (bytes, bytearray, memoryview)):
            return cls._from_source(*BytesSource.open(source), model_operators)
        if is_model_proto(source):
            return cls._from_source(*BytesSource.open(serialize_proto(source)), model_operators)
        return cls._load_stream(cast(BinaryIO, source), model_operators)

    @classmethod
    def load_from_file_path(cls, file_path: str | os.PathLike[str], /) -> Self:
        """Loads a model from the path to an .onnx file; raises as `load` does."""
        return cls._load_file(file_path, _NO_OPERATORS)

    @classmethod
    def load_from_stream(cls, stream: BinaryIO, /) -> Self:
        """Loads a model from an open binary stream, read into memory to its end; raises as `load` does."""
        return cls._load_stream(stream, _NO_OPERATORS)

    @classmethod
    def _load_file(cls, file_path: str | os.PathLike[str], operators: ModelOperators) -> Self:
        if not isinstance(file_path, (str, os.PathLike)):
            raise InvalidArgumentError(f"Expected a path, got {type_name(file_path)}.")
        return cls._from_source(*FileSource.open(file_path), operators)

    @classmethod
    def _load_stream(cls, stream: BinaryIO, operators: ModelOperators) -> Self:
        if not is_stream(stream):
            raise InvalidArgumentError(
                f"Expected a path, bytes, a binary stream or an onnx.ModelProto, got {type_name(stream)}.",
                hint="Pass the path to an .onnx file.",
            )
        data = read_bytes(stream, "The model stream", ModelNotFoundError)
        return cls._from_source(*BytesSource.open(data), operators)

    @classmethod
    def _from_source(
        cls, source: ModelSource, header: Header, operators: ModelOperators, published: Published = NOTHING
    ) -> Self:
        return cls(ModelContent(source, header, cls._is_silent, operators, published))

    @classmethod
    def load_async(cls, source: Source, *, operators: Operators = (), file: str = "") -> AsyncOperation[Self]:
        """Starts `load` in a thread; the operation raises what `load` raises."""
        return AsyncOperation(lambda _: cls.load(source, operators=operators, file=file))

    @classmethod
    def load_from_stream_async(cls, stream: BinaryIO, /) -> AsyncOperation[Self]:
        """Starts `load_from_stream` in a thread."""
        return AsyncOperation(lambda _: cls.load_from_stream(stream))

    @property
    def author(self) -> str:
        """The tool or person that made the model (ONNX's `producer_name`), or ""."""
        return self._private_state.header.producer_name

    @property
    def name(self) -> str:
        """The graph's name, or ""."""
        return self._private_state.name

    @property
    def domain(self) -> str:
        """The model's namespace, a reversed DNS name by convention, or ""."""
        return self._private_state.header.domain

    @property
    def description(self) -> str:
        """The model's doc string, or ""."""
        return self._private_state.header.doc_string

    @property
    def version(self) -> int:
        """The version of the model, or 0."""
        return self._private_state.header.model_version

    @property
    def metadata(self) -> Mapping[str, str]:
        """The model's `metadata_props`; keys are case-insensitive."""
        return NameMap(self._private_state.metadata)

    @property
    def input_features(self) -> Vector[AnyFeature]:
        """The inputs to bind, in the graph's order; initializers listed as inputs are left out.

        An input with an attached contract is an image.
        """
        contracts = self._private_state.contracts
        return Vector(map(contracts.apply_to, self._private_state.inputs)) if contracts else self._private_state.inputs

    @property
    def contracts(self) -> AttachedContracts:
        """Image contracts that the program attaches to inputs, in place of what the file states: `contracts[name] =`.

        Every session of the model uses them from the next bind on. None, or `del`, removes a contract. The
        file does not change; `winml_py.authoring.write_contract` writes one into it.

        Example:
            >>> from winml_py import BitmapPixelFormat, ImageContract, LearningModel
            >>> model = LearningModel.load("models/digits.onnx")
            >>> model.contracts["image"] = ImageContract(BitmapPixelFormat.GRAY8, mean=(33.3,))
            >>> model.input_features[0].contract.mean
            (33.3,)
        """
        return self._private_state.contracts

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, if the metadata have them, as `build_in` and the exporters of Ultralytics (`names`)
        and PaddleOCR (`character`) write them, or a published folder.
        """
        return self._private_state.labels

    @property
    def sources(self) -> Mapping[str, str]:
        """For a model from a folder, the file that each part is from: "model", "contract", "labels", "metadata". Parts
        that the model's own file states are from that. Empty for other models.
        """
        return self._private_state.published.sources

    @property
    def output_features(self) -> Vector[AnyFeature]:
        """The outputs of an evaluation, in the graph's order."""
        return self._private_state.outputs

    @property
    def opsets(self) -> Mapping[str, int]:
        """The operator sets the model imports: domain ("" is ai.onnx) to version."""
        return dict(self._private_state.header.opsets)

    @property
    def ir_version(self) -> int:
        """The version of the ONNX format the file is written in."""
        return self._private_state.header.ir_version

    @property
    def size(self) -> int:
        """Bytes of the model file, or of the buffer it was loaded from; without external data files."""
        return self._private_state.size

    @property
    def precision(self) -> str:
        """The float type of the weights, inputs and outputs: "float32", "float16", "mixed", "other", or "" for none."""
        features = (*self._private_state.inputs, *self._private_state.outputs)
        kinds = {feature.tensor_kind for feature in features if hasattr(feature, "tensor_kind")}
        kinds |= {TENSOR_KINDS.get(weight.element) for weight in self._private_state.header.weights}
        float_kinds = kinds & FLOAT_KINDS
        if not float_kinds:
            return ""
        if TensorKind.FLOAT16 in float_kinds:
            return "float16" if len(float_kinds) == 1 else "mixed"
        return "float32" if float_kinds == {TensorKind.FLOAT} else "other"

    @property
    def is_disposed(self) -> bool:
        """Whether `dispose` has been called, or a session has taken the model over."""
        return self._private_state.is_disposed

    def dispose(self) -> None:
        """Releases the model's bytes. A second call does nothing.

        Existing sessions continue, and all properties stay readable; new sessions are refused.
        """
        self._private_state.dispose()

    close = dispose

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the path to the model's file with a digest of its contents, or the bytes if it has no file; includes
        attached contracts and operators.
        """
        content = self._private_state
        source, attached = pack(content.open()), dict(content.contracts)
        return _unpickle, (type(self), source, content.operators, attached, self.name, content.published)

    def __repr__(self) -> str:
        inputs = ", ".join(feature.name for feature in self._private_state.inputs)
        outputs = ", ".join(feature.name for feature in self._private_state.outputs)
        disposed = ", disposed" if self.is_disposed else ""
        return f"<LearningModel {self.name!r}: {inputs} -> {outputs}{disposed}>"


def _unpickle(
    cls: type[LearningModel],
    source: PackedFile | BytesSource,
    operators: ModelOperators,
    contracts: Mapping[str, ImageContract],
    name: str,
    published: Published,
) -> LearningModel:
    opened, header = reopen(source)
    model = cls(ModelContent(opened, header, cls._is_silent, operators, published))
    model.contracts.update(contracts)
    rename(model, name)
    return model


def rename(model: LearningModel, name: str) -> None:
    """Gives a model another name; the file does not change."""
    private_state(model).name = name


# ModelContent: what sessions need of a model.


class ModelContent:
    """What a model's file and folder state, its bytes until it is disposed of, and the engines compiled from it.

    Args:
        source: the file, or the bytes.
        header: what was read from it.
        is_silent: whether possible mistakes of a program are ignored, as in Windows ML.
        operators: the custom operators.
        published: what the folder states that the model is loaded from.

    Attributes:
        name: the graph's, unless the program has given the model another one.
        metadata: the file's, and what only the folder states.
        size: bytes of the model file.
        inputs: as the file and the folder describe them.
        outputs: as the file describes them.
        labels: the names of the classes.
        published: what the folder states and the model's file does not.
        attached_contracts: those that the program has attached to inputs.
        contracts: the same, as the program sees them.
        missing_contracts: warns of pictures without a contract.
        engines: those that sessions use now.
    """

    def __init__(
        self,
        source: ModelSource,
        header: Header,
        is_silent: bool,
        operators: ModelOperators,
        published: Published,
    ) -> None:
        self._source: ModelSource | None = source
        self.header = header
        self.is_silent = is_silent
        self.operators = operators
        self.name = header.graph_name
        self.size = source.size
        self.metadata = {**published.parts.get("metadata", {}), **header.metadata}
        constants = {weight.name for weight in header.weights}
        bindable = [make_descriptor(info, self.metadata) for info in header.inputs if info.name not in constants]
        inputs: Sequence[FeatureDescriptor] = [self.apply_exporters_contract(feature) for feature in bindable]
        self.outputs: Vector[AnyFeature] = Vector(make_descriptor(info, self.metadata) for info in header.outputs)
        self.labels = () if is_silent else self._read_labels()
        self.published = published
        if published.sources:
            inputs, self.published = apply_published(published, inputs, self.outputs, self.labels)
            self.labels = self.labels or self.published.parts.get("labels", ())
        self.inputs: Vector[AnyFeature] = Vector(inputs)
        self.attached_contracts: dict[str, ImageContract] = {}
        self.contracts = AttachedContracts(self.inputs, self.attached_contracts)
        self.missing_contracts = MissingContracts(inputs, is_silent, self.published.refusal)
        self.engines = EnginePool()

    def _read_labels(self) -> tuple[str, ...]:
        score_counts = [size for output in self.outputs for size in getattr(output, "shape", ())[-1:]]
        return read_written_labels(self.metadata) or read_exporters_labels(self.metadata, score_counts)

    def apply_exporters_contract(self, feature: FeatureDescriptor) -> FeatureDescriptor:
        """An input as an image, if the exporter states so in the metadata."""
        return feature if self.is_silent else apply_exporters_contract(feature, self.metadata)

    @property
    def is_disposed(self) -> bool:
        """Whether the bytes have been released."""
        return self._source is None

    def open(self) -> ModelSource:
        """The source, for a session about to be compiled; ModelDisposedError if the model has been disposed of."""
        source = self._source
        if source is None:
            raise ModelDisposedError(
                "The model has been disposed.", hint="Load it again, or create its sessions before dispose()."
            )
        return source

    def dispose(self) -> None:
        """Releases the bytes."""
        self._source = None


# Models that a program holds as objects of the package onnx.


def is_model_proto(value: object) -> bool:
    """Whether a value is an `onnx.ModelProto`; does not import onnx."""
    kind = type(value)
    return kind.__name__ == "ModelProto" and kind.__module__.partition(".")[0] == "onnx"


def serialize_proto(model: Any) -> bytes:
    """A `ModelProto` as the bytes of its file; InvalidArgumentError if it is larger than 2 GB."""
    from google.protobuf.message import EncodeError

    try:
        data: bytes = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise InvalidArgumentError(
            f"The onnx.ModelProto cannot be serialized: {error}. Protobuf writes at most 2 GB.",
            hint="Save it with onnx.save(model, path, save_as_external_data=True), and load it from that path.",
        ) from error
    return data
