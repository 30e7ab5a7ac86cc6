"""Makes a compile request from a model and options, names the free sizes of both, and isolates what compiles it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...enums import TensorKind, Weights
from ...errors import InvalidArgumentError, NotSupportedError
from ..base.cancellation import Stop
from ..base.messages import did_you_mean
from ..base.winrt_object import inside
from ..features.descriptors import FeatureDescriptor, ShapedDescriptor
from ..model.model import LearningModel
from ..onnx_file.header import Dimension, Header, TensorType
from ..onnx_file.source import FileSource, ModelSource
from ..runtime.device import LearningModelDevice
from ..runtime.engine import EngineOptions, Isolation
from ..runtime.request import Compiler, CompileRequest, ModelFeatures, ModelOrigin, do_nothing
from .options import LearningModelSessionOptions

if TYPE_CHECKING:
    from ..runtime.custom.operator import CustomOperator


def compile_request(
    model: LearningModel, source: ModelSource, options: EngineOptions, stop: Stop | None = None
) -> CompileRequest:
    """What is to be compiled, with what a choice of engine needs to know.

    Raises:
        WinMLError: as `ModelSource.engine_input` does.
    """
    header, libraries = inside(model).header, inside(model).operators.libraries
    features = (*model.input_features, *model.output_features)
    sizes = _sizes(model, header, options)
    non_tensors = [feature.name for feature in features if not _is_numeric(feature)]
    halves = [feature.name for feature in features if getattr(feature, "tensor_kind", None) is TensorKind.FLOAT16]
    is_private = options.weights is Weights.PRIVATE
    file = source if isinstance(source, FileSource) else None
    engine_input = source.engine_input(header, is_private)
    data_stamps = file.data_stamps() if file else ()
    return CompileRequest(
        engine_input,
        options,
        ModelFeatures(
            inputs=[feature.name for feature in model.input_features],
            outputs=[feature.name for feature in model.output_features],
            sizes=sizes,
            has_fixed_shapes=_are_known(model, sizes) and all(-1 not in shape for shape in sizes.values()),
            non_tensors=non_tensors,
            has_only_numbers=not non_tensors,
            has_float16=model.precision in ("float16", "mixed"),
            float16_features=frozenset(halves),
        ),
        ModelOrigin(
            size=model.size,
            total_size=model.size + (file.external_size(header) if file else 0),
            # What a library's kernels fold into a saved graph would outlive the library.
            mappable_weights=file.mappable_size(header) if file and not is_private and not libraries else 0,
            path=file.path if file else "",
            data_stamps=data_stamps,
            graph=partial(source.graph, header),
            reopen=partial(source.engine_input, header, is_private),
            require_unchanged=partial(file.require_unchanged, data_stamps) if file else do_nothing,
        ),
        libraries,
        stop,
    )


def _is_numeric(feature: FeatureDescriptor) -> bool:
    if not isinstance(feature, ShapedDescriptor):
        return False
    return feature.tensor_kind not in (TensorKind.STRING, TensorKind.UNDEFINED)


def _are_known(model: LearningModel, sizes: dict[str, tuple[int, ...]]) -> bool:
    """Whether every input has a rank, and every output too."""
    have_rank = all(getattr(feature, "has_rank", True) for feature in model.output_features)
    return have_rank and all(feature.name in sizes for feature in model.input_features)


def _sizes(model: LearningModel, header: Header, options: EngineOptions) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor that goes in, with what the options override; -1 where a size stays free."""
    overrides = dict(options.dimensions)
    names = {feature.name for feature in model.input_features}
    shapes = dict(options.shapes)
    sizes = {
        info.name: tuple(_size(dimension, overrides, options.batch_size) for dimension in info.type.dimensions)
        for info in header.inputs
        if info.name in names and isinstance(info.type, TensorType) and info.type.dimensions is not None
    }
    # -1 is a free size, so the larger one is the one that is stated; `override_features` refuses what contradicts.
    return {name: tuple(map(max, size, shapes.get(name, size))) for name, size in sizes.items()}


def _size(dimension: Dimension, overrides: dict[str, int], batch_size: int | None) -> int:
    if dimension.value is not None and dimension.value >= 0:
        return dimension.value
    if batch_size is not None and dimension.denotation == "DATA_BATCH":
        return batch_size
    return overrides.get(dimension.name, -1)


# The names of a model's dimensions that options override.


def require_known_dimensions(options: LearningModelSessionOptions, header: Header) -> None:
    """Refuses options that override a dimension which no input has.

    Raises:
        InvalidArgumentError: if no input has a dimension that the options override.
    """
    types = [info.type for info in header.inputs]
    shapes = [kind.dimensions or () for kind in types if isinstance(kind, TensorType)]
    dimension_names = dict.fromkeys(dimension.name for shape in shapes for dimension in shape if dimension.name)
    for name in options.named_dimension_overrides:
        if name not in dimension_names:
            raise InvalidArgumentError(
                f"The options override the dimension {name!r}, and no input of the model has it.",
                hint=did_you_mean(name, dimension_names),
            )


# Engines in a process of their own.


def isolate(
    compiler: Compiler, isolation: Isolation, device: LearningModelDevice, functions: Sequence[CustomOperator]
) -> Compiler:
    """A compiler that has the engine in a process of its own; a session without such a process does without all this.

    Raises:
        NotSupportedError: what is to be evaluated is in this process.
    """
    from ..runtime.isolated.engine import IsolatedCompiler

    hint = "Set options.isolation = None, or run all of it in a process of the program's own."
    if functions:
        names = ", ".join(str(operator) for operator in functions)
        raise NotSupportedError(f"The operators {names} are Python functions of this process.", hint=hint)
    if type(device) is not LearningModelDevice:
        raise NotSupportedError(f"{type(device).__name__} runs a function of this process.", hint=hint)
    return IsolatedCompiler(compiler, isolation)
