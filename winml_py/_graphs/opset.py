"""Converting a model to another version of ONNX's operator set, and comparing its answers with the original's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, TypeProto, helper, shape_inference, version_converter

from .._examples import MAX_NUMBERS, find_example_shape, has_example, make_no_example_error
from .._values import evaluate_to_arrays
from ..core.base.agreement import HALF_TOLERANCE, compare_values, is_same
from ..core.base.arrays import Array, DType
from ..core.features.descriptors import FeatureDescriptor, ShapedDescriptor
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import walk_messages
from ..core.runtime.ort.schemas import infer_outputs
from ..core.session.session import LearningModelSession
from ..errors import WinMLError

FREE_SIZES = ((1, 64), (3, 37), (1, 224), (1, 256), (1, 512), (1, 640))
"""Sizes of free dimensions in the comparison: of the first one of an input, and of others. Two that the model takes."""

RANGES = ((0, 1), (-4, 4), (0, 255), (-300, 300))
"""Numbers of float inputs. There are also whole ones, of which some are equal, or 0."""

TOLERANCE = 1e-4
"""The largest relative error between a model and its conversion: their kernels may differ, and so may roundings."""


def convert_opset(model: ModelProto, version: int) -> ModelProto:
    """A copy of a model converted to a version of ONNX's operator set, by onnx's converter.

    The converter loses denotations, functions and metadata, and makes inferred types invalid. So only its nodes and
    weights are taken, and the rest is the model's. It also changes the meaning of some operators. So both models are
    evaluated, on the CPU, and must agree.

    Raises:
        ValueError: the converter cannot convert the model, or its result is invalid, in the converter's words; the
            result's answers differ, or cannot be compared.
    """
    _require_convertible_subgraphs(model, version)
    result = ModelProto()
    result.CopyFrom(model)
    # Before version 4 of the format all weights are also inputs. Runtimes accept models where they are not; the
    # converter does not.
    result.ir_version = max(result.ir_version, 4)
    try:
        converted = version_converter.convert_version(result, version)
        onnx.checker.check_model(converted)
        shape_inference.infer_shapes(converted, strict_mode=True)
    except Exception as error:  # of many classes, including RuntimeError and IndexError
        raise ValueError((str(error).strip().splitlines() or ["no reason given"])[0].rstrip(".")) from error
    for field in ("node", "initializer"):
        result.graph.ClearField(field)
        getattr(result.graph, field).extend(getattr(converted.graph, field))
    result.graph.ClearField("value_info")
    del result.opset_import[:]
    result.opset_import.extend(converted.opset_import)
    _require_same_answers(model, result)
    return result


def _require_convertible_subgraphs(model: ModelProto, version: int) -> None:
    """The converter leaves subgraphs and functions as they are: their operators must mean the same in both sets."""
    old = next(opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx"))
    parts = [part for part in walk_messages(model) if isinstance(part, (GraphProto, FunctionProto))][1:]
    for operator in sorted({node.op_type for part in parts for node in part.node if node.domain in ("", "ai.onnx")}):
        versions = set()
        for opset in (old, version):
            try:
                versions.add(onnx.defs.get_schema(operator, opset).since_version)
            except onnx.defs.SchemaError:
                versions.add(0)
        if len(versions) > 1:
            raise ValueError(f"{operator} is in a subgraph or a function, which the converter does not convert")


# Comparing a model with its conversion.


def _require_same_answers(model: ModelProto, converted: ModelProto) -> None:
    """Compares the outputs, and every tensor inside that both have: an output may hide a difference, or be empty."""
    kept = {name for node in converted.graph.node for name in node.output}
    inner = {name: node.op_type for node in model.graph.node for name in node.output if name and name in kept}
    outputs = [output.name for output in model.graph.output]
    compared, sizes = set[str](), set[tuple[object, ...]]()
    problem = "the model returns no numbers for any example input"
    try:
        with _open_session(model, inner) as before, _open_session(converted, inner) as after:
            for values in _make_examples(before.model.input_features):
                size = tuple(value.shape for value in values.values())
                if len(sizes | {size}) > 2:
                    break
                try:
                    expected = evaluate_to_arrays(before, values)
                except WinMLError as error:  # an index out of range, or sizes that the model does not take
                    problem = error.message
                    continue
                sizes.add(size)
                actual = evaluate_to_arrays(after, values)
                for name in [name for name in (*inner, *outputs) if name in expected and name in actual]:
                    is_half = getattr(expected[name], "dtype", None) == np.float16
                    agreement = compare_values(expected[name], actual[name], HALF_TOLERANCE if is_half else TOLERANCE)
                    if agreement.is_good:
                        compared.add(name)
                    elif not is_same(expected[name], actual[name]):
                        operator = inner.get(name, "the model")
                        raise ValueError(
                            f"the converted model returns different results: {name!r} of {operator}: {agreement}"
                        )
    except WinMLError as error:
        raise ValueError(f"the converted model cannot be compared: {error.message.rstrip('.')}") from error
    if missing := [name for name in outputs if name not in compared]:
        if sizes:
            problem = f"{missing[0]!r} was empty or not a number for all example inputs"
        raise ValueError(f"the converted model cannot be compared: {problem.rstrip('.')}")


def _open_session(model: ModelProto, names: Iterable[str]) -> LearningModelSession:
    """A session of a model whose inner tensors are outputs. Pictures are tensors, which need no contract."""
    probe = ModelProto()
    probe.CopyFrom(model)
    probe.ClearField("metadata_props")
    graph = probe.graph
    outputs = [output for output in graph.output if output.type.WhichOneof("value")]
    types = _infer_types(model, {*names, *(output.name for output in graph.output)} - {end.name for end in outputs})
    del graph.output[:]
    graph.output.extend(outputs)
    for value in (*graph.input, *graph.output):
        value.type.denotation = ""
    graph.output.extend(helper.make_tensor_value_info(name, element, None) for name, element in types.items())
    return LearningModelSession(LearningModel.load(probe.SerializeToString()))


def _infer_types(model: ModelProto, names: Iterable[str]) -> dict[str, int]:
    """The element types of tensors inside a model, of the types that can be evaluated."""
    probe = ModelProto()
    probe.CopyFrom(model)
    known = {output.name for output in probe.graph.output}
    probe.graph.output.extend(map(helper.make_empty_tensor_value_info, sorted(set(names) - known)))
    types: Mapping[str, TypeProto] = infer_outputs(probe)
    elements = {name: types[name].tensor_type.elem_type for name in names if name in types}
    return {name: element for name, element in elements.items() if element in TENSOR_CLASSES}


def _make_examples(features: Sequence[FeatureDescriptor]) -> Iterator[dict[str, Array]]:
    """Numbers of several ranges, for several values of the free sizes: a limit, a tie or a side may matter."""
    rng, usable = np.random.default_rng(0), [feature for feature in features if has_example(feature)]
    if odd := next((feature for feature in features if not has_example(feature)), None):
        raise make_no_example_error(odd)
    done = set[tuple[object, ...]]()
    for first, other in FREE_SIZES:
        shapes = {feature.name: find_example_shape(feature, first, other).shape for feature in usable}
        if (key := tuple(shapes.values())) not in done and sum(map(math.prod, shapes.values())) <= MAX_NUMBERS:
            done.add(key)
            for kind in range(len(RANGES) + 1):
                yield {feature.name: _draw(feature, shapes[feature.name], kind, rng) for feature in usable}


def _draw(feature: ShapedDescriptor, shape: tuple[int, ...], kind: int, rng: np.random.Generator) -> Array:
    dtype: DType = TENSOR_CLASSES[feature.tensor_kind].dtype
    if dtype.kind == "f" and kind < len(RANGES):
        return np.asarray(rng.uniform(*RANGES[kind], shape)).astype(dtype)
    low, high = ((0, 1), (0, 2), (0, 100), (-100, 100), (-4, 5))[kind]  # small ones are indices in most models
    whole = rng.integers(0 if dtype.kind == "u" else low, high, shape)
    return whole.astype(str).astype(object) if dtype.kind == "O" else whole.astype(dtype)
