"""Filters sound block by block, with a model that remembers the end of the previous block.

        python samples/audio_stream.py                   filters two generated tones: 440 Hz and 6000 Hz
    python samples/audio_stream.py IN.wav OUT.wav    filters the first channel of a 16-bit recording

The model is a low-pass filter. It takes a block and a state, and returns the filtered block and the next state. Both
states are bound to one array. Each run reads the state and then overwrites it with the next one. The program binds the
blocks only once and never copies them.
"""

import sys
import wave
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from winml_py import LearningModel, LearningModelBinding, LearningModelSession

RATE, BLOCK, TAPS = 16_000, 512, 101
CUTOFF = 1_000 / RATE


def low_pass() -> np.ndarray:
    """The filter's coefficients: a sinc that a Hamming window fades out."""
    position = np.arange(TAPS) - TAPS // 2
    taps = 2 * CUTOFF * np.sinc(2 * CUTOFF * position) * np.hamming(TAPS)
    return (taps / taps.sum()).astype(np.float32)


def model() -> bytes:
    """The filter as a model. It puts the state before the block, and keeps the end of both for the next block."""

    def tensor(name: str, length: int) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, length])

    nodes = [
        helper.make_node("Concat", ["state", "block"], ["sound"], axis=2),
        helper.make_node("Conv", ["sound", "taps"], ["filtered"]),
        helper.make_node("Slice", ["sound", "start", "end", "axis"], ["next_state"]),
    ]
    weights = [
        numpy_helper.from_array(low_pass().reshape(1, 1, -1), "taps"),
        *(
            numpy_helper.from_array(np.array([n]), name)
            for name, n in (("start", BLOCK), ("end", 1 << 30), ("axis", 2))
        ),
    ]
    inputs = [tensor("block", BLOCK), tensor("state", TAPS - 1)]
    outputs = [tensor("filtered", BLOCK), tensor("next_state", TAPS - 1)]
    graph = helper.make_graph(nodes, "low pass", inputs, outputs, weights)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def filtered(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    session = LearningModelSession(LearningModel.load(model()))
    binding = LearningModelBinding(session)
    block, sound = np.zeros((1, 1, BLOCK), np.float32), np.zeros((1, 1, BLOCK), np.float32)
    state = np.zeros((1, 1, TAPS - 1), np.float32)  # silence, before the first block
    for name, array in (("block", block), ("state", state), ("filtered", sound), ("next_state", state)):
        binding.bind(name, array)
    for samples in blocks:
        block[0, 0] = samples
        session.evaluate(binding)
        yield sound[0, 0].copy()


def tones() -> Iterator[np.ndarray]:
    """Two seconds of two tones."""
    time = np.arange(2 * RATE // BLOCK * BLOCK) / RATE
    both = np.sin(2 * np.pi * 440 * time) / 2 + np.sin(2 * np.pi * 6000 * time) / 2
    return iter(both.astype(np.float32).reshape(-1, BLOCK))


def recorded(path: str) -> Iterator[np.ndarray]:
    """The blocks of a recording. The last one is padded with silence."""
    with wave.open(path) as file:
        while data := file.readframes(BLOCK):
            samples = np.frombuffer(data, np.int16)[:: file.getnchannels()] / np.float32(1 << 15)
            yield np.pad(samples, (0, BLOCK - len(samples)))


def loudness(sound: np.ndarray, frequency: int) -> float:
    """How much of a frequency there is."""
    wave_at = np.exp(-2j * np.pi * frequency * np.arange(len(sound)) / RATE)
    return float(2 * abs(np.mean(sound * wave_at)))


def main() -> None:
    if len(sys.argv) == 3:
        with wave.open(sys.argv[2], "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
            for block in filtered(recorded(sys.argv[1])):
                file.writeframes(np.clip(np.rint(block * (1 << 15)), -(1 << 15), (1 << 15) - 1).astype(np.int16))
        return
    before = np.concatenate(list(tones()))
    after = np.concatenate(list(filtered(tones())))
    for frequency in (440, 6000):
        print(f"{frequency} Hz: {loudness(before, frequency):.3f}, filtered {loudness(after, frequency):.3f}")


if __name__ == "__main__":
    main()
