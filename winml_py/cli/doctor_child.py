"""What `doctor` runs in another process: a small model, or one that is named, on a device."""

from __future__ import annotations

import time
import timeit

import numpy as np

from ..authoring.check_samples import check_session
from ..authoring.evidence import KEY, check_contract
from ..authoring.known_answers import read_answers
from ..authoring.write_samples import take_answers
from ..core.base.agreement import FLOAT_TOLERANCE, relative_error
from ..core.base.messages import Facts
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..errors import NotSupportedError, WinMLError
from .samples import check_facts


def main(number: str, *others: str) -> Facts:
    """Tries the device with that number in `find_all`; with a model, its samples by an engine."""
    device = LearningModelDevice.find_all()[int(number)]
    facts: Facts = {"device": device.name, "provider": device.provider, "hardware": device.hardware}
    try:
        facts |= _check(device, *others) if others else _run(device)
    except NotSupportedError as error:
        facts["unsupported" if others else "problem"] = error.message
    except WinMLError as error:
        facts["problem"] = str(error)
    return facts


def _run(device: LearningModelDevice) -> Facts:
    model = LearningModel.load(small_model())
    picture = np.random.default_rng(0).random((1, 3, 32, 32), np.float32)
    started = time.perf_counter()
    session = LearningModelSession(model, device)
    binding = LearningModelBinding(session)
    binding.bind("x", picture)
    outputs = session.evaluate(binding).outputs["y"].to_numpy()
    first = time.perf_counter() - started
    expected = LearningModelSession(model).evaluate_features({"x": picture}).outputs["y"].to_numpy()
    count, seconds = timeit.Timer(lambda: session.evaluate(binding)).autorange()
    error = relative_error(expected, outputs)
    facts = {"first_ms": first * 1e3, "evaluation_ms": seconds / count * 1e3, "error": error}
    return facts | ({} if error <= FLOAT_TOLERANCE else {"problem": "its results differ from the CPU's"})


def _check(device: LearningModelDevice, path: str, engine: str = "") -> Facts:
    """Evaluates the samples of a model; where it has none, what it gives for made-up inputs on the CPU is right.

    A contract that was learned is proven there, too.
    """
    model = LearningModel.load(path)
    answers = read_answers(model.metadata) or take_answers(model, [{}])
    options = LearningModelSessionOptions()
    options.engine, options.batch_size_override = engine or None, 0
    with LearningModelSession(model, device, options) as session:
        facts: Facts = {"check": check_facts(check_session(session, answers))}
    if KEY in model.metadata:
        facts["contract"] = check_contract(model, device).problems
    return facts


def small_model() -> bytes:
    """A convolution, a rectifier and a mean, with random weights that are always the same."""
    from onnx import numpy_helper, parser

    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        trial (float[1, 3, 32, 32] x) => (float[1, 8, 1, 1] y) {
            convolved = Conv <pads = [1, 1, 1, 1]> (x, weight)
            rectified = Relu (convolved)
            y = GlobalAveragePool (rectified)
        }
    """)
    weight = np.random.default_rng(1).normal(0, 0.2, (8, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "weight"))
    data: bytes = model.SerializeToString()
    return data
