"""Random classifiers with known answers, undamaged and damaged: does the check find every best class that changed?

    python tests/tools/damaged_models.py [--count 200] [--seed 0]

The classifiers have 10 to 21,841 classes, with and without softmax; some are those of `models/`. Each is checked as it
is, on every engine that is installed and in a process of its own. Then its weights, a bias or a type are damaged, and
raw ONNX Runtime says whether the best class changed. The exit code is 1 if one that changed passes without a word, is
only noted though it led by more than the tolerance, or if an undamaged model is wrong.
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
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers.models import model, tensor
from winml_py import InvalidArgumentError, LearningModel, LearningModelSession, LearningModelSessionOptions
from winml_py.authoring import KnownAnswer, check_samples, write_samples
from winml_py.authoring.check_samples import check_session
from winml_py.authoring.known_answers import read_answers

Array = np.ndarray[Any, Any]

MODELS = Path(__file__).parents[2] / "models"
OURS = ("digits.onnx", "digits_batch.onnx", "digits_float16.onnx")
CLASSES = (10, 100, 1000, 5000, 21841)
SIDE = 24

DAMAGES = ("noise", "class", "class", "class", "scale", "swap", "nan", "float16", "int8", "output")
"""Kinds of damage. A class that is raised to about the best one is the quietest."""


class Known(NamedTuple):
    """A classifier with a sample.

    Attributes:
        name: what it is.
        path: its file.
        answer: its sample.
        tensor: what the sample binds, as raw ONNX Runtime takes it.
        scores: what the model gives for that.
    """

    name: str
    path: Path
    answer: KnownAnswer
    tensor: Array
    scores: Array


def classifier(rng: np.random.Generator) -> onnx.ModelProto:
    """Two layers with random weights: of numbers or of a picture, with or without softmax."""
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


def known(seed: int, folder: Path) -> Known:
    """The classifier of a seed, with its sample.

    Raises:
        InvalidArgumentError: no answer of it can be known.
    """
    rng, path = np.random.default_rng(seed), folder / f"{seed}.onnx"
    if seed % 10 == 0:
        name = OURS[seed // 10 % len(OURS)]
        array = rng.random((1, 1, 28, 28)).astype(np.float16 if "float16" in name else np.float32)
        write_samples(MODELS / name, path, [{"image": array}])
    else:
        proto = classifier(rng)
        name = f"{proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value} classes, {len(proto.graph.node)} nodes"
        path.write_bytes(proto.SerializeToString())
        write_samples(path, path, [{}])
    (answer,) = read_answers(LearningModel.load(path).metadata)
    (value,) = (each.value() for each in answer.inputs.values())
    if not isinstance(value, np.ndarray):  # blue, green, red from 0 to 255: Windows ML's rule
        pixels = np.asarray(value.video_frame.software_bitmap.to_pil().convert("RGB"))
        value = pixels[..., ::-1].transpose(2, 0, 1)[None].astype(np.float32)
    return Known(name, path, answer, value, raw(path.read_bytes(), value))


def raw(data: bytes, value: Array) -> Array:
    """What raw ONNX Runtime gives."""
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {session.get_inputs()[0].name: value})
    return np.asarray(scores)


def damaged(one: Known, rng: np.random.Generator) -> tuple[str, bytes]:
    """A copy of a classifier with something changed, and what."""
    proto, kind = onnx.load(one.path), str(rng.choice(DAMAGES))
    weights = {each.name: numpy_helper.to_array(each).copy() for each in proto.graph.initializer}
    floats = [name for name, weight in weights.items() if weight.dtype.kind == "f" and weight.size > 1]
    name = str(rng.choice(floats))
    weight = weights[name]
    bias = weights[next(each for each in floats if weights[each].size == one.scores.size)]
    other = int(rng.integers(bias.size))
    if kind == "noise":
        weight += (rng.normal(0, weight.std() * 10 ** rng.uniform(-4, 0), weight.shape)).astype(weight.dtype)
    elif kind == "class":
        scores = one.scores.reshape(-1).astype(np.float64)
        is_share = scores.min() >= 0 and abs(scores.sum() - 1) < 0.01
        logits = np.log(np.maximum(scores, 1e-30)) if is_share else scores
        bias.reshape(-1)[other] += (logits.max() - logits[other]) * rng.uniform(0.97, 1.06) + rng.uniform(-0.01, 0.02)
    elif kind == "scale":
        weight *= weight.dtype.type(10 ** rng.uniform(-1, 1))
    elif kind == "swap":
        best = int(one.scores.argmax())
        bias.reshape(-1)[[best, other]] = bias.reshape(-1)[[other, best]]
    elif kind == "nan":
        bias.reshape(-1)[other] = np.nan
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
        proto.graph.node[-1].output[0] = "cast"
    for each in proto.graph.initializer:
        each.CopyFrom(numpy_helper.from_array(weights[each.name], each.name))
    return kind, proto.SerializeToString()


def ways() -> dict[str, LearningModelSessionOptions]:
    """How an undamaged model is evaluated."""
    made = {}
    for way in ("onnxruntime", "isolated", "auto", *(["openvino"] if find_spec("openvino") else [])):
        options = LearningModelSessionOptions()
        options.batch_size_override = 0
        if way == "isolated":
            options.isolation = "process"
        else:
            options.engine = way
        made[way] = options
    return made


def verdict(one: Known, data: bytes) -> str:
    """What the check makes of a damaged model; "unsaid" and "only noted" are failures."""
    scores = raw(data, one.tensor)
    is_changed = not np.isfinite(scores).all() or scores.argmax() != one.scores.argmax()
    check = check_samples(LearningModel.load(data))
    if not check.is_right:
        return "changed, wrong" if is_changed else "kept, wrong"
    if not is_changed:
        return "kept, right"
    if not check.answers[0].notes:
        return "unsaid"
    second, first = np.sort(one.scores.reshape(-1).astype(np.float64))[-2:]
    allowed = one.answer.outputs[0].tolerance * 1.01 * np.abs(one.scores).max()  # of numbers in three digits
    return "changed, noted" if first - second < allowed or one.answer.outputs[0].lead == 0 else "only noted"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    found, alarms, refused, seed = Counter[str](), 0, 0, arguments.seed
    with tempfile.TemporaryDirectory() as folder:
        while found.total() < arguments.count:
            seed += 1
            try:
                one = known(seed, Path(folder))
            except InvalidArgumentError:  # no answer of it can be known
                refused += 1
                continue
            best = one.answer.outputs[0].best
            if one.scores.argmax() != best:
                alarms += 1
                print(f"seed {seed}: {one.name}: the sample says {best}, and raw ONNX Runtime {one.scores.argmax()}")
            for way, options in ways().items():
                with LearningModelSession(LearningModel.load(one.path), options=options) as session:
                    check = check_session(session, [one.answer])
                if not check.is_right:
                    alarms += 1
                    print(f"seed {seed}: {one.name}, undamaged, {way}: {check.problems}")
            kind, data = damaged(one, np.random.default_rng([seed, 1]))
            got = verdict(one, data)
            found[got] += 1
            if got in ("unsaid", "only noted"):
                print(f"seed {seed}: {one.name}, damaged by {kind}: {got}")
            one.path.unlink()
    bad = found["unsaid"] + found["only noted"] + alarms
    words = ", ".join(f"{count} {word}" for word, count in sorted(found.items()))
    print(
        f"{arguments.count} damaged models from seed {arguments.seed}: {words}; undamaged on {', '.join(ways())}: "
        f"{alarms} false alarms; {refused} classifiers without an answer that can be known"
    )
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
