"""Does `check_samples` find every best class that damage to a model changes?

    python tests/tools/damaged_models.py [--count 200] [--seed 0]

Each random classifier has 10 to 21,841 classes, with or without softmax; some models are those of `models/`. Each gets
a sample with a known answer. The undamaged model must pass on ONNX Runtime, in an isolated process, and on OpenVINO
(skipped if it is not installed). Then its weights, a bias or a type are damaged. Raw ONNX Runtime says whether the best
class changed. If it did, the check must fail, unless the known class leads by less than the tolerance, or a gray level
changes it.

Prints each failure and the totals. The exit code is 1 if a change passes the check, or an undamaged model fails it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers.models import model, tensor
from helpers.paths import MODELS
from winml_py import InvalidArgumentError, LearningModel, LearningModelSession, LearningModelSessionOptions
from winml_py.authoring import KnownAnswer, check_samples, write_samples

Array = np.ndarray[Any, Any]

OURS = ("digits.onnx", "digits_batch.onnx", "digits_float16.onnx")
CLASSES = (10, 100, 1000, 5000, 21841)
SIDE = 24

DAMAGES = ("noise", "class", "class", "class", "scale", "swap", "nan", "float16", "int8", "output")
"""Kinds of damage. "class", which raises one class to about the best one, is the hardest to find."""


class Known(NamedTuple):
    """A classifier with a sample.

    Attributes:
        name: what it is.
        path: its file.
        answer: its sample.
        tensor: the sample's input, as raw ONNX Runtime takes it.
        scores: the output for that.
    """

    name: str
    path: Path
    answer: KnownAnswer
    tensor: Array
    scores: Array


def make_classifier(rng: np.random.Generator) -> onnx.ModelProto:
    """Two layers with random weights, for numbers or for a picture, with or without softmax."""
    classes = int(rng.choice(CLASSES)) if rng.random() < 0.5 else int(np.exp(rng.uniform(np.log(10), np.log(21841))))
    has_pictures, has_softmax = rng.random() < 0.5, rng.random() < 0.5
    width = int(rng.integers(8, 33))
    if has_pictures:
        first = (rng.normal(0, 0.2, (width, 3, 3, 3)) / 100).astype(np.float32)
        shape = [1, 3, SIDE, SIDE]
        nodes = [
            helper.make_node("Conv", ["x", "first"], ["convolved"], strides=[2, 2]),
            helper.make_node("Relu", ["convolved"], ["rectified"]),
            helper.make_node("GlobalAveragePool", ["rectified"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["features"]),
        ]
    else:
        first = rng.normal(0, 0.3, (32, width)).astype(np.float32)
        shape = [1, 32]
        nodes = [
            helper.make_node("MatMul", ["x", "first"], ["product"]),
            helper.make_node("Relu", ["product"], ["features"]),
        ]
    weights = {
        "first": first,
        "last": rng.normal(0, rng.choice([0.1, 0.5, 2]), (width, classes)).astype(np.float32),
        "bias": rng.normal(rng.choice([-5, 0]), rng.choice([0.1, 1, 5]), classes).astype(np.float32),
    }
    nodes.append(helper.make_node("Gemm", ["features", "last", "bias"], ["logits" if has_softmax else "scores"]))
    if has_softmax:
        nodes.append(helper.make_node("Softmax", ["logits"], ["scores"]))
    denotation = "IMAGE" if has_pictures else ""
    return model(nodes, [tensor("x", shape, denotation=denotation)], [tensor("scores", [1, classes])], weights)


def make_known(seed: int, folder: Path) -> Known:
    """The classifier of a seed, with its sample; InvalidArgumentError if it has no stable answer."""
    rng, path = np.random.default_rng(seed), folder / f"{seed}.onnx"
    if seed % 10 == 0:
        name = OURS[seed // 10 % len(OURS)]
        array = rng.random((1, 1, 28, 28)).astype(np.float16 if "float16" in name else np.float32)
        (answer,) = write_samples(MODELS / name, path, [{"image": array}])
    else:
        proto = make_classifier(rng)
        name = f"{proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value} classes, {len(proto.graph.node)} nodes"
        path.write_bytes(proto.SerializeToString())
        (answer,) = write_samples(path, path, [{}], force=True)
    (value,) = answer.make_values().values()
    if not isinstance(value, np.ndarray):  # a picture becomes blue, green, red from 0 to 255: Windows ML's rule
        pixels = np.asarray(value.video_frame.software_bitmap.to_pil().convert("RGB"))
        value = pixels[..., ::-1].transpose(2, 0, 1)[None].astype(np.float32)
    return Known(name, path, answer, value, evaluate_raw(path.read_bytes(), value))


def evaluate_raw(data: bytes, value: Array) -> Array:
    """The output of a model in raw ONNX Runtime."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {session.get_inputs()[0].name: value})
    return np.asarray(scores)


