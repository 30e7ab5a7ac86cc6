"""Writing a model file as optimised by ONNX Runtime, otherwise unchanged, and comparing its results."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ._inputs import trial
from ._inputs.copies import require_same_results
from ._inputs.examples import NOTHING_STATED, ExampleShape, StatedSizes, example_inputs
from ._inputs.model import evaluate_all_outputs, evaluate_apart, input_sizes, load_model, to_json
from .core.base.agreement import FLOAT_TOLERANCE
from .core.base.atomic_files import require_another_file, require_folder, write_whole
from .core.base.messages import Facts
from .core.contracts.published.folder import find_model
from .core.imaging.contract import ImageContract
from .core.onnx_file.nodes import messages
from .core.runtime.custom.operator import ModelOperators, Operators
from .core.runtime.custom.split import put_back, take_out
from .core.runtime.ort.compile import save_optimized
from .errors import ConversionError, InvalidArgumentError, NotSupportedError

if TYPE_CHECKING:
    import onnx

__all__ = ["OptimizationReport", "optimize"]

LEVELS = ("none", "basic", "extended", "all")
_MAX_BYTES = (1 << 31) - 1  # protobuf's own limit


@dataclass(frozen=True)
class OptimizationReport:
    """The changes of the optimisers to a model.

    Attributes:
        nodes: their number before and after.
        size: bytes of the file, before and after.
        moved: initializers that were also inputs, and no longer are.
        error: the largest difference of an output, over the largest magnitude of its channel.
        sizes: the shapes of the inputs of the check, by name.
    """

    nodes: tuple[int, int]
    size: tuple[int, int]
    moved: tuple[str, ...]
    error: float
    sizes: dict[str, ExampleShape] = field(default_factory=dict)

    def to_json(self) -> Facts:
        """The figures."""
        return asdict(self) | {"sizes": to_json(self.sizes)}

    def __str__(self) -> str:
        moved = f", {len(self.moved)} initializers no longer inputs" if self.moved else ""
        return (
            f"{self.nodes[0]} nodes became {self.nodes[1]}{moved}; {self.size[0]:,} bytes became {self.size[1]:,}; "
            f"results differ by {self.error:.1e}"
        )


def optimize(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    level: str = "extended",
    inputs: Mapping[str, object] | None = None,
    tolerance: float = FLOAT_TOLERANCE,
    contract: ImageContract | None = None,
    operators: Operators = (),
    sizes: StatedSizes = NOTHING_STATED,
    force: bool = False,
) -> OptimizationReport:
    """Writes a model as optimised by ONNX Runtime; if results differ, nothing is written.

    Names, metadata, the image contract, shapes, denotations, and nodes of the program's own operators stay.
    Initializers that are listed as inputs are removed from the inputs, so that they can be folded.

    Args:
        model: the path of an .onnx file.
        out: the path of the new file.
        level: "none"; "basic", for any ONNX runtime; "extended", which fuses nodes into ONNX Runtime's own
            operators; "all", which arranges weights for this processor only.
        inputs: values to compare with, by name; missing floats and pictures get example values.
        tolerance: the largest difference in an output, over the largest magnitude of its channel.
        contract: the contract of the inputs that it fits, for example values; None for the model's own.
        operators: the program's own operators, as in `LearningModel.load`.
        sizes: stated values for sizes that the model leaves free, for example values.
        force: whether the new model may replace the old one.

    Raises:
        ConversionError: the results differ by more than the tolerance, or the runtime ends the process that tries it.
        InvalidArgumentError: an unknown level, or an input without example values.
        NotSupportedError: the new model would be larger than 2 GB.
        WinMLError: the model cannot be used, or the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> from winml_py.optimize import optimize
        >>> report = optimize("models/digits.onnx", os.path.join(tempfile.mkdtemp(), "small.onnx"))
        >>> report.nodes[0] > report.nodes[1], report.error < 1e-5
        (True, True)
    """
    import onnx

    if level not in LEVELS:
        raise InvalidArgumentError(f"Unknown level {level!r}.", hint=f"Use one of {', '.join(LEVELS)}.")
    require_folder(out)
    if not force:
        require_another_file(out, find_model(model))
    model_operators = ModelOperators.of(operators)
    loaded = load_model(model, contract, model_operators.given)
    model = find_model(model)
    features = sizes.applied(loaded.input_features)
    values, _ = example_inputs(features, inputs or {})
    expected = evaluate_all_outputs(loaded, values)
    changed = onnx.load(os.fspath(model))
    moved = _initializers_out_of_inputs(changed)
    original = copy.deepcopy(changed)
    calls = take_out(changed, model_operators.functions)
    if changed.graph.output and level != "none":  # the model has more than functions
        with _process_end_as_error("optimises the model"):
            changed = trial.call(_optimize_graph, changed, level, model_operators.libraries)
    put_back(changed, calls, original)
    nodes = len(original.graph.node), len(changed.graph.node)
    _take_graph(original, changed)
    data = _serialize(original)
    with _process_end_as_error("compiles the optimised model"):
        actual = evaluate_apart(data, model_operators, values)
    what = "The optimised model does not give what the model gives"
    hint = "Try a lower level, or give realistic inputs: NAME=FILE."
    error = require_same_results(expected, actual, tolerance, what, hint)
    write_whole(out, data)
    size = loaded.size, len(data)
    return OptimizationReport(nodes, size, moved, error, input_sizes(features, inputs or {}))


@contextmanager
def _process_end_as_error(what: str) -> Iterator[None]:
    """Turns the end of the process that tries the block's model into one of our errors."""
    try:
        yield
    except trial.ProcessEndedError as ended:
        raise ConversionError(
            f"The runtime ends the process that {what} ({ended}); nothing was written.",
            hint="Try a lower level, or another version of onnxruntime.",
        ) from ended


def _optimize_graph(model: onnx.ModelProto, level: str, libraries: Sequence[str]) -> onnx.ModelProto:
    import onnx

    with tempfile.TemporaryDirectory(prefix="winml-py-") as folder:
        path = os.path.join(folder, "optimized.onnx")
        save_optimized(_serialize(model), path, level, libraries)
        return onnx.load(path)


def _initializers_out_of_inputs(model: onnx.ModelProto) -> tuple[str, ...]:
    names = {weight.name for weight in model.graph.initializer}
    listed = [info for info in model.graph.input if info.name in names]
    for info in listed:
        model.graph.input.remove(info)
    if listed:
        model.ir_version = max(model.ir_version, 4)  # the first in which initializers need not be inputs
    return tuple(info.name for info in listed)


def _take_graph(model: onnx.ModelProto, changed: onnx.ModelProto) -> None:
    """Gives a model another's nodes and weights; everything else stays as it is."""
    import onnx

    used = {"", *(item.domain for item in model.opset_import)}
    used |= {node.domain for node in messages(changed) if isinstance(node, onnx.NodeProto)}
    imports = [item for item in changed.opset_import if item.domain in used]
    model.ir_version = changed.ir_version
    del model.opset_import[:], model.functions[:]
    model.opset_import.extend(imports)
    model.functions.extend(changed.functions)
    for name in ("node", "initializer", "sparse_initializer", "value_info", "quantization_annotation"):
        model.graph.ClearField(name)
        getattr(model.graph, name).extend(getattr(changed.graph, name))


def _serialize(model: onnx.ModelProto) -> bytes:
    if model.ByteSize() > _MAX_BYTES:
        raise NotSupportedError(
            "The model is larger than 2 GB, the limit of one file.",
            hint="Large models are optimised when a session is made: options.weights = Weights.SHARED.",
        )
    data: bytes = model.SerializeToString()
    return data
