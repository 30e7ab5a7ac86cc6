"""For each known fault of ONNX Runtime a model that ends its process, and one nearly like it that it computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as native

Array = np.ndarray[Any, Any]
MS, NCHWC, ML = "com.microsoft", "com.microsoft.nchwc", "ai.onnx.ml"


@dataclass(frozen=True)
class Constant:
    """An input that is a weight of the model."""

    array: Array


Input = Array | list[Array] | Constant | None


@dataclass(frozen=True)
class Node:
    """A model of one node.

    Attributes:
        inputs: those that are None are left out.
        attributes: of the node.
        outputs: how many.
        version: of the domain; 0 for the newest.
        has_shapes: whether the shapes of the inputs are declared.
        is_typed: whether the outputs are declared as float32.
    """

    inputs: list[Input]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    version: int = 0
    has_shapes: bool = True
    is_typed: bool = False


@dataclass(frozen=True)
class Pair:
    """A fault's operator and words, and the two models; None where no processor's kernel computes the operator."""

    operator: str
    words: str
    fatal: Node
    harmless: Node | None
    domain: str = ""

    def __str__(self) -> str:
        return f"{self.operator}: {self.words}"


def build(pair: Pair, node: Node) -> tuple[bytes, dict[str, Any]]:
    """The model's bytes, and what to evaluate it on."""
    names, infos, weights, values = [], [], [], {}
    for index, given in enumerate(node.inputs):
        name = f"x{index}" if given is not None else ""
        names.append(name)
        if isinstance(given, Constant):
            weights.append(numpy_helper.from_array(given.array, name))
        elif given is not None:
            infos.append(onnx.ValueInfoProto(name=name, type=_type(given, node.has_shapes)))
            values[name] = given
    names_of_results = [f"y{index}" for index in range(node.outputs)]
    version = node.version or max(
        schema.since_version
        for schema in native.get_all_operator_schema()
        if (schema.domain, schema.name) == (pair.domain, pair.operator)
    )
    proto = helper.make_node(pair.operator, names, names_of_results, "it", domain=pair.domain, **node.attributes)
    results = [onnx.ValueInfoProto(name=name) for name in names_of_results]
    for result in results if node.is_typed else ():
        result.type.CopyFrom(helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
    graph = helper.make_graph([proto], "one operator", infos, results, weights)
    imports = {"": 21, pair.domain: version}
    opsets = [helper.make_opsetid(*item) for item in imports.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), values


def _type(given: Array | list[Array], has_shapes: bool) -> onnx.TypeProto:
    if isinstance(given, list):
        return helper.make_sequence_type_proto(_type(given[0], False))
    element = helper.np_dtype_to_tensor_dtype(given.dtype)
    return helper.make_tensor_type_proto(element, given.shape if has_shapes else None)


def floats(*shape: int) -> Array:
    return np.random.default_rng(0).random(shape, np.float32)


def codes(*shape: int) -> Array:
    return np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape)


