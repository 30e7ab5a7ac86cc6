"""Compares `evaluate_many` on JPEG files with one thread and with a handwritten thread pool.

    python benchmarks/many.py [--json FILE]

It goes from 1080p files to the classes of a squeezenet, on all cores that this process may use. The classes are
compared first. Then all ways take turns in this process, with sessions of one intra-op thread. Targets, on two cores:
1.8 times one thread, and 1.4 times a pool over Pillow, numpy and raw ONNX Runtime.
"""

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
import onnxruntime
from _measure import arguments, at_least, interleaved, medians, report
from _models import light
from end_to_end import CONTRACT, photograph, usual

from winml_py import ImageFeatureValue, LearningModel, LearningModelBinding, LearningModelSession
from winml_py import LearningModelSessionOptions as Options
from winml_py.authoring import write_contract
from winml_py.core.base.machine import count_usable_cores


def ways(path: str, files: list[Path]) -> dict[str, Callable[[], list[int]]]:
    options = Options()
    options.intra_op_num_threads, options.batch_size_override = 1, 0
    session = LearningModelSession(LearningModel.load(path), None, options)
    name, output = session.model.input_features[0].name, session.model.output_features[0].name
    native = onnxruntime.SessionOptions()
    native.intra_op_num_threads = 1
    raw = onnxruntime.InferenceSession(path, native, providers=["CPUExecutionProvider"])
    pool = ThreadPoolExecutor(count_usable_cores())
    binding = LearningModelBinding(session)

    def one(file: Path) -> int:
        binding.bind(name, ImageFeatureValue.load(file))
        return int(session.evaluate(binding).outputs[output].to_numpy().argmax())

    def by_hand(file: Path) -> int:
        return int(raw.run(None, {name: usual(file.read_bytes())})[0].argmax())

    def many() -> list[int]:
        return [int(result.outputs[output].to_numpy().argmax()) for result in session.evaluate_many(files)]

    return {
        "one thread": lambda: [one(file) for file in files],
        "handwritten pool": lambda: list(pool.map(by_hand, files)),
        "evaluate_many": many,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain, path = os.path.join(folder, "plain.onnx"), os.path.join(folder, "model.onnx")
        onnx.save(light("squeezenet"), plain)
        write_contract(plain, path, CONTRACT)
        data = photograph()
        files = [Path(folder, f"{number}.jpg") for number in range(options.files)]
        for file in files:
            file.write_bytes(data)
        calls = ways(path, files)
        classes = [call() for call in calls.values()]
        assert all(found == classes[0] for found in classes), classes
        interleaved(calls, 1, 1)
        middle = medians(interleaved(calls, options.rounds, 1))
    rows = [
        {
            "way": way,
            "files/s": options.files / seconds,
            "one thread / this": middle["one thread"] / seconds,
            "handwritten pool / this": middle["handwritten pool"] / seconds,
        }
        for way, seconds in middle.items()
    ]
    limits = {"one thread / this": 1.8, "handwritten pool / this": 1.4}
    report({"many": rows}, options.json, [at_least(name, rows[-1][name], limit) for name, limit in limits.items()])


if __name__ == "__main__":
    main()