def damage(known: Known, rng: np.random.Generator) -> tuple[str, bytes]:
    """The kind of damage, and a damaged copy of the model."""
    proto, kind = onnx.load(known.path), str(rng.choice(DAMAGES))
    weights = {each.name: numpy_helper.to_array(each).copy() for each in proto.graph.initializer}
    floats = [name for name, weight in weights.items() if weight.dtype.kind == "f" and weight.size > 1]
    weight = weights[str(rng.choice(floats))]
    bias = weights[next(name for name in floats if weights[name].size == known.scores.size)].reshape(-1)
    other = int(rng.integers(bias.size))
    if kind == "noise":
        weight += (rng.normal(0, weight.std() * 10 ** rng.uniform(-4, 0), weight.shape)).astype(weight.dtype)
    elif kind == "class":
        scores = known.scores.reshape(-1).astype(np.float64)
        is_share = scores.min() >= 0 and abs(scores.sum() - 1) < 0.01
        logits = np.log(np.maximum(scores, 1e-30)) if is_share else scores
        bias[other] += (logits.max() - logits[other]) * rng.uniform(0.97, 1.06) + rng.uniform(-0.01, 0.02)
    elif kind == "scale":
        weight *= weight.dtype.type(10 ** rng.uniform(-1, 1))
    elif kind == "swap":
        best = int(known.scores.argmax())
        bias[[best, other]] = bias[[other, best]]
    elif kind == "nan":
        bias[other] = np.nan
    elif kind == "float16":
        weight[...] = weight.astype(np.float16)
    elif kind == "int8":
        step = np.abs(weight).max() / 127
        weight[...] = np.rint(weight / step) * step
    else:
        output = proto.graph.output[0]
        element = int(rng.choice([TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32]))
        proto.graph.node.append(helper.make_node("Cast", [output.name], ["cast"], to=element))
        output.name, output.type.tensor_type.elem_type = "cast", element
    for each in proto.graph.initializer:
        each.CopyFrom(numpy_helper.from_array(weights[each.name], each.name))
    return kind, proto.SerializeToString()


def list_options() -> dict[str, LearningModelSessionOptions]:
    """The options that an undamaged model is evaluated with."""
    found = {name: LearningModelSessionOptions() for name in ("onnxruntime", "isolated", "openvino")}
    found["isolated"].isolation = "process"
    if find_spec("openvino"):
        found["openvino"].engine = "openvino"
    else:
        del found["openvino"]
        print("SKIPPED openvino: it is not installed")
    for options in found.values():
        options.batch_size_override = 0
    return found


def judge(known: Known, data: bytes) -> str:
    """What the check says of a damaged model; "changed, MISSED" is a failure."""
    scores = evaluate_raw(data, known.tensor)
    is_changed = not np.isfinite(scores).all() or scores.argmax() != known.scores.argmax()
    what = "changed" if is_changed else "kept"
    if not check_samples(LearningModel.load(data)).is_right:
        return f"{what}, found wrong"
    if not is_changed:
        return "kept, found right"
    (output,) = known.answer.outputs
    second, first = np.sort(known.scores.reshape(-1).astype(np.float64))[-2:]
    allowed = output.tolerance * 1.01 * np.abs(known.scores).max()  # the stored lead has three digits
    return "changed within the tolerance" if first - second < allowed or output.lead == 0 else "changed, MISSED"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    verdicts, alarms, unstable, seed, every = Counter[str](), 0, 0, arguments.seed, list_options()
    with tempfile.TemporaryDirectory() as folder:
        while verdicts.total() < arguments.count:
            seed += 1
            try:
                known = make_known(seed, Path(folder))
            except InvalidArgumentError:
                unstable += 1
                continue
            best = known.answer.outputs[0].best
            if known.scores.argmax() != best:
                alarms += 1
                print(f"seed {seed}: {known.name}: the sample says {best}, raw ONNX Runtime {known.scores.argmax()}")
            for way, options in every.items():
                with LearningModelSession(LearningModel.load(known.path), options=options) as session:
                    check = check_samples(session)
                if not check.is_right:
                    alarms += 1
                    print(f"seed {seed}: {known.name}, undamaged, {way}: {check.problems}")
            kind, data = damage(known, np.random.default_rng([seed, 1]))
            verdict = judge(known, data)
            verdicts[verdict] += 1
            if "MISSED" in verdict:
                print(f"seed {seed}: {known.name}, damaged by {kind}: {verdict}")
            known.path.unlink()
    words = "; ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    print(
        f"{arguments.count} damaged models: {words}. Undamaged on {', '.join(every)}: {alarms} false alarms. "
        f"{unstable} classifiers had no stable answer."
    )
    return int(alarms > 0 or verdicts["changed, MISSED"] > 0)


if __name__ == "__main__":
    sys.exit(main())
