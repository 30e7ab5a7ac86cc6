"""Recording a GPU's work once and replaying it: what a model and its options must be for that.

The constraints are those of the runtime's guide to CUDA graphs; WebGPU's recording has the same. Two of them hold by
construction: inputs are copied to the address they had (`DeviceBinding`), and a session's lock keeps threads apart,
for engines that record are not shared. The others are checked here, when the model is compiled, or when a tensor of the
device is bound (`RecordedGraph`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ....errors import NotSupportedError, WinMLError
from ...onnx_file.source import Skeleton
from ..providers.provider import Provider
from ..request import CompileRequest

if TYPE_CHECKING:
    import onnx

CONSTRAINTS = {
    "no-control-flow": "the model has no If, Loop or Scan",
    "all-nodes-on-provider": "the provider takes every node",
    "tensors-only": "inputs and outputs are tensors of numbers",
    "fixed-shapes": "no size is free; override the free ones, or the batch, in the options",
    "fixed-addresses": "what is bound on the device stays where it was when the work was recorded",
    "inputs-copied": "new numbers are copied to the address of the old ones",
    "one-thread": "one thread at a time runs the session",
}
"""The seven, by the names that errors give them."""

_CONTROL_FLOW = ("If", "Loop", "Scan")


def is_demanded(request: CompileRequest, provider: Provider) -> bool:
    """Whether the options ask for it, by `graph_capture` or by the provider's own option."""
    own = dict(request.options.provider_options).get(provider.recording_option, "0")
    return bool(request.options.graph_capture) or own.lower() in ("1", "true")


def broken_constraint(request: CompileRequest, provider: Provider) -> str:
    """The name of a constraint that the model cannot meet, or ""."""
    if not provider.recording_option or not request.has_only_numbers:
        return "tensors-only"
    if not request.has_fixed_shapes:
        return "fixed-shapes"
    return "no-control-flow" if any(node.op_type in _CONTROL_FLOW for node in _graph(request).node) else ""


def unmet(name: str) -> NotSupportedError:
    """The error for a constraint that is not met."""
    return NotSupportedError(
        f"The work of this model cannot be recorded (constraint {name}): it must be that {CONSTRAINTS[name]}.",
        hint="Set options.graph_capture = None to record only where that is possible.",
    )


def is_refused(error: WinMLError) -> bool:
    """Whether the runtime will not record because the CPU would run some of the nodes."""
    return bool(
        re.search(r"have not been partitioned|CPU is not allowed to help|graph capture|cuda.?graph", str(error), re.I)
    )


def _graph(request: CompileRequest) -> onnx.GraphProto:
    import onnx

    model = request.model.model if isinstance(request.model, Skeleton) else request.model
    if isinstance(model, bytes):
        return onnx.load_model_from_string(model).graph
    return onnx.load(model, load_external_data=False).graph
