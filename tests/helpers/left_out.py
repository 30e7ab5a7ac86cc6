"""Every operator of ONNX that has optional inputs or outputs, with each of them left out in turn, inside a model.

The models are made from the cases of ONNX's conformance suite, which know inputs that the operators take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import defs, helper, numpy_helper

from helpers.models import counting_loop
from tools.conformance import Case, cases
from winml_py._inputs import trial

Array = np.ndarray[Any, Any]
Optional = defs.OpSchema.FormalParameterOption.Optional
CASES_EACH, TRIES_EACH = 1, 12
"""Of an operator and a position: models, and cases that are tried for one."""


class LeftOut(NamedTuple):
    """A model.

    Attributes:
        operator: the one that is tried.
        what: which input or output is left out.
        case: the name of the case that it was made from.
        model: its bytes. What goes into the operator and comes out of it are values inside the graph.
        inputs: what to evaluate it on.
    """

    operator: str
    what: str
    case: str
    model: bytes
    inputs: dict[str, Any]


def optional_positions(node: onnx.NodeProto, opset: int) -> Iterator[tuple[str, int, str]]:
    """The optional inputs and outputs that a node has: "input" or "output", the position, and the name of it."""
    try:
        schema = defs.get_schema(node.op_type, opset, node.domain)
    except defs.SchemaError:
        return
    for side, formals, actual in (("input", schema.inputs, node.input), ("output", schema.outputs, node.output)):
        for index, (formal, name) in enumerate(zip(formals, actual, strict=False)):
            if formal.option == Optional and name:
                yield side, index, formal.name


def operators() -> set[str]:
    """The names of ONNX's operators that have optional inputs or outputs, in any version."""
    return {
        schema.name
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == ""
        and not schema.deprecated
        and any(formal.option == Optional for formal in (*schema.inputs, *schema.outputs))
    }


def left_out() -> Iterator[LeftOut]:
    """The models that ONNX Runtime runs in float32."""
    yield from map(_loop, ("input M", "input cond"))  # those of the suite do not end without
    made, tried = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    wanted = operators()
    for case in (*map(_case, OWN), *cases()):
        proto = onnx.load_model_from_string(case.model)
        if len(proto.graph.node) != 1 or not case.data or proto.graph.node[0].op_type not in wanted - {"Loop"}:
            continue
        node = proto.graph.node[0]
        opset = next((item.version for item in proto.opset_import if item.domain in ("", "ai.onnx")), 1)
        for side, index, name in optional_positions(node, opset):
            key = node.op_type, f"{side} {name}"
            if made[key] >= CASES_EACH or tried[key] >= TRIES_EACH:
                continue
            tried[key] += 1
            found = _without(case, proto, side, index)
            if found is not None and _runs(*found):
                made[key] += 1
                yield LeftOut(*key, case.name, *found)


def _floats(*shape: int) -> Array:
    return np.random.default_rng(0).normal(0, 0.5, shape).astype(np.float32)


def _recurrent(operator: str, gates: int) -> tuple[str, dict[str, Array], int, dict[str, Any]]:
    """With all that it may be given, and all that it gives."""
    state = {"h": _floats(1, 2, 3)} | ({"c": _floats(1, 2, 3), "p": _floats(1, 9)} if operator == "LSTM" else {})
    weights = {"w": _floats(1, gates * 3, 4), "r": _floats(1, gates * 3, 3), "b": _floats(1, gates * 6)}
    inputs = {"x": _floats(5, 2, 4)} | weights | {"l": np.array([5, 4], np.int32)} | state
    return operator, inputs, 3 if operator == "LSTM" else 2, {"hidden_size": 3}


