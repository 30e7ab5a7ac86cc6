"""What a session of a large tree ensemble costs, from its path, compared with raw ONNX Runtime.

    python benchmarks/trees.py [--trees N] [--json FILE]

The ensemble has 1.6 million nodes, whose attributes are lists of 1.6 million numbers or words each. The file is there
as `onnx` writes it, number by number, and with the numbers packed, as protobuf allows. Results are checked for equality
first. Then the ways take turns. The bar: at most 1.2x of `InferenceSession(path)`.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from _measure import arguments, at_most, medians, report
from onnx import TensorProto, helper

from winml_py import LearningModel, LearningModelSession
from winml_py.core.onnx_file.protobuf import encode_field, encode_varint

DEPTH = 13
FEATURES = 32


def ensemble(trees: int) -> onnx.ModelProto:
    """A sum of complete trees."""
    rng = np.random.default_rng(0)
    inner, nodes = (1 << DEPTH) - 1, (1 << DEPTH + 1) - 1
    place = np.arange(nodes)
    is_leaf = place >= inner
    leaves = trees * (inner + 1)
    ids = np.tile(place, trees)
    attributes = {
        "nodes_treeids": np.repeat(np.arange(trees), nodes),
        "nodes_nodeids": ids,
        "nodes_featureids": rng.integers(0, FEATURES, trees * nodes),
        "nodes_truenodeids": np.tile(np.where(is_leaf, 0, 2 * place + 1), trees),
        "nodes_falsenodeids": np.tile(np.where(is_leaf, 0, 2 * place + 2), trees),
        "nodes_missing_value_tracks_true": np.zeros(trees * nodes, np.int64),
        "nodes_values": rng.standard_normal(trees * nodes).astype(np.float32),
        "nodes_hitrates": np.ones(trees * nodes, np.float32),
        "target_treeids": np.repeat(np.arange(trees), inner + 1),
        "target_nodeids": np.tile(place[is_leaf], trees),
        "target_ids": np.zeros(leaves, np.int64),
        "target_weights": rng.standard_normal(leaves).astype(np.float32),
    }
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_modes=np.where(np.tile(is_leaf, trees), "LEAF", "BRANCH_LEQ").tolist(),
        **{name: values.tolist() for name, values in attributes.items()},
    )
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 1])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def packed(model: onnx.ModelProto) -> bytes:
    """The same model with its lists of numbers as one field each."""
    (node,) = model.graph.node
    pieces = []
    for attribute in node.attribute:
        rest = onnx.AttributeProto()
        rest.CopyFrom(attribute)
        rest.ClearField("floats")
        rest.ClearField("ints")
        floats = np.array(attribute.floats, "<f4").tobytes()
        ints = b"".join(map(encode_varint, attribute.ints))
        lists = b"".join(encode_field(number, data) for number, data in ((7, floats), (8, ints)) if data)
        pieces.append(encode_field(5, rest.SerializeToString() + lists))
    hollow = onnx.ModelProto()
    hollow.CopyFrom(model)
    (bare,) = hollow.graph.node
    bare.ClearField("attribute")
    del hollow.graph.node[:]
    graph = hollow.graph.SerializeToString() + encode_field(1, bare.SerializeToString() + b"".join(pieces))
    hollow.ClearField("graph")
    return hollow.SerializeToString() + encode_field(7, graph)


def raw(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def ours(path: Path) -> LearningModelSession:
    return LearningModelSession(LearningModel.load(path))


def seconds(make: Callable[[Path], object], path: Path) -> float:
    """The time to a session, which ends after the clock has been read."""
    started = time.perf_counter()
    session = make(path)
    took = time.perf_counter() - started
    del session
    return took


def row(name: str, path: Path, rounds: int) -> dict[str, Any]:
    """Compares results, then the time to a session."""
    given = {"x": np.random.default_rng(1).standard_normal((64, FEATURES)).astype(np.float32)}
    results = [ours(path).evaluate_features(given).outputs["y"].to_numpy(), raw(path).run(None, given)[0]]
    np.testing.assert_array_equal(*results)
    samples: dict[str, list[float]] = {"raw": [], "ours": []}
    ways = {"raw": raw, "ours": ours}
    for index in range(rounds):
        for way in ("raw", "ours") if index % 2 else ("ours", "raw"):
            samples[way].append(seconds(ways[way], path))
    middle = medians(samples)
    megabytes = path.stat().st_size / 1e6
    return {
        "numbers": name,
        "MB": megabytes,
        "raw s": middle["raw"],
        "winml-py s": middle["ours"],
        "winml-py / raw": middle["ours"] / middle["raw"],
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--trees", type=int, default=98)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = ensemble(options.trees)
        contents = {"one by one": model.SerializeToString(), "packed": packed(model)}
        del model
        rows = []
        for name, content in contents.items():
            path = Path(folder, f"{name}.onnx")
            path.write_bytes(content)
            rows.append(row(name, path, options.rounds))
    report({"trees": rows}, options.json, [at_most("winml-py / raw", max(row["winml-py / raw"] for row in rows), 1.2)])


if __name__ == "__main__":
    main()
