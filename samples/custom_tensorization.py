"""Fills tensors directly in the memory that the model reads.

python samples/custom_tensorization.py

The tensors hold a picture with a normalisation that no contract has (on the CPU and on a GPU), a sound, and the bytes
of a file. On the CPU, nothing is copied between the code that computes the numbers and the engine that reads them. The
program binds a tensor once, and then writes and evaluates as often as it needs. On a GPU, `write` makes the only copy.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from winml_py import (
    InvalidDeviceError,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
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
    stretch_contrast("seven.png", pixels)
    return int(session.evaluate(binding).outputs["probabilities"].to_numpy().argmax())


def picture_on_gpu() -> int | str:
    """The same on a GPU, from a tensor that stays in its memory."""
    try:
        gpu = LearningModelDevice(LearningModelDeviceKind.GPU)
    except InvalidDeviceError:
        return "there is none"
    session = LearningModelSession(LearningModel.load(ROOT / "models" / "digits.onnx"), gpu)
    binding = LearningModelBinding(session)
    numbers = np.zeros((1, 1, 28, 28), np.float32)
    tensor = session.upload(numbers)
    binding.bind("image", tensor)
    stretch_contrast("seven.png", numbers[0, 0])
    tensor.write(numbers)  # into the memory that is bound
    return int(session.evaluate(binding).outputs["probabilities"].to_numpy().argmax())


def stretch_contrast(name: str, pixels: np.ndarray) -> None:
    """Writes a picture of the samples into the pixels of a tensor."""
    bitmap = SoftwareBitmap.load(ROOT / "samples" / "pictures" / name)
    small = np.asarray(bitmap.to_pil().resize((28, 28)))
    darkest, lightest = np.percentile(small, (1, 99))
    np.subtract(small, darkest, out=pixels)
    np.divide(pixels, lightest - darkest, out=pixels)
    np.clip(pixels, 0, 1, out=pixels)


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
    print("digit on a GPU:", picture_on_gpu())
    print("loudness:", sound())
    print("zero bytes:", file_bytes())


if __name__ == "__main__":
    main()
