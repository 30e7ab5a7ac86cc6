"""Builds the mel spectrogram of a sound as a model, and joins it to the front of a model that takes one.

python samples/mel_spectrogram.py OUT.onnx

The spectrogram is that of the Windows ML sample AudioPreprocessing. It cuts the signal into windows, computes their
spectra, and adds up the power in each band of the mel scale. The joined model takes the samples of a sound of any
length, so programs that use it do not need to know about windows and bands. It runs in any ONNX runtime.
"""

import sys

import numpy as np

from winml_py import LearningModel, LearningModelSession, TensorKind
from winml_py.experimental import (
    LearningModelBuilder,
    LearningModelExperimental,
    LearningModelJoinOptions,
    LearningModelOperator,
)

RATE = 16_000
"""Samples of the sound in a second."""

WINDOW, HOP, BANDS = 512, 256, 40

describe = LearningModelBuilder.create_tensor_feature_descriptor


def spectrogram() -> LearningModel:
    """A model from samples (1 x any number) to the logarithm of the power in each band (1 x windows x bands)."""
    operators = [
        LearningModelOperator("HannWindow").set_constant("size", WINDOW).set_output("output", "window"),
        LearningModelOperator("STFT")
        .set_input("signal", "samples")
        .set_constant("frame_step", HOP)
        .set_input("window", "window")
        .set_constant("frame_length", WINDOW)
        .set_output("output", "spectra"),
        LearningModelOperator("ReduceSumSquare")
        .set_input("data", "spectra")
        .set_attribute("axes", [3])
        .set_attribute("keepdims", 0)
        .set_output("reduced", "squares"),
        LearningModelOperator("Div")
        .set_input("A", "squares")
        .set_constant("B", float(WINDOW))
        .set_output("C", "power"),
        LearningModelOperator("MelWeightMatrix")
        .set_constant("num_mel_bins", BANDS)
        .set_constant("dft_length", WINDOW)
        .set_constant("sample_rate", RATE)
        .set_constant("lower_edge_hertz", 0.0)
        .set_constant("upper_edge_hertz", RATE / 2)
        .set_output("output", "weights"),
        LearningModelOperator("MatMul").set_input("A", "power").set_input("B", "weights").set_output("Y", "bands"),
        LearningModelOperator("Max").set_input("data_0", ["bands", "silence"]).set_output("max", "audible"),
        LearningModelOperator("Log").set_input("input", "audible").set_output("output", "spectrogram"),
    ]
    builder = (
        LearningModelBuilder.create(17)
        .inputs.add(describe("samples", "a mono sound, 16,000 samples a second", TensorKind.FLOAT, [1, "length"]))
        .inputs.add_constant("silence", 1e-6)
        .outputs.add(describe("spectrogram", TensorKind.FLOAT, [1, "windows", BANDS]))
    )
    for operator in operators:
        builder.operators.add(operator)
    return builder.create_model()


def loudest_band() -> LearningModel:
    """Stands for your own model. It takes a spectrogram and returns the loudest band of each window."""
    argmax = LearningModelOperator("ArgMax").set_input("data", "spectrogram").set_output("reduced", "band")
    return (
        LearningModelBuilder.create(17)
        .inputs.add(describe("spectrogram", TensorKind.FLOAT, [1, "time", BANDS]))
        .outputs.add(describe("band", TensorKind.INT64, [1, "time"]))
        .operators.add(argmax.set_attribute("axis", 2).set_attribute("keepdims", 0))
        .create_model()
    )


def tones() -> np.ndarray:
    """Three tones of one second each: 440, 880 and 1760 hertz."""
    time = np.arange(RATE) / RATE
    return np.concatenate([np.sin(2 * np.pi * hertz * time) for hertz in (440, 880, 1760)])[None].astype(np.float32)


def main() -> None:
    options = LearningModelJoinOptions()
    options.link("spectrogram", "spectrogram")
    model = LearningModelExperimental(spectrogram()).join_model(loudest_band(), options)
    LearningModelExperimental(model).save(sys.argv[1])

    session = LearningModelSession(LearningModel.load(sys.argv[1]))
    (output,) = session.evaluate_features({"samples": tones()}).outputs.values()
    bands = output.to_numpy()[0]
    print("windows:", len(bands))
    print("loudest bands:", *(int(np.median(third)) for third in np.array_split(bands, 3)))


if __name__ == "__main__":
    main()
