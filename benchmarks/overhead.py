"""What `evaluate` costs on top of raw ONNX Runtime, on the 28x28 digit model.

    python benchmarks/overhead.py [--json FILE]

Results are checked for equality first. Then all ways take turns in this process, on one compiled model. The bar:
`evaluate` with bound inputs and outputs takes at most 1.05x of raw `InferenceSession.run`.
"""

from pathlib import Path

import numpy as np
import onnxruntime
from _measure import arguments, interleaved, medians, report

from winml_py import LearningModel, LearningModelBinding, LearningModelSession, TensorFloat
from winml_py.session.compiled import compiled_of

MODEL = Path(__file__).parent.parent / "models" / "digits.onnx"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()

    session = LearningModelSession(LearningModel.load(MODEL))
    # The very session our engine runs on: two would have two thread pools that disturb each other.
    raw: onnxruntime.InferenceSession = compiled_of(session).engine._session

    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    binding = LearningModelBinding(session)
    binding.bind("image", image)
    output = TensorFloat.from_numpy(np.zeros((1, 10), np.float32))
    binding.bind("probabilities", output)
    unbound = LearningModelBinding(session)
    unbound.bind("image", image)
    raw_binding = raw.io_binding()
    raw_output = np.zeros((1, 10), np.float32)
    raw_binding.bind_input("image", "cpu", 0, image.dtype, image.shape, image.ctypes.data)
    raw_binding.bind_output("probabilities", "cpu", 0, np.float32, raw_output.shape, raw_output.ctypes.data)

    calls = {
        "raw run": lambda: raw.run(None, {"image": image}),
        "raw run_with_iobinding": lambda: raw.run_with_iobinding(raw_binding),
        "evaluate, all bound": lambda: session.evaluate(binding),
        "evaluate, output unbound": lambda: session.evaluate(unbound).outputs["probabilities"],
        "evaluate_features": lambda: session.evaluate_features({"image": image}).outputs["probabilities"],
    }
    expected = raw.run(None, {"image": image})[0]
    for call in calls.values():
        call()
    results = [raw_output, output.to_numpy(), session.evaluate(unbound).outputs["probabilities"].to_numpy()]
    for result in results:
        np.testing.assert_array_equal(result, expected)

    interleaved(calls, 20, 50)
    middle = medians(interleaved(calls, options.rounds, 50))
    rows = [
        {"way": name, "microseconds": seconds * 1e6, "x raw run": seconds / middle["raw run"]}
        for name, seconds in middle.items()
    ]
    report("overhead", rows, options.json)


if __name__ == "__main__":
    main()
