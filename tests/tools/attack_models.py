"""Models of one operator, odd in one way or another, by number: for `tests/tools/attack.py`.

A model begins as one of three: what the operator's schema allows, drawn at random; a case of ONNX's conformance suite;
or a recipe of `attack_recipes.py`. Then some of it is changed: sizes, ranks, attributes, values, what is left out.
Model N of seed S is the same wherever onnx and ONNX Runtime have the same schemas.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as native

from tools.attack_recipes import RECIPES, sized
from tools.conformance import cases

ELEMENTS = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "int16": TensorProto.INT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
}
"""Elements that numpy has, by the runtime's names."""

RARE = {
    "bfloat16": (TensorProto.BFLOAT16, 16),
    "float8e4m3fn": (TensorProto.FLOAT8E4M3FN, 8),
    "float8e5m2": (TensorProto.FLOAT8E5M2, 8),
    "int4": (TensorProto.INT4, 4),
    "uint4": (TensorProto.UINT4, 4),
}
"""Elements that numpy does not have, with their bits; they come as constants."""

PREFERRED = ("float", "int64", "int32", "uint8", "int8", "bool", "double")
ODD_NUMBERS = (-1, -2, -7, 5, 17, 1000, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63), 65536, -65537)
ODD_FLOATS = (float("nan"), float("inf"), -float("inf"), -1.0, 1e38, -1e38, 1e-40, 0.0, 2.0**31, -(2.0**63))
WORDS = ("", "NOTSET", "SAME_UPPER", "VALID", "linear", "nearest", "cubic", "a", "relu", "x" * 70)
TEXTS = ("", "a", "b c", "Z", "ü€", "y" * 300)


@dataclass
class Value:
    """An input of the node.

    Attributes:
        data: an array, a list or dictionary, or a TensorProto of elements that numpy does not have; None: left out.
        is_constant: whether it is a weight of the model.
        declared: of what a program binds "sizes", "names" or "nothing" is declared.
    """

    data: Any
    is_constant: bool = False
    declared: str = "sizes"


@dataclass
class Draft:
    """A model that is still changed."""

    domain: str
    operator: str
    version: int
    inputs: list[Value]
    outputs: list[str | None]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """A model and what to evaluate it on; `words` say what is in it."""

    name: str
    model: bytes
    inputs: dict[str, Any]
    words: str


@cache
def schemas() -> dict[tuple[str, str], list[Any]]:
    """The schemas of ONNX Runtime and of onnx, by domain and operator; the runtime's where both have one."""
    found: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    for schema in (*onnx.defs.get_all_schemas_with_history(), *native.get_all_operator_schema()):
        if not schema.deprecated:
            found[schema.domain, schema.name][schema.since_version] = schema
    return {name: [found[name][version] for version in sorted(found[name])] for name in sorted(found)}


@cache
def kernels() -> dict[tuple[str, str], list[Any]]:
    """The processor's kernels, by domain and operator."""
    found = defaultdict(list)
    for kernel in native.get_all_opkernel_def():
        found[kernel.domain, kernel.op_name].append(kernel)
    return dict(found)


@cache
def suite() -> dict[tuple[str, str], list[tuple[onnx.ModelProto, dict[str, Any]]]]:
    """Cases of ONNX's conformance suite that have one node, by domain and operator."""
    found = defaultdict(list)
    for case in cases():
        model = onnx.load_model_from_string(case.model)
        if len(model.graph.node) == 1 and case.data:
            node = model.graph.node[0]
            found[node.domain.replace("ai.onnx.ml", "ai.onnx.ml"), node.op_type].append((model, case.data[0][0]))
    return found


def make(seed: int, number: int, only: str = "") -> Made:
    """Makes a model.

    Args:
        seed: of all models.
        number: of this one.
        only: the operator, "domain:Name" or "Name"; any where it is empty.
    """
    rng = random.Random(f"{seed} {number}")
    names = _names(only)
    if not only and rng.random() < 0.95:
        names = [name for name in names if name in kernels()]
    name = rng.choice(names)
    draft = _begin(rng, name)
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
        rng.choice(CHANGES)(rng, draft)
    return build(draft, rng)


@cache
def _names(only: str) -> list[tuple[str, str]]:
    domain, _, operator = only.rpartition(":")
    return [name for name in schemas() if not only or (name[1] == operator and domain in ("", name[0] or "ai.onnx"))]


