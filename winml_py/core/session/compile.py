"""Compiles a session's model, with the sizes that the options fix, or shares the engine of an equal session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ...enums import TensorKind, Weights
from ...errors import EngineWarning, InvalidArgumentError, NotSupportedError
from ..base import machine
from ..base.cancellation import Stop
from ..base.collections import Vector
from ..base.messages import did_you_mean, warn_caller
from ..base.winrt_object import private_state
from ..features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
    describe_size_conflict,
)
from ..model.model import LearningModel
from ..onnx_file.header import Header, TensorType
from ..onnx_file.source import FileSource, ModelSource
from ..runtime.device import LearningModelDevice
from ..runtime.engine import Engine, EngineOptions, Isolation
from ..runtime.request import Compiler, CompileRequest, ModelFeatures, ModelOrigin
from .options import LearningModelSessionOptions
from .state import SessionState

if TYPE_CHECKING:
    from ..runtime.custom.operator import CustomOperator


def compile_model(
    model: LearningModel, device: LearningModelDevice, options: EngineOptions, stop: Stop | None
) -> SessionState:
    """Compiles a model for a device, or leases the engine of another session with equal options.

    Raises:
        WinMLError: as `LearningModelSession` does.
    """
    content = private_state(model)
    compiler = private_state(device)
    if options.isolation is not None:
        compiler = isolate(compiler, options.isolation, device, content.operators.functions)
    features, options = override_features(content.inputs, content.header, options, content.is_silent)
    source = content.open()  # refuses a disposed model, even if another session has the engine

    def compile_engine() -> Engine:
        is_private, libraries = options.weights is Weights.PRIVATE, content.operators.libraries
        request = CompileRequest(
            source.make_engine_input(content.header, is_private),
            options,
            _describe_features(model, features),
            _describe_origin(model, source, is_private, has_libraries=bool(libraries)),
            libraries,
            stop,
        )
        if not content.operators.functions:
            return compiler.compile(request)
        from ..runtime.custom.custom_engine import compile_custom  # only sessions with such operators need it

        return compile_custom(request, content.operators.functions, compiler.compile)

    unique_key = object() if options.is_profiled else None  # a profile belongs to one session
    lease = content.engines.lease((compiler.make_key(options), options, unique_key), compile_engine, stop)
    return SessionState(model, features, lease, compiler.make_session_lock(), device.name, compiler.compile)


def _describe_features(model: LearningModel, features: Iterable[FeatureDescriptor]) -> ModelFeatures:
    shaped = [feature for feature in features if isinstance(feature, ShapedDescriptor)]
    sizes = {feature.name: tuple(feature.shape) for feature in shaped if getattr(feature, "has_rank", True)}
    inputs, outputs = model.input_features, model.output_features
    kinds = {feature.name: getattr(feature, "tensor_kind", None) for feature in (*inputs, *outputs)}
    non_tensors = [name for name, kind in kinds.items() if kind in (None, TensorKind.STRING, TensorKind.UNDEFINED)]
    return ModelFeatures(
        inputs=[feature.name for feature in inputs],
        outputs=[feature.name for feature in outputs],
        sizes=sizes,
        non_tensors=non_tensors,
        has_float16=model.precision in ("float16", "mixed"),
        float16_features=frozenset(name for name, kind in kinds.items() if kind is TensorKind.FLOAT16),
    )


def _describe_origin(model: LearningModel, source: ModelSource, is_private: bool, has_libraries: bool) -> ModelOrigin:
    header = private_state(model).header
    origin = ModelOrigin(size=model.size, total_size=model.size)
    if not isinstance(source, FileSource):
        return origin
    data_stamps = source.read_data_stamps()
    # What a library's kernels fold into a saved graph would outlive the library.
    is_mappable = not is_private and not has_libraries
    return origin._replace(
        total_size=model.size + source.measure_external_size(header),
        mappable_weights=source.measure_mappable_size(header) if is_mappable else 0,
        path=source.path,
        data_stamps=data_stamps,
        require_unchanged=partial(source.require_unchanged, data_stamps),
    )


# The model's features with the sizes that session options override.


def override_features(
    features: Sequence[FeatureDescriptor], header: Header, options: EngineOptions, is_silent: bool
) -> tuple[list[FeatureDescriptor], EngineOptions]:
    """The features, with the named dimensions, the shapes and the batch that the options fix.

    Also returns the options, with an override by name for each named dimension that they fix by position, and without a
    batch size if no dimension is denoted the batch: then sessions with default options and without share an engine.

    Raises:
        InvalidArgumentError: a shape for an input that the model does not have, or one that contradicts it; or a
            dimension that no input has, unless `is_silent`.
    """
    shaped = [feature for feature in features if isinstance(feature, ShapedDescriptor)]
    dimension_names = dict.fromkeys(name for feature in shaped for name in feature.dimension_names if name)
    for name, _ in options.dimensions:
        if name not in dimension_names and not is_silent:
            raise InvalidArgumentError(
                f"The options override the dimension {name!r}, but no input of the model has it.",
                hint=did_you_mean(name, dimension_names),
            )
    names, shapes, dimensions = [feature.name for feature in features], dict(options.shapes), dict(options.dimensions)
    for name in shapes:
        if name not in names:
            raise InvalidArgumentError(
                f"The options override the shape of {name!r}, but the model has no such input.",
                hint=f"Its inputs: {', '.join(names) or 'none'}.",
            )
    for feature in shaped:
        if feature.name in shapes:
            for name, size, fixed_size in zip(
                feature.dimension_names, feature.shape, shapes[feature.name], strict=False
            ):
                if name and size < 0 <= fixed_size:
                    dimensions.setdefault(name, fixed_size)  # one that contradicts it is refused below
    # Only the header has the denotations of dimensions.
    batches = dict[str, dict[int, int]]()
    for info in header.inputs:
        if isinstance(info.type, TensorType) and options.batch_size is not None:
            axes = [axis for axis, size in enumerate(info.type.dimensions or ()) if size.denotation == "DATA_BATCH"]
            batches[info.name] = dict.fromkeys(axes, options.batch_size)
    overridden = [
        _override_feature(each, dimensions, shapes.get(each.name), batches.get(each.name, {})) for each in features
    ]
    batch_size = options.batch_size if any(batches.values()) else None
    return overridden, options._replace(dimensions=tuple(sorted(dimensions.items())), batch_size=batch_size)


def _override_feature(
    feature: FeatureDescriptor, dimensions: dict[str, int], override: tuple[int, ...] | None, batch: dict[int, int]
) -> FeatureDescriptor:
    if not isinstance(feature, ShapedDescriptor):
        if override is not None:
            raise InvalidArgumentError(f"Cannot override the shape of the input {feature.name}: it is not a tensor.")
        return feature
    names = feature.dimension_names or ("",) * len(feature.shape)
    shape = tuple(
        dimensions.get(name, -1) if size < 0 else size for size, name in zip(feature.shape, names, strict=True)
    )
    if override is not None:
        pairs = list(zip(shape, override, strict=False))
        if len(override) != len(shape) or any(-1 not in pair and len(set(pair)) > 1 for pair in pairs):
            raise InvalidArgumentError(
                f"The options override the shape of {feature.name} with {list(override)}, but the model specifies "
                f"{list(feature.shape)}.",
                hint="Pass one size for each dimension. To keep the model's size, pass -1.",
            )
        shape = tuple(map(max, pairs))  # a free size is -1
    shape = tuple(batch.get(axis, -1) if size < 0 else size for axis, size in enumerate(shape))
    if shape == feature.shape:
        return feature
    changed = replace(feature, shape=Vector(shape))
    if not isinstance(changed, ImageFeatureDescriptor) or not isinstance(feature, ImageFeatureDescriptor):
        return changed
    # The size that a file states is that of the export: it gives way to the options, but not to the file's own sides.
    contract = feature.contract
    gives_way = describe_size_conflict(changed, contract, contract.size)
    if gives_way and not describe_size_conflict(feature, contract, contract.size):
        changed = replace(changed, contract=replace(contract, size=None))
    return changed


# What tuned options were measured on.


def describe_measured(model: LearningModel, device: LearningModelDevice) -> dict[str, str]:
    """What the fastest options depend on: the model's content, the processor, the device, and the versions."""
    from ..cache import make_key
    from ..runtime.providers import plugins

    processor = f"{machine.read_processor_name()} {make_key(machine.read_processor_id())[:8]}"
    facts = {"model": private_state(model).open().compute_digest(), "processor": processor, "device": device.name}
    return facts | plugins.read_versions()