OWN: list[tuple[str, dict[str, Array], int, dict[str, Any]]] = [
    ("Conv", {"x": _floats(1, 3, 8, 8), "w": _floats(4, 3, 3, 3), "b": _floats(4)}, 1, {}),
    ("ConvTranspose", {"x": _floats(1, 3, 8, 8), "w": _floats(3, 4, 3, 3), "b": _floats(4)}, 1, {}),
    (
        "BatchNormalization",
        {name: np.abs(_floats(*shape)) for name, shape in zip("xsbmv", [(1, 3, 4, 4), *[(3,)] * 4], strict=True)},
        3,
        {"training_mode": 1},
    ),
    (
        "DequantizeLinear",
        {"x": np.arange(12, dtype=np.uint8), "s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)},
        1,
        {},
    ),
    (
        "RotaryEmbedding",
        {"x": _floats(1, 2, 4, 8), "c": _floats(4, 4), "s": _floats(4, 4), "p": np.arange(4)[None]},
        1,
        {},
    ),
    ("STFT", {"x": _floats(1, 64, 1), "step": np.array(8), "w": _floats(16), "length": np.array(16)}, 1, {}),
    _recurrent("RNN", 1),
    _recurrent("GRU", 3),
    _recurrent("LSTM", 4),
    ("Trilu", {"x": _floats(4, 4), "k": np.array(1)}, 1, {}),
]
"""Operators, inputs, how many outputs and attributes, of operators that no case of the suite has in this way."""


def _loop(what: str) -> LeftOut:
    """Doubles a number until it has done so three times, or as often as is said."""
    model = onnx.load_model_from_string(counting_loop())
    (node,) = model.graph.node
    if what == "input M":
        body = node.attribute[0].g
        body.initializer.append(numpy_helper.from_array(np.array(2), "two"))
        body.node[0].CopyFrom(helper.make_node("Less", ["step", "two"], ["still"]))
        node.input[:] = ["", "go", "x"]
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []))
    inputs = {"go": np.array(True)} if what == "input M" else {"count": np.array(3)}
    return LeftOut("Loop", what, "own", model.SerializeToString(), inputs | {"x": np.array(1.5, np.float32)})


def _case(own: tuple[str, dict[str, Array], int, dict[str, Any]]) -> Case:
    operator, inputs, count, attributes = own
    names = [f"y{index}" for index in range(count)]
    node = helper.make_node(operator, list(inputs), names, **attributes)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    gives = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    opset = 23 if operator == "RotaryEmbedding" else 17
    model = helper.make_model(
        helper.make_graph([node], operator, given, gives), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    return Case(f"own_{operator}", model.SerializeToString(), [(inputs, [])], 1e-3, 1e-7)


def _without(case: Case, proto: onnx.ModelProto, side: str, index: int) -> tuple[bytes, dict[str, Any]] | None:
    """The case's model without that input or output, and with an Identity before and behind its node."""
    inputs = dict(case.data[0][0])
    if not all(isinstance(value, np.ndarray) and value.dtype != object for value in inputs.values()):
        return None
    node, changed = onnx.NodeProto(), onnx.ModelProto()
    changed.CopyFrom(proto)
    node.CopyFrom(proto.graph.node[0])
    names = node.input if side == "input" else node.output
    inputs.pop(names[index], None)
    names[index] = ""
    graph = changed.graph
    kept_inputs = [info for info in graph.input if info.name in node.input]
    kept_outputs = [info for info in graph.output if info.name in node.output]
    if not kept_outputs:
        return None
    before = [helper.make_node("Identity", [info.name], [f"in_{info.name}"]) for info in kept_inputs]
    behind = [helper.make_node("Identity", [f"out_{info.name}"], [info.name]) for info in kept_outputs]
    ends = {info.name: f"in_{info.name}" for info in kept_inputs}, {i.name: f"out_{i.name}" for i in kept_outputs}
    given, gives = ([ends[k].get(name, name) for name in each] for k, each in enumerate((node.input, node.output)))
    while gives and not gives[-1]:
        gives.pop()
    while given and not given[-1]:
        given.pop()
    del node.input[:], node.output[:], graph.node[:], graph.input[:], graph.output[:]
    node.input.extend(given)
    node.output.extend(gives)
    graph.node.extend([*before, node, *behind])
    graph.input.extend(kept_inputs)
    graph.output.extend(kept_outputs)
    return changed.SerializeToString(), {name: inputs[name] for name in inputs if name in ends[0]}


def _runs(model: bytes, inputs: dict[str, Any]) -> bool:
    """Whether ONNX Runtime computes it; some of what is left out ends the process."""
    try:
        return trial.call(computes, model, inputs)
    except trial.ProcessEndedError:
        return False


def computes(model: bytes, inputs: dict[str, Any]) -> bool:
    """Whether raw ONNX Runtime computes a model, in this process."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, inputs)
    except Exception:  # whatever the runtime says: an operator of another version, or one that needs what is left out
        return False
    return True