def _begin(rng: random.Random, name: tuple[str, str]) -> Draft:
    if name in RECIPES and rng.random() < 0.75:
        return _from_recipe(rng, name)
    if name in suite() and rng.random() < 0.6:
        return _from_case(rng, *rng.choice(suite()[name]))
    return _from_schema(rng, name)


def _schema(rng: random.Random, name: tuple[str, str]) -> Any:
    if rng.random() < 0.1:
        return rng.choice(schemas()[name])
    known = [schema for schema in schemas()[name] if _taken_types(name, schema.since_version)] or schemas()[name]
    return known[-1] if rng.random() < 0.6 else rng.choice(known)


def _taken_types(name: tuple[str, str], version: int) -> dict[str, list[str]]:
    """The types that the processor's kernels take, by the type's name in the schema."""
    found: dict[str, list[str]] = {}
    for kernel in kernels().get(name, []):
        if kernel.version_range[0] <= version <= kernel.version_range[1]:
            for key, types in kernel.type_constraints.items():
                found.setdefault(key, []).extend(types)
    return found


# Three ways to begin.


def _from_case(rng: random.Random, model: onnx.ModelProto, data: dict[str, Any]) -> Draft:
    node = model.graph.node[0]
    weights = {weight.name: weight for weight in model.graph.initializer}
    inputs = []
    for name in node.input:
        value = data.get(name, weights.get(name))
        if isinstance(value, TensorProto) and value.data_type in ELEMENTS.values():
            value = numpy_helper.to_array(value)
        if isinstance(value, np.ndarray) and value.dtype.kind not in "fiubOSU":  # an element of ml_dtypes
            value = None
        if isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
            value = np.array([str(text) for text in value.ravel()], dtype=object).reshape(value.shape)
        inputs.append(Value(value))
    attributes = {attribute.name: attribute for attribute in node.attribute}
    version = next((item.version for item in model.opset_import if item.domain == node.domain), 1)
    types = {info.name: info.type for info in model.graph.output}
    outputs = [_type_words(types[name]) if name in types else None for name in node.output]
    return Draft(node.domain, node.op_type, version, inputs, outputs, attributes)


def _from_recipe(rng: random.Random, name: tuple[str, str]) -> Draft:
    recipe = rng.choice(RECIPES[name])
    sizes = sized(rng)
    inputs = []
    for words in recipe.inputs.split("; ") if recipe.inputs else ():
        element, _, shape = words.partition(" ")
        element, _, numbers = element.partition("=")
        values = [int(eval(part, {}, dict(sizes))) for part in (numbers or shape).split(",") if part]
        if element == "-":
            array = None
        elif numbers:
            array = np.array(values, element)
        else:
            array = _array(rng, element.rstrip("!"), values)
        inputs.append(Value(np.maximum(array, 1) if element.endswith("!") else array))
    attributes = {
        key: sizes.get(value, value) if isinstance(value, str) else value for key, value in recipe.attributes.items()
    }
    return Draft(*name, schemas()[name][-1].since_version, inputs, [None] * recipe.outputs, attributes)


def _from_schema(rng: random.Random, name: tuple[str, str]) -> Draft:
    schema = _schema(rng, name)
    takes = _taken_types(name, schema.since_version) if rng.random() < 0.85 else {}
    types = {
        each.type_param_str: _pick_type(rng, takes.get(each.type_param_str) or each.allowed_type_strs)
        for each in schema.type_constraints
    }
    pool = [rng.choice((1, 1, 2, 2, 3, 4, 8)) for _ in range(rng.choice((1, 2, 2, 3)))]
    rank = rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 4, 5))
    inputs = []
    for formal in _formals(rng, schema):
        words = types.get(_type_name(formal)) or _pick_type(rng, formal.types)
        if formal.option.name == "Optional" and rng.random() < 0.4:
            inputs.append(Value(None))
        else:
            inputs.append(Value(_value(rng, words, rank, pool)))
    while inputs and inputs[-1].data is None:
        inputs.pop()
    given = {_type_name(formal) for formal in schema.inputs}
    types = {key: words for key, words in types.items() if key in given}  # what an attribute decides is not stated
    outputs = [types.get(_type_name(formal)) for formal in schema.outputs]
    count = rng.randint(max(schema.min_output, 1), max(len(outputs), 1)) if outputs else 0
    if outputs and schema.outputs[-1].option.name == "Variadic":
        outputs += [outputs[-1]] * rng.choice((0, 0, 1, 2))
        count = len(outputs)
    draft = Draft(*name, schema.since_version, inputs, outputs[:count])
    length = rng.choice((0, 1, 2, 2, 3, 4))
    for attribute in sorted(schema.attributes.values(), key=lambda each: str(each.name)):
        if rng.random() < (0.97 if attribute.required else 0.4):
            draft.attributes[attribute.name] = _attribute(rng, attribute, length, draft)
    return draft