def counts(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def count(number: int) -> Array:
    return np.array(number, np.int64)


SCALE, ZERO = np.array(0.5, np.float32), np.array(3, np.uint8)
QUANTIZED = [SCALE, ZERO]
_QMOE = {"k": 1, "expert_weight_bits": 4, "activation_type": "swiglu", "swiglu_fusion": 1}
_PAST = [floats(1, 1, 4, 8), floats(1, 1, 4, 8), np.array([1], np.int32)]


def _attention_lstm(**changes: Input) -> list[Input]:
    inputs: dict[str, Input] = {"x": floats(4, 2, 16), "w": floats(1, 12, 19), "r": floats(1, 12, 3)}
    inputs |= {"b": floats(1, 24), "lengths": None, "h": None, "c": None, "p": None, "query": floats(1, 3, 4)}
    inputs |= {"memory": floats(1, 16, 4), "v": floats(1, 4), "attended": floats(2, 6, 16), "sizes": None}
    return list((inputs | {"layer": floats(1, 19, 3)} | changes).values())


def _recurrent(gates: int, steps: int, batch: int, width: int, lengths: Array | None = None) -> list[Input]:
    return [floats(steps, batch, width), floats(1, gates * 3, width), floats(1, gates * 3, 3), None, lengths]


def _dynamic_lstm(batch: int) -> list[Input]:
    weights: list[Input] = [codes(1, 4, 12), codes(1, 3, 12)]
    scales: list[Input] = [floats(1), codes(1)]
    return [floats(2, batch, 4), *weights, None, None, None, None, None, *scales, *scales]


def _heads(shape: tuple[int, ...]) -> list[Input]:
    return [floats(*shape)] * 3


def _grouped(batch: int, width: int) -> list[Input]:
    lengths: list[Input] = [np.zeros(batch, np.int32), np.array(2, np.int32)]
    return [*_heads((batch, 2, width)), None, None, *lengths]


def _embedding(positions: Array) -> list[Input]:
    ids, table, row = np.zeros((1, 2), np.int32), floats(3, 4), floats(4)
    return [ids, None, table, table, None, row, row, None, positions]


def _experts(scale: Array | None, weight: Input) -> list[Input]:
    return [floats(2, 32), floats(2, 2), weight, scale, None, codes(2, 32, 16), floats(2, 32)]


def _where(constants: tuple[int, ...]) -> list[Input]:
    data = [np.array([True, False]), codes(2), SCALE, ZERO, codes(2), SCALE, ZERO, SCALE, ZERO]
    return [Constant(array) if index in constants else array for index, array in enumerate(data)]


def _paged() -> list[Input]:
    from ml_dtypes import bfloat16

    table, half = np.zeros((8, 8), np.int32), Constant(np.zeros((8, 8), bfloat16))
    return [half, None, None, half, half, *[table] * 6]


def _body(has_shapes: bool = True) -> onnx.GraphProto:
    """Of a loop: gives back what it is given."""
    kinds = [onnx.TensorProto.INT64, onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT]
    shapes: list[list[int]] = [[], [], [2]]
    infos = [
        helper.make_tensor_value_info(f"b{index}", kinds[index], shapes[index] if has_shapes else None)
        for index in range(3)
    ]
    results = [helper.make_tensor_value_info(f"r{index}", kinds[index], None) for index in (1, 2)]
    nodes = [helper.make_node("Identity", [f"b{index}"], [f"r{index}"]) for index in (1, 2)]
    return helper.make_graph(nodes, "body", infos, results)


_GRAMS: dict[str, Any] = {"max_gram_length": 2, "min_gram_length": 2, "max_skip_count": 0, "mode": "TF"}
_GRAMS |= {"ngram_counts": [0, 0], "pool_int64s": [5, 6, 7, 8, 6, 7]}
_TOKENS = np.array([1, 7, 8, 6, 7], np.int32)


def _tree(depth: int) -> Node:
    """A tree with a leaf at every step."""
    count, leaves = 2 * depth + 1, [*range(1, 2 * depth, 2), 2 * depth]
    attributes = {
        "nodes_treeids": [0] * count,
        "nodes_nodeids": list(range(count)),
        "nodes_featureids": [0] * count,
        "nodes_values": [0.5] * count,
        "nodes_modes": ["BRANCH_LEQ", "LEAF"] * depth + ["LEAF"],
        "nodes_truenodeids": [node for step in range(depth) for node in (2 * step + 2, 0)] + [0],
        "nodes_falsenodeids": [node for step in range(depth) for node in (2 * step + 1, 0)] + [0],
        "target_treeids": [0] * len(leaves),
        "target_nodeids": leaves,
        "target_ids": [0] * len(leaves),
        "target_weights": [1.0] * len(leaves),
        "n_targets": 1,
    }
    return Node([floats(1, 1)], attributes, version=3, has_shapes=False)


def _tree_of_places(depth: int) -> Node:
    """The same as newer models write it, where a child is a place in the list."""
    attributes = {
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
        "tree_roots": [0],
        "nodes_modes": numpy_helper.from_array(np.zeros(depth, np.uint8)),
        "nodes_featureids": [0] * depth,
        "nodes_splits": numpy_helper.from_array(np.full(depth, 0.5, np.float32)),
        "nodes_truenodeids": [*range(1, depth), 1],
        "nodes_trueleafs": [0] * (depth - 1) + [1],
        "nodes_falsenodeids": [0] * depth,
        "nodes_falseleafs": [1] * depth,
        "leaf_targetids": [0, 0],
        "leaf_weights": numpy_helper.from_array(np.ones(2, np.float32)),
    }
    return Node([floats(1, 1)], attributes, version=5)


PAIRS: list[Pair] = [
    Pair(
        "QLinearSigmoid",
        "list of inputs",
        Node([codes(4), *QUANTIZED, SCALE]),
        Node([codes(4), *QUANTIZED, SCALE, ZERO]),
        MS,
    ),
    Pair(
        "QLinearLeakyRelu",
        "list of inputs",
        Node([codes(4), *QUANTIZED, SCALE]),
        Node([codes(4), SCALE, None, SCALE, ZERO]),
        MS,
    ),
    *[
        Pair(operator, "left out", Node([floats(2), None, floats(2)]), Node([floats(2), floats(2)]))
        for operator in ("Max", "Min", "Sum", "Mean")
    ],
    Pair(
        "Einsum",
        "left out",
        Node([floats(2), None, floats(2)], {"equation": "i,i,i"}),
        Node([floats(2), floats(2)], {"equation": "i,i"}),
    ),
    Pair(
        "Crop",
        "left out",
        Node([], {"border": [1, 1, 1, 1]}, version=1, is_typed=True),
        Node([floats(1, 1, 4, 4)], {"border": [1, 1, 1, 1]}, version=1),
    ),
    Pair(
        "Loop",
        "without elements",
        Node([Constant(np.zeros(0, np.int64)), Constant(np.array(True)), floats(2)], {"body": _body()}, version=13),
        Node([Constant(count(2)), Constant(np.array(True)), floats(2)], {"body": _body()}, version=13),
    ),
    Pair(
        "Loop",
        "its condition",
        Node([Constant(count(2)), Constant(np.zeros((2, 0), bool)), floats(2)], {"body": _body(False)}, version=13),
        Node([Constant(count(2)), Constant(np.array(False)), floats(2)], {"body": _body()}, version=13),
    ),
    Pair(
        "TfIdfVectorizer",
        "n-grams",
        Node([_TOKENS], _GRAMS | {"ngram_indexes": [2]}),
        Node([_TOKENS], _GRAMS | {"ngram_indexes": [2, 1, 0]}),
    ),
    Pair(
        "SparsePagedAttention",
        "2^64",
        Node(_paged(), {"num_heads": 2, "kv_num_heads": (1 << 63) - 1}, 2),
        None,
        MS,
    ),
    Pair(
        "ConcatFromSequence",
        "stacks",
        Node([[floats(0), floats(2, 2, 7, 2)]], {"axis": 3, "new_axis": 1}, version=11),
        Node([[floats(0, 3), floats(2, 3)]], {"axis": 0}, version=11),
    ),
    Pair("TreeEnsembleRegressor", "deep", _tree(30_000), _tree(9_000), ML),
    Pair("TreeEnsemble", "deep", _tree_of_places(30_000), _tree_of_places(9_000), ML),
    Pair(
        "OneHot",
        "depth",
        Node([counts(0, 1), Constant(np.zeros(0, np.int64)), floats(2)], version=11),
        Node([counts(0, 1), Constant(count(2)), floats(2)], version=11),
    ),
    Pair(
        "ConvInteger",
        "single number",
        Node([codes(1, 1, 5, 5), codes()], version=10, has_shapes=False),
        Node([codes(1, 1, 5, 5), codes(1, 1, 1, 1)], version=10, has_shapes=False),
    ),
    Pair(
        "WordConvEmbedding",
        "filters",
        Node([Constant(array) for array in (np.ones((2, 5), np.int32), floats(2, 0, 3, 4), floats(2), floats(4, 4))]),
        Node([Constant(array) for array in (np.ones((2, 5), np.int32), floats(2, 1, 3, 4), floats(2), floats(4, 4))]),
        MS,
    ),
    Pair(
        "QLinearSoftmax",
        "without elements",
        Node([codes(2, 2), *QUANTIZED, SCALE, Constant(np.zeros(0, np.uint8))], {"opset": 13}, has_shapes=False),
        Node([codes(2, 2), *QUANTIZED, SCALE, Constant(ZERO)], {"opset": 13}, has_shapes=False),
        MS,
    ),
    Pair(
        "QLinearWhere",
        "without elements",
        Node(
            [*_where(())[:2], *[Constant(array) for array in (np.zeros(0, np.float32), ZERO)], codes(2)]
            + [Constant(array) for array in QUANTIZED * 2]
        ),
        Node(
            [*_where(())[:2], *[Constant(array) for array in QUANTIZED], codes(2)]
            + [Constant(array) for array in QUANTIZED * 2]
        ),
        MS,
    ),
    Pair(
        "Multinomial",
        "two dimensions",
        Node([floats(0)], {"sample_size": 2}, version=7, has_shapes=False),
        Node([floats(1, 2)], {"sample_size": 2}, version=7, has_shapes=False),
    ),
    Pair(
        "DynamicSlice",
        "left out",
        Node([floats(2, 3), counts(0)], version=1),
        Node([floats(2, 3), counts(0), counts(1), counts(0)], version=1),
    ),
    Pair(
        "AttnLSTM",
        "left out",
        Node(_attention_lstm(query=None), {"hidden_size": 3}, 3),
        Node(_attention_lstm(b=None), {"hidden_size": 3}, 3),
        MS,
    ),
    Pair(
        "AttnLSTM",
        "three dimensions",
        Node(_attention_lstm(x=floats(2, 16)), {"hidden_size": 3}, 3),
        Node(_attention_lstm(), {"hidden_size": 3}, 3),
        MS,
    ),
    Pair(
        "QLinearConcat",
        "left out",
        Node([*QUANTIZED, codes(1, 2), SCALE, None], {"axis": 1}),
        Node([*QUANTIZED, codes(1, 2), SCALE, ZERO], {"axis": 1}),
        MS,
    ),
    Pair(
        "DecoderMaskedMultiHeadAttention",
        "past keys",
        Node([*_heads((1, 1, 8)), None, None, *_PAST], {"num_heads": 1, "past_present_share_buffer": 1}),
        Node([*_heads((1, 1, 8)), None, None, *_PAST], {"num_heads": 1, "past_present_share_buffer": 1}, 3),
        MS,
    ),
    Pair(
        "QMoE",
        "scales",
        Node(_experts(None, codes(2, 64, 16)), _QMOE),
        Node(_experts(floats(2, 64), codes(2, 64, 16)), _QMOE),
        MS,
    ),
    Pair(
        "QMoE",
        "three dimensions",
        Node(_experts(floats(2, 64), Constant(codes(2, 64))), _QMOE),
        Node(_experts(floats(2, 64), Constant(codes(2, 64, 16))), _QMOE),
        MS,
    ),
    Pair(
        "RandomUniform",
        "low",
        Node([], {"low": 1.0, "high": 0.0, "shape": [2]}, version=1),
        Node([], {"low": 1.0, "high": 1.0, "shape": [2]}, version=1),
    ),
    Pair(
        "RandomUniformLike",
        "low",
        Node([floats(2)], {"low": 2.0}, version=1),
        Node([floats(2)], {"low": 2.0, "high": 2.0}, version=1),
    ),
    Pair(
        "RandomNormal",
        "scale",
        Node([], {"scale": 0.0, "shape": [2]}, version=1),
        Node([], {"scale": 0.5, "seed": 1.0, "shape": [2]}, version=1),
    ),
    Pair(
        "RandomNormalLike",
        "scale",
        Node([floats(2)], {"scale": -1.0}, version=1),
        Node([floats(2)], {"seed": 1.0}, version=1),
    ),
    Pair(
        "GatherND",
        "batch_dims",
        Node([floats(2, 2, 4), np.zeros((2, 2), np.int64)], {"batch_dims": -7}, version=13),
        Node([floats(2, 2, 4), np.zeros((2, 2), np.int64)], {"batch_dims": 1}, version=13),
    ),
    Pair(
        "Split",
        "num_outputs",
        Node([floats(6)], {"num_outputs": 2}, 3, version=18),
        Node([floats(6)], {"num_outputs": 3}, 3, version=18),
    ),
    Pair(
        "FeatureVectorizer",
        "below 0",
        Node([floats(1, 3), floats(1, 2)], {"inputdimensions": [3, -2]}),
        Node([floats(1, 3), floats(1, 2)], {"inputdimensions": [3, 2]}),
        ML,
    ),
    Pair(
        "FeatureVectorizer",
        "rows",
        Node([floats(0, 3), floats(0, 2)], {"inputdimensions": [3, 2]}),
        Node([floats(2, 0), floats(2, 2)], {"inputdimensions": [3, 2]}),
        ML,
    ),
    Pair(
        "GroupQueryAttention",
        "2^32",
        Node(_grouped(1, 16), {"num_heads": 1 << 32, "kv_num_heads": 1}, 3),
        Node(_grouped(1, 16), {"num_heads": 1, "kv_num_heads": 1}, 3),
        MS,
    ),
    Pair(
        "GroupQueryAttention",
        "batch is empty",
        Node(_grouped(0, 16), {"num_heads": 1, "kv_num_heads": 1}, 3),
        Node(_grouped(2, 16), {"num_heads": 1, "kv_num_heads": 1}, 3),
        MS,
    ),
    Pair(
        "GroupQueryAttention",
        "heads have the size 0",
        Node(_grouped(1, 0), {"num_heads": 1, "kv_num_heads": 1}, 3),
        Node(_grouped(1, 8), {"num_heads": 1, "kv_num_heads": 1}, 3),
        MS,
    ),
    Pair(
        "MultiHeadAttention",
        "size 0",
        Node(_heads((1, 2, 0)), {"num_heads": 1}),
        Node(_heads((1, 2, 8)), {"num_heads": 1}),
        MS,
    ),
    Pair(
        "QAttention",
        "batch is empty",
        Node([codes(0, 1, 4), codes(4, 12), floats(12), SCALE, SCALE], {"num_heads": 1}),
        Node([codes(1, 1, 4), codes(4, 12), floats(12), SCALE, SCALE], {"num_heads": 1}),
        MS,
    ),
    Pair(
        "ReverseSequence",
        "two dimensions",
        Node([floats(2), counts(1, 1)], {"batch_axis": 0, "time_axis": 1}, has_shapes=False),
        Node([floats(2, 2), counts(1, 1)], {"batch_axis": 0, "time_axis": 1}, has_shapes=False),
    ),
    Pair(
        "DFT",
        "single number",
        Node([floats()], version=20, has_shapes=False),
        Node([floats(1, 4, 1)], version=20, has_shapes=False),
    ),
    Pair(
        "STFT",
        "its signal",
        Node([floats(), count(1), None, count(4)], version=17, has_shapes=False),
        Node([floats(1, 16, 1), count(1), None, count(4)], version=17, has_shapes=False),
    ),
    Pair(
        "STFT",
        "single number",
        Node([floats(1, 16, 1), count(8), floats()], version=17),
        Node([floats(1, 16, 1), count(8), floats(8)], version=17),
    ),
    Pair(
        "STFT",
        "window has the length",
        Node([floats(1, 16, 1), count(8), floats(0)], version=17),
        Node([floats(1, 16, 1), count(8), floats(1)], version=17),
    ),
    Pair(
        "STFT",
        "frames",
        Node([floats(1, 16, 1), count(8), None, Constant(count(0))], version=17),
        Node([floats(1, 16, 1), count(8), None, Constant(count(8))], version=17),
    ),
    Pair(
        "SequenceAt",
        "position",
        Node([[floats(2)], Constant(np.zeros(0, np.int64))]),
        Node([[floats(2)], Constant(count(0))]),
    ),
    Pair(
        "SequenceErase",
        "position",
        Node([[floats(2)], Constant(np.zeros(0, np.int64))]),
        Node([[floats(2)], Constant(count(0))]),
    ),
    Pair(
        "SequenceInsert",
        "position",
        Node([[floats(2)], floats(2), Constant(np.zeros(0, np.int64))]),
        Node([[floats(2)], floats(2), Constant(count(0))]),
    ),
    Pair(
        "GRU",
        "batch",
        Node(_recurrent(3, 2, 0, 4, np.zeros(0, np.int32)), {"hidden_size": 3}, 2),
        Node(_recurrent(3, 2, 1, 4), {"hidden_size": 3}, 2),
    ),
    Pair(
        "GRU",
        "not told",
        Node(_recurrent(3, 0, 1, 4), {"hidden_size": 3}, 2),
        Node(_recurrent(3, 0, 1, 4, np.zeros(1, np.int32)), {"hidden_size": 3}, 2),
    ),
    Pair(
        "LSTM",
        "batch",
        Node(_recurrent(4, 2, 0, 4), {"hidden_size": 3}, 3),
        Node(_recurrent(4, 0, 1, 4), {"hidden_size": 3}, 3),
    ),
    Pair(
        "DynamicQuantizeLSTM",
        "batch",
        Node(_dynamic_lstm(0), {"hidden_size": 3}, 3),
        Node(_dynamic_lstm(1), {"hidden_size": 3}, 3),
        MS,
    ),
    Pair("Unique", "along its axis", Node([floats(2, 0)], {"axis": 0}), Node([floats(0, 2)], {"axis": 0})),
    Pair(
        "Inverse",
        "square",
        Node([floats(500, 3, 1)], has_shapes=False),
        Node([np.eye(2, dtype=np.float32) * 2], has_shapes=False),
        MS,
    ),
    Pair(
        "RotaryEmbedding",
        "size 0",
        Node([floats(1, 1, 1, 0), counts(0), floats(3, 1), floats(3, 1)]),
        Node([floats(1, 1, 0, 4), counts(0), floats(3, 2), floats(3, 2)]),
        MS,
    ),
    Pair(
        "Attention",
        "four dimensions",
        Node([*_heads((1, 1, 1, 1)), None, floats(1, 1, 1, 1), floats(1)], {}, 2, version=23),
        Node([*_heads((1, 1, 1, 1)), None, *[floats(1, 1, 1, 1)] * 2], {}, 3, version=23),
    ),
    Pair(
        "EmbedLayerNormalization",
        "two dimensions",
        Node(_embedding(np.zeros(2, np.int32)), {}, 2),
        Node(_embedding(np.zeros((1, 2), np.int32)), {}, 2),
        MS,
    ),
    Pair(
        "Range",
        "are float16",
        Node([np.zeros(0, np.float16), *[np.array(2, np.float16)] * 2], has_shapes=False),
        Node([np.array(value, np.float16) for value in (0, 2, 1)], has_shapes=False),
    ),
    *[
        Pair(
            operator,
            "no elements",
            Node([floats(2, 1, 8), floats(0, 1, 8), floats(8)]),
            Node([floats(0, 1, 8), floats(0, 1, 8), floats(8)]),
            MS,
        )
        for operator in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
    ],
    Pair(
        "MatMulIntegerToFloat",
        "first input is larger",
        Node([codes(1, 1), codes(1, 1), floats(1 << 20), SCALE]),
        Node([codes(2, 1), codes(1, 4), floats(2, 1), SCALE]),
        MS,
    ),
    Pair(
        "MatMulIntegerToFloat",
        "second input is larger",
        Node([codes(1, 1), codes(1, 1), SCALE, floats(1 << 20)]),
        Node([codes(2, 1), codes(1, 4), SCALE, floats(4)]),
        MS,
    ),
    Pair(
        "DynamicQuantizeMatMul",
        "larger",
        Node([floats(1, 1), codes(1, 1), floats(1 << 20)]),
        Node([floats(2, 1), codes(1, 4), floats(4)]),
        MS,
    ),
    Pair("QLinearWhere", "zero point of the output is", Node(_where((7, 8))), Node(_where((3, 6, 7, 8))), MS),
    *[
        Pair(
            operator,
            "higher",
            Node([floats(1, 16, 1, 5)], {"kernel_shape": [2, 2]}),
            Node([floats(1, 16, 2, 5)], {"kernel_shape": [2, 2]}),
            NCHWC,
        )
        for operator in ("MaxPool", "AveragePool")
    ],
    *[
        Pair(operator, "pictures", Node([floats(0, 16, 0, 0)]), Node([floats(0, 16, 2, 2)]), NCHWC)
        for operator in ("GlobalMaxPool", "GlobalAveragePool")
    ],
    Pair(
        "QLinearAveragePool",
        "channels are last",
        Node([codes(1, 1, 5, 3), *QUANTIZED * 2], {"kernel_shape": [2, 2], "channels_last": 1}),
        Node([codes(1, 3, 1, 5), *QUANTIZED * 2], {"kernel_shape": [2, 2], "channels_last": 0}),
        MS,
    ),
]