def require_tuned_for(options: LearningModelSessionOptions, model: LearningModel, device: LearningModelDevice) -> None:
    """Refuses options that were tuned for another model; warns if they were measured on something else than this.

    Raises:
        InvalidArgumentError: the options were tuned for another model.
    """
    measured, here = options.tuned_for, describe_measured(model, device)
    if measured.get("model") != here["model"]:
        raise InvalidArgumentError(
            f"The options were tuned for a different model than {model.name or 'this one'}.",
            hint="Tune options for this model with winml_py.perf.tune(model, inputs) or `winml-py tune`. To use these "
            "anyway, set options.tuned_for = {}.",
        )
    changes = [
        f"{name} {measured.get(name) or 'none'}, but here it is {here.get(name) or 'none'}"
        for name in sorted(measured.keys() | here.keys())
        if measured.get(name) != here.get(name)
    ]
    if changes:
        warn_caller(
            EngineWarning(
                f"The options were tuned with {'; '.join(changes)}. Tune them again, or set options.tuned_for = {{}}."
            )
        )


# Engines in a separate process.


def isolate(
    compiler: Compiler, isolation: Isolation, device: LearningModelDevice, functions: Sequence[CustomOperator]
) -> Compiler:
    """A compiler whose engine runs in a separate process; imported only for sessions that need one.

    Raises:
        NotSupportedError: operators or the device are Python code of this process.
    """
    from ..runtime.isolated.isolated_engine import IsolatedCompiler

    hint = "Set options.isolation = None, or run the whole program in a separate process."
    if functions:
        names = ", ".join(str(operator) for operator in functions)
        raise NotSupportedError(f"The operators {names} are Python functions of this process.", hint=hint)
    if type(device) is not LearningModelDevice:
        raise NotSupportedError(f"{type(device).__name__} runs a function of this process.", hint=hint)
    return IsolatedCompiler(compiler, isolation)