def _type_name(formal: Any) -> str:
    """What an input or output has as its type; the runtime and onnx call it differently."""
    return str(formal.typeStr if hasattr(formal, "typeStr") else formal.type_str)


def _formals(rng: random.Random, schema: Any) -> Iterator[Any]:
    for formal in schema.inputs:
        count = rng.choice((1, 1, 2, 3)) if formal.option.name == "Variadic" else 1
        yield from [formal] * count


def _pick_type(rng: random.Random, allowed: Any) -> str:
    allowed = sorted(allowed)
    liked = [words for words in allowed if words[7:-1] in PREFERRED]
    return str(rng.choice(liked if liked and rng.random() < 0.8 else allowed)) if allowed else "tensor(float)"


# Values.


def _value(rng: random.Random, words: str, rank: int, pool: list[int]) -> Any:
    words = re.sub(r"^optional\((.*)\)$", r"\1", words)
    if words.startswith("seq("):
        return [_value(rng, words[4:-1], rank, pool) for _ in range(rng.choice((0, 1, 2, 3)))]
    if words.startswith("map("):
        key, _, value = words[4:-1].partition(",")
        keys = TEXTS[:3] if key == "string" else (0, 1, 5)
        value = value.removeprefix("tensor(").removesuffix(")")
        make_value = {"string": str, "int64": int}.get(value, float)
        return {one: make_value(index) for index, one in enumerate(keys[: rng.randint(0, 3)])}
    element = words.partition("(")[2].rstrip(")")
    own = rank if rng.random() < 0.6 else rng.choice((0, 1, 1, 2, 3, 4, 5))
    dims = [rng.choice(pool) if rng.random() < 0.9 else rng.choice((0, 1, 2, 5, 7)) for _ in range(own)]
    return _array(rng, element, dims)


