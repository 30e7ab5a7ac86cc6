"""Fills tensors itself, straight in the memory that the model reads.

python samples/custom_tensorization.py

It does so for a picture with a normalisation that no contract has, for sound, and for the bytes of a file. Nothing is
copied between the code that makes the numbers and the engine that reads them: bind once, write, evaluate, write again.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from winml_py import (
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SoftwareBitmap,
    TensorFloat,
    TensorUInt8Bit,
)

ROOT = Path(__file__).parent.parent


def picture() -> int:
    """The digit in a picture. Its contrast is stretched to its own darkest and lightest pixels."""
    session = LearningModelSession(LearningModel.load(ROOT / "models" / "digits.onnx"))
    binding = LearningModelBinding(session)
    tensor = TensorFloat.create([1, 1, 28, 28])
    pixels = tensor.to_numpy()[0, 0]  # a view of the tensor's memory
    binding.bind("image", tensor)

    bitmap = SoftwareBitmap.load(ROOT / "samples" / "pictures" / "seven.png")
    small = np.asarray(bitmap.to_pil().resize((28, 28)))
    darkest, lightest = np.percentile(small, (1, 99))
    np.subtract(small, darkest, out=pixels)
    np.multiply(pixels, 255 / (lightest - darkest), out=pixels)
    np.clip(pixels, 0, 255, out=pixels)
    return int(session.evaluate(binding).outputs["probabilities"].to_numpy().argmax())


def sound() -> list[float]:
    """The loudness of a second of sound, in steps of a tenth, through one buffer."""
    session = LearningModelSession(LearningModel.load(loudness()))
    binding = LearningModelBinding(session)
    samples = bytearray(1600 * 4)  # an audio driver would fill it in the same way
    binding.bind("samples", TensorFloat.create_from_buffer([1600], samples))
    level = TensorFloat.create([])
    binding.bind("level", level)

    levels = []
    for tenth in range(10):
        time = np.arange(1600) / 16_000
        np.frombuffer(samples, np.float32)[:] = np.sin(2 * np.pi * 440 * time) * tenth / 10
        session.evaluate(binding)
        levels.append(round(level.to_numpy().item(), 2))
    return levels


def file_bytes() -> int:
    """How many bytes of a file are zero, read from the file into the tensor."""
    path = ROOT / "samples" / "pictures" / "seven.png"
    session = LearningModelSession(LearningModel.load(zeros()))
    tensor = TensorUInt8Bit.create([path.stat().st_size])
    with path.open("rb") as file:
        file.readinto(tensor.get_buffer())
    return session.evaluate_features({"bytes": tensor}).outputs["count"].to_numpy().item()


def loudness() -> bytes:
    """A model that computes the root of the mean square."""
    nodes = [
        helper.make_node("Mul", ["samples", "samples"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["mean"], keepdims=0),
        helper.make_node("Sqrt", ["mean"], ["level"]),
    ]
    return model(nodes, ("samples", TensorProto.FLOAT, ["n"]), ("level", TensorProto.FLOAT, []))


def zeros() -> bytes:
    """A model that counts zeros."""
    nodes = [
        helper.make_node("Cast", ["bytes"], ["numbers"], to=TensorProto.BOOL),
        helper.make_node("Not", ["numbers"], ["is_zero"]),
        helper.make_node("Cast", ["is_zero"], ["ones"], to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["ones"], ["count"], keepdims=0),
    ]
    return model(nodes, ("bytes", TensorProto.UINT8, ["n"]), ("count", TensorProto.INT64, []))


def model(nodes: list[onnx.NodeProto], given: tuple, wanted: tuple) -> bytes:
    ends = [helper.make_tensor_value_info(*end) for end in (given, wanted)]
    graph = helper.make_graph(nodes, "sample", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def main() -> None:
    print("digit:", picture())
    print("loudness:", sound())
    print("zero bytes:", file_bytes())


if __name__ == "__main__":
    main()
