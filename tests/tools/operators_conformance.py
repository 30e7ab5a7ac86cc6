"""Every operator of ONNX's conformance suite that is one node, through `winml_py.operators`.

    python tests/tools/operators_conformance.py [--all]

A case is a model of one node, with the suite's own inputs and outputs. It passes when every output equals the published
one within the suite's tolerance. Whatever passes raw ONNX Runtime has to pass here. The suite may be newer than the
runtime: cases of opsets that the runtime refuses run with its newest one, both ways. `--all` lists also the cases that
fail both ways.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from tools.conformance import Case, cases, problem, run_raw
from winml_py import operators


@cache
def newest_opset() -> int:
    """The newest opset of ONNX's own operators that the runtime takes."""
    version = onnx.defs.onnx_opset_version()
    while True:
        end = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
        graph = helper.make_graph([], "graph", [end], [end])
        try:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            onnxruntime.InferenceSession(_model(graph, version).SerializeToString(), options)
        except Exception:  # the runtime raises classes that have no common base
            version -= 1
        else:
            return version


def _model(graph: onnx.GraphProto, version: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))


def single_nodes() -> Iterator[tuple[str, Case]]:
    """The suite's cases whose model is one node and has no weights, by the name of the operator."""
    for case in cases():
        model = onnx.ModelProto.FromString(case.model)
        graph = model.graph
        if len(graph.node) != 1 or graph.initializer or model.functions:
            continue
        opsets = {item.domain: item.version for item in model.opset_import}
        if opsets.get("", 0) > newest_opset():
            case = case._replace(model=_model(graph, newest_opset()).SerializeToString())
        yield graph.node[0].op_type, case


def run_operator(model: bytes, inputs: dict[str, Any]) -> list[Any]:
    """Calls the operator of a model of one node as a function."""
    proto = onnx.ModelProto.FromString(model)
    node = proto.graph.node[0]
    opsets = {item.domain: item.version for item in proto.opset_import}
    for info in proto.graph.input:
        if info.type.HasField("sequence_type"):  # an empty list says no type, and the model does
            dtype = helper.tensor_dtype_to_np_dtype(info.type.sequence_type.elem_type.tensor_type.elem_type)
            inputs[info.name] = operators.TensorSequence(dtype, inputs[info.name])
    found = operators.Operator(node.op_type)(
        *(inputs[name] if name else None for name in node.input),
        domain=node.domain,
        opset=opsets[node.domain],
        outputs=len(node.output),
        **{item.name: helper.get_attribute_value(item) for item in node.attribute},
    )
    outputs = found if isinstance(found, tuple) else (found,)
    return [value for name, value in zip(node.output, outputs, strict=True) if name]


def judge(step: int = 1) -> tuple[int, int, set[str], dict[str, str], dict[str, str]]:
    """How many cases and operators there are, which operators pass, what passes raw alone, and what fails both ways.

    Args:
        step: takes every so many cases.
    """
    total, names, passed = 0, set(), set()
    lost: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, case in islice(single_nodes(), 0, None, step):
        total += 1
        names.add(name)
        reason = problem(case, run_operator)
        if not reason:
            passed.add(name)
        elif problem(case, run_raw):
            refused[case.name] = reason
        else:
            lost[case.name] = reason
        operators.clear_cache()
    return total, len(names), passed, lost, refused


def main() -> int:
    started = time.perf_counter()
    total, names, operators_passed, lost, refused = judge()
    passed = total - len(lost) - len(refused)
    print(f"{passed} of {total} cases of one node pass winml_py.operators, {passed + len(lost)} pass raw ONNX Runtime")
    print(f"{len(operators_passed)} of {names} operators pass")
    for name, reason in lost.items():
        print(f"  passes raw only: {name}: {reason}")
    for name, reason in refused.items() if "--all" in sys.argv else ():
        print(f"  fails both ways: {name}: {reason}")
    print(f"{time.perf_counter() - started:.0f} s")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