def _array(rng: random.Random, element: str, dims: list[int]) -> Any:
    """Small numbers, of which some indices and sizes are good."""
    count = int(np.prod(dims, dtype=np.float64)) if np.prod(dims, dtype=np.float64) < 1 << 20 else 0
    if not count:
        dims = [size if size < 1 << 20 else 0 for size in dims] if 0 in dims or not dims else [*dims[:-1], 0]
    if element in RARE:
        kind, bits = RARE[element]
        raw = bytes(rng.randrange(256) for _ in range((count * bits + 7) // 8))
        return TensorProto(data_type=kind, dims=dims, raw_data=raw)
    if element == "string":
        return np.array([rng.choice(TEXTS) for _ in range(count)], dtype=object).reshape(dims)
    dtype = helper.tensor_dtype_to_np_dtype(ELEMENTS.get(element, TensorProto.FLOAT))
    numbers = np.random.default_rng(rng.randrange(1 << 32))
    if dtype.kind == "f":
        array = numbers.normal(0, 1, dims)
        if rng.random() < 0.1:
            array = np.abs(array)
    elif dtype.kind == "b":
        array = numbers.random(dims) < 0.5
    elif dtype.itemsize == 1:
        array = numbers.integers(0, 128, dims)
    else:
        array = numbers.integers(0, rng.choice((1, 2, 2, 3, 5)), dims)
    return np.asarray(array).astype(dtype)


def _odd_values(rng: random.Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """With some or all of its elements replaced by what few expect."""
    if not array.size:
        return array
    result = array.copy().reshape(-1)
    places = range(result.size) if rng.random() < 0.3 else [rng.randrange(result.size)]
    for place in places:
        if array.dtype == object:
            result[place] = rng.choice(TEXTS)
        elif array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                result[place] = np.float64(rng.choice(ODD_FLOATS)).astype(array.dtype)
        elif array.dtype.kind in "iu":
            result[place] = np.array(rng.choice((0, *ODD_NUMBERS))).astype(array.dtype)
        else:
            result[place] = rng.random() < 0.5
    return result.reshape(array.shape)


def _resized(array: np.ndarray[Any, Any], dims: list[int]) -> np.ndarray[Any, Any]:
    """With these sizes: its elements again and again."""
    if array.size:
        return np.resize(array, dims)
    return np.full(dims, "" if array.dtype == object else 0, array.dtype)


# Attributes.


def _number(rng: random.Random) -> int:
    return rng.choice((0, 0, 1, 1, 1, 2, 2, 3, 4, 8)) if rng.random() < 0.85 else rng.choice(ODD_NUMBERS)


def _real(rng: random.Random) -> float:
    return rng.choice((0.0, 0.5, 1.0, 1.0, 2.0, 1e-5)) if rng.random() < 0.85 else rng.choice(ODD_FLOATS)


def _attribute(rng: random.Random, schema: Any, length: int, draft: Draft) -> Any:
    if rng.random() < 0.15:
        length = rng.choice((0, 1, 2, 3, 4, 6, 8))
    words = _words(schema)
    match str(schema.type).rpartition(".")[2]:
        case "INT":
            if schema.name in ("to", "dtype"):
                return rng.choice((1, 1, 7, 6, 2, 3, 9, 10, 11, 8, 16, 0, 99))
            return _number(rng)
        case "FLOAT":
            return _real(rng)
        case "STRING":
            return rng.choice(words) if words and rng.random() < 0.9 else rng.choice(WORDS)
        case "INTS":
            return [_number(rng) for _ in range(length)]
        case "FLOATS":
            return [_real(rng) for _ in range(length)]
        case "STRINGS":
            return [rng.choice(words or WORDS) for _ in range(length)]
        case "TENSOR":
            element = rng.choice(("float", "float", "int64", "double", "string", "int32", "uint8"))
            array = _array(rng, element, rng.choice(([], [1], [length], [length], [length, 2])))
            return numpy_helper.from_array(array)
        case "GRAPH" | "GRAPHS":
            graph = _subgraph(rng, draft)
            return graph if str(schema.type).endswith("GRAPH") else [graph]
    return None


@cache
def _quoted(text: str) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            re.findall(r"[`'\"](\w{2,40})[`'\"]|\b([A-Z]{2,}(?:_[A-Z]+)*)\b", text)
            and [one or two for one, two in re.findall(r"[`'\"](\w{2,40})[`'\"]|\b([A-Z]{2,}(?:_[A-Z]+)*)\b", text)]
        )
    )


def _words(schema: Any) -> tuple[str, ...]:
    """What an attribute's description quotes: the words that it may be, and some others."""
    return _quoted(schema.description or "")


def _subgraph(rng: random.Random, draft: Draft) -> onnx.GraphProto:
    """A body that gives back what it is given; as many as the node has inputs, or a few less."""
    count = 0 if draft.operator == "If" else max(len(draft.inputs) - rng.choice((0, 0, 0, 1)), 0)
    infos, nodes, outputs = [], [], []
    for index in range(count):
        loop_types = {0: TensorProto.INT64, 1: TensorProto.BOOL} if draft.operator == "Loop" else {}
        data = draft.inputs[index].data
        element = loop_types.get(index) or (_element(data) if data is not None else TensorProto.FLOAT)
        infos.append(helper.make_tensor_value_info(f"s{index}", element, None))
        if not (draft.operator == "Loop" and index == 0):
            nodes.append(helper.make_node("Identity", [f"s{index}"], [f"t{index}"]))
            outputs.append(helper.make_tensor_value_info(f"t{index}", element, None))
    if not outputs:
        tensor = numpy_helper.from_array(np.ones(rng.choice(((), (0,), (2,))), np.float32))
        nodes.append(helper.make_node("Constant", [], ["t"], value=tensor))
        outputs.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, None))
    return helper.make_graph(nodes, "body", infos, outputs)


# Changes.


def _tensors(draft: Draft) -> list[Value]:
    return [value for value in draft.inputs if isinstance(value.data, np.ndarray)]


def _change_size(rng: random.Random, draft: Draft) -> None:
    values = [value for value in _tensors(draft) if value.data.ndim]
    if values:
        value = rng.choice(values)
        dims = list(value.data.shape)
        dims[rng.randrange(len(dims))] = rng.choice((0, 0, 1, 1, 2, 3, 5, 9))
        value.data = _resized(value.data, dims)


def _empty_all(rng: random.Random, draft: Draft) -> None:
    """Makes one size 0 wherever it occurs."""
    sizes = sorted({size for value in _tensors(draft) for size in value.data.shape})
    if sizes:
        gone = rng.choice(sizes)
        for value in _tensors(draft):
            value.data = _resized(value.data, [0 if size == gone else size for size in value.data.shape])


