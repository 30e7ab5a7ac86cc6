"""Does an engine that `tune` may choose give ONNX Runtime's results on ONNX's conformance suite?

    pip install openvino
    python tests/tools/exact_operators.py

Every case that `find_inexact_reason` lets through is computed by OpenVINO's own package, by the engine that sessions
have, and compared with ONNX Runtime within the suite's tolerance. Cases that are held back are computed too, to see how
many of them would have been wrong. Each runs in a process that may die.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from tools.conformance import Case, cases
from winml_py.core.base import child_process
from winml_py.core.onnx_file.header import read_header
from winml_py.core.onnx_file.nodes import read_graph
from winml_py.core.runtime.engine import EngineOptions
from winml_py.core.runtime.openvino.compile import compile_with_openvino
from winml_py.core.runtime.providers.openvino import OPENVINO_PACKAGE
from winml_py.core.runtime.providers.provider import ProviderDevice, Target
from winml_py.core.runtime.request import CompileRequest
from winml_py.core.runtime.runs import Bound
from winml_py.perf.exact import find_inexact_reason

CPU = Target(ProviderDevice(OPENVINO_PACKAGE.name, OPENVINO_PACKAGE.package, "", 0, "cpu", "", ""))


def allowed(model: bytes) -> bool:
    """Whether `tune` would try OpenVINO on it."""
    return not find_inexact_reason(read_graph(model, read_header(model)), OPENVINO_PACKAGE.exact_operators)


def compared(case: Case) -> str:
    """ "right", "wrong: why", or "refused" where one of the two does not take the model."""
    inputs = case.data[0][0] if case.data else {}
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in inputs.values()):
        return "refused"
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        raw = onnxruntime.InferenceSession(case.model, options)
        expected = {end.name: value for end, value in zip(raw.get_outputs(), raw.run(None, inputs), strict=True)}
        came = compile_with_openvino(CompileRequest(case.model, EngineOptions(1)), CPU).run(Bound(inputs))
    except Exception as error:  # whatever either of them raises
        return "refused" if error else ""
    for name, value in expected.items():
        try:
            np.testing.assert_allclose(came[name], value, rtol=case.rtol, atol=case.atol, strict=True)
        except AssertionError as error:
            return f"wrong: {' '.join(str(error).split())[:100]}"
    return "right"


def compare_all(chosen: Iterable[Case]) -> list[tuple[str, bool, str]]:
    """Name, whether `tune` would try it, and how it compares, of each case."""
    from tools.exact_operators import compared  # by a name that another process knows, too

    found = []
    for case in chosen:
        try:
            result = child_process.call_in_child(compared, case)
        except child_process.ProcessEndedError as error:
            result = f"the process ended: {error}"
        found.append((case.name, allowed(case.model), result))
    return found


def main() -> int:
    found = compare_all(cases())
    counts = Counter((is_allowed, result.partition(":")[0]) for _, is_allowed, result in found)
    for is_allowed, words in ((True, "may be taken"), (False, "held back")):
        rows = {result: count for (allowed, result), count in sorted(counts.items()) if allowed is is_allowed}
        print(f"{words}: {', '.join(f'{count} {result}' for result, count in rows.items())}")
    bad = [row for row in found if row[1] and row[2] not in ("right", "refused")]
    for name, _, result in bad:
        print(f"  {name}: {result}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