def _change_rank(rng: random.Random, draft: Draft) -> None:
    if values := _tensors(draft):
        value = rng.choice(values)
        dims = list(value.data.shape)
        if dims and rng.random() < 0.6:
            dims = dims[1:] if rng.random() < 0.5 else [] if rng.random() < 0.5 else dims[:-1]
        else:
            dims.insert(rng.randint(0, len(dims)), rng.choice((0, 1, 1, 2)))
        value.data = _resized(value.data, dims)


def _change_values(rng: random.Random, draft: Draft) -> None:
    values = _tensors(draft)
    values = [value for value in values if value.data.dtype.kind in "iu"] if rng.random() < 0.6 else values
    if values:
        value = rng.choice(values)
        value.data = _odd_values(rng, value.data)


def _leave_out(rng: random.Random, draft: Draft) -> None:
    if draft.inputs:
        if rng.random() < 0.5:
            rng.choice(draft.inputs).data = None
        else:
            del draft.inputs[rng.randrange(len(draft.inputs)) :]


def _repeat_input(rng: random.Random, draft: Draft) -> None:
    if draft.inputs:
        chosen = rng.choice(draft.inputs)
        draft.inputs.append(Value(chosen.data, chosen.is_constant, chosen.declared))


def _change_type(rng: random.Random, draft: Draft) -> None:
    if values := [value for value in _tensors(draft) if value.data.dtype != object]:
        value = rng.choice(values)
        with np.errstate(all="ignore"):
            dtype = rng.choice(("float32", "int64", "int32", "uint8", "int8", "float16", "float64", "bool"))
            value.data = value.data.astype(dtype)


def _change_attribute(rng: random.Random, draft: Draft) -> None:
    known = {schema.since_version: schema for schema in schemas()[draft.domain, draft.operator]}
    schema = known[max((version for version in known if version <= draft.version), default=max(known))]
    if schema.attributes:
        name = rng.choice(sorted(schema.attributes))
        if name in draft.attributes and rng.random() < 0.25:
            del draft.attributes[name]
            return
        old = draft.attributes.get(name)
        if isinstance(old, AttributeProto):
            old = helper.get_attribute_value(old) if old.type != AttributeProto.GRAPH else None
        if isinstance(old, list) and old and rng.random() < 0.7:
            new = list(old)
            place = rng.randrange(len(new))
            if isinstance(old[0], int):
                new[place] = rng.choice((0, *ODD_NUMBERS)) if rng.random() < 0.7 else _number(rng)
            elif isinstance(old[0], float):
                new[place] = rng.choice(ODD_FLOATS)
            if rng.random() < 0.3:
                new = new[: rng.randrange(len(new))] if rng.random() < 0.5 else [*new, new[-1]]
        elif isinstance(old, int) and rng.random() < 0.6:
            new = rng.choice((0, old + 1, old - 1, -old, *ODD_NUMBERS))
        else:
            new = _attribute(rng, schema.attributes[name], rng.choice((0, 1, 2, 3, 4)), draft)
        draft.attributes[name] = new


def _make_constant(rng: random.Random, draft: Draft) -> None:
    every = rng.random() < 0.2
    for index, value in enumerate(draft.inputs):
        if every or (index and rng.random() < 0.6):
            value.is_constant = True


def _declare_less(rng: random.Random, draft: Draft) -> None:
    word = rng.choice(("names", "nothing"))
    for value in draft.inputs:
        value.declared = word if rng.random() < 0.8 else "sizes"


def _change_outputs(rng: random.Random, draft: Draft) -> None:
    count = len(schemas()[draft.domain, draft.operator][-1].outputs)
    if len(draft.outputs) < count and rng.random() < 0.7:
        draft.outputs += [None] * (count - len(draft.outputs))
    elif draft.outputs and rng.random() < 0.5:
        del draft.outputs[rng.randrange(len(draft.outputs)) :]
    elif draft.outputs:
        draft.outputs[rng.randrange(len(draft.outputs))] = None


CHANGES: tuple[Callable[[random.Random, Draft], None], ...] = (
    _change_size,
    _change_size,
    _empty_all,
    _change_rank,
    _change_rank,
    _change_values,
    _change_values,
    _change_values,
    _leave_out,
    _repeat_input,
    _change_type,
    _change_attribute,
    _change_attribute,
    _change_attribute,
    _make_constant,
    _declare_less,
    _declare_less,
    _change_outputs,
)


# From a draft to a model.


def _element(data: Any) -> int:
    if isinstance(data, TensorProto):
        return data.data_type
    if isinstance(data, np.ndarray):
        return TensorProto.STRING if data.dtype.kind in "OSU" else helper.np_dtype_to_tensor_dtype(data.dtype)
    return TensorProto.FLOAT


def _type_words(proto: onnx.TypeProto) -> str | None:
    names = {number: name for name, number in ELEMENTS.items()}
    if proto.HasField("tensor_type") and proto.tensor_type.elem_type in names:
        return f"tensor({names[proto.tensor_type.elem_type]})"
    return None


def _type_of(value: Value) -> onnx.TypeProto:
    data = value.data
    if isinstance(data, list):
        inner = _type_of(Value(data[0] if data else np.zeros(1, np.float32), declared="nothing"))
        return helper.make_sequence_type_proto(inner)
    if isinstance(data, dict):
        kinds = {str: TensorProto.STRING, int: TensorProto.INT64, float: TensorProto.FLOAT}
        key, one = next(iter(data.items()), (0, 0.0))
        return helper.make_map_type_proto(kinds[type(key)], helper.make_tensor_type_proto(kinds[type(one)], []))
    shape = None if value.declared == "nothing" else list(data.shape)
    if value.declared == "names":
        shape = [f"size {index} of {data.ndim}" for index in range(data.ndim)]
    return helper.make_tensor_type_proto(_element(data), shape)


def _output_type(words: str | None) -> onnx.TypeProto | None:
    match = re.fullmatch(r"tensor\((\w+)\)", words or "")
    if match and match[1] in (ELEMENTS | RARE):
        kind = ELEMENTS.get(match[1]) or RARE[match[1]][0]
        return helper.make_tensor_type_proto(kind, None)
    return None


def build(draft: Draft, rng: random.Random) -> Made:
    """The model's bytes, and its inputs."""
    names, infos, weights, feeds, told = [], [], [], {}, []
    for index, value in enumerate(draft.inputs):
        name = f"x{index}" if value.data is not None else ""
        names.append(name)
        if value.data is None:
            told.append("-")
            continue
        if isinstance(value.data, TensorProto) or (value.is_constant and isinstance(value.data, np.ndarray)):
            tensor = TensorProto()
            tensor.CopyFrom(value.data if isinstance(value.data, TensorProto) else numpy_helper.from_array(value.data))
            tensor.name = name
            weights.append(tensor)
            told.append(f"constant {_told(value.data)}")
            continue
        infos.append(onnx.ValueInfoProto(name=name, type=_type_of(value)))
        feeds[name] = value.data
        told.append(f"{_told(value.data)} declared {value.declared}")
    while names and not names[-1]:
        names.pop()
    outputs = [f"y{index}" for index in range(len(draft.outputs))]
    node = helper.make_node(draft.operator, names, outputs, domain=draft.domain)
    for key, attribute in draft.attributes.items():
        if isinstance(attribute, AttributeProto):
            node.attribute.append(attribute)
        elif attribute is not None:
            node.attribute.append(_attribute_proto(key, attribute))
    results = []
    for name, words in zip(outputs, draft.outputs, strict=True):
        info = onnx.ValueInfoProto(name=name)
        kind = _output_type(words)
        if kind is not None:
            info.type.CopyFrom(kind)
        results.append(info)
    graph = helper.make_graph([node], "one operator", infos, results, weights)
    imports = [helper.make_opsetid(draft.domain, draft.version)]
    if draft.domain:
        imports.append(helper.make_opsetid("", min(21, onnx.defs.onnx_opset_version())))
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    attributes = ", ".join(f"{one.name}={_short(helper.get_attribute_value(one))}" for one in node.attribute)
    words = f"{'; '.join(told)} -> {len(outputs)}; {attributes}"
    return Made(
        f"{draft.domain or 'ai.onnx'}:{draft.operator}:{draft.version}", model.SerializeToString(), feeds, words
    )


def _attribute_proto(key: str, value: Any) -> AttributeProto:
    if isinstance(value, list) and not value:
        return AttributeProto(name=key, type=AttributeProto.INTS)
    if isinstance(value, int):
        value = max(min(value, 2**63 - 1), -(2**63))
    return helper.make_attribute(key, value)


def _told(data: Any) -> str:
    if isinstance(data, np.ndarray):
        numbers = f" = {data.tolist()}" if data.size <= 8 else ""
        return f"{data.dtype}{list(data.shape)}{numbers}"[:200]
    if isinstance(data, TensorProto):
        return f"{TensorProto.DataType.Name(data.data_type)}{list(data.dims)}"
    return f"{type(data).__name__} of {len(data)}"


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:120]
