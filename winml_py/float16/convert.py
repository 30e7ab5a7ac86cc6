"""From float32 to float16: convert, check, keep in float32 the nodes that lose too much, check again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec

from .._examples import NOTHING_STATED, StatedSizes, complete_inputs, find_input_sizes, tell_assumed_sizes
from .._values import load_model
from ..core.base.messages import Progress
from ..core.contracts.files import require_destination
from ..core.imaging.contract import ImageContract
from ..core.runtime.custom.operator import ModelOperators, Operators
from ..errors import ConversionError, InvalidArgumentError, MissingPackageError
from .report import ConversionReport


def convert(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    keep_io_types: bool = False,
    inputs: Mapping[str, object] | None = None,
    tolerance: float = 1e-2,
    keep_float32: Iterable[str] = (),
    progress: Progress = lambda done, what: None,
    contract: ImageContract | None = None,
    operators: Operators = (),
    sizes: StatedSizes = NOTHING_STATED,
    force: bool = False,
) -> ConversionReport:
    """Converts a float32 model to float16, and checks that its results stay the same.

    Both models are evaluated on the same inputs. Nodes whose values exceed float16's range, and nodes that lose too
    much precision, stay in float32; comparing every value inside the two models finds them, and the report names
    them. Metadata, contracts and denotations are kept. The file appears complete or not at all.

    Args:
        source: the path to a float32 model; its weights may be in files next to it.
        destination: the path to write to; above 2 GB, the weights go to a file next to it.
        keep_io_types: leave the model's own inputs and outputs in float32.
        inputs: values to check with, by name; arrays of the float32 model's types. Missing floats get example values;
            ids, strings and booleans are required.
        tolerance: the largest difference in an output, over the largest magnitude of its channel.
        keep_float32: names of nodes, or operators, to leave in float32.
        progress: called now and then with the finished share, always None here, and the current step.
        contract: the contract of the inputs that it fits, for example values; None for the model's own.
        operators: the program's own operators, as in `LearningModel.load`. Their nodes stay in float32.
        sizes: stated values for sizes that the model leaves free, for example values.
        force: whether the new model may replace the old one, or another file of it.

    Returns:
        The nodes that stayed in float32, and how accurate the new model is.

    Raises:
        MissingPackageError: onnx-ir is not installed; `winml-py[float16]` installs it.
        ConversionError: no conversion was accurate enough, or an output is empty or NaN everywhere, so that nothing
            can be compared; the error has the last `report`, if any.
        InvalidArgumentError: an input without example values, a name in `keep_float32` that no node has, a tolerance
            that is not between 0 and 1, a model that is already float16, or the model itself as destination.
        StorageNotFoundError: the folder does not exist.
        StorageAccessError: the file cannot be written.
        ModelNotFoundError: the model does not exist.
        CorruptModelError: it is not a model, or an invalid one.

    Example:
        >>> import os, tempfile
        >>> from winml_py.float16 import convert
        >>> report = convert("models/edges.onnx", os.path.join(tempfile.mkdtemp(), "edges.onnx"))
        >>> report.is_good, report.kept["overflow"]  # squares of differences of levels
        (True, ['Mul_3', 'Mul_4', 'Add_5', 'Sqrt_6'])
    """
    if find_spec("onnx_ir") is None:
        raise MissingPackageError(
            "The float16 converter requires onnx-ir, which is not installed.",
            hint="Run pip install 'winml-py[float16]'.",
        )
    from .._graphs.model_file import save_model  # what these three import takes a second
    from .model_file import read_model, to_proto
    from .search import Search

    model_operators = ModelOperators.from_list(operators)
    loaded = load_model(source, contract, model_operators.given)
    if loaded.precision == "float16":
        raise InvalidArgumentError(f"{os.fspath(source)}: This is already a float16 model.", hint="Use it unchanged.")
    if not 0 < tolerance < 1:
        raise InvalidArgumentError(f"Expected a tolerance between 0 and 1 (--tolerance), got {tolerance}.")
    require_destination(destination, force, source)
    names_to_keep = {keep_float32} if isinstance(keep_float32, str) else set(keep_float32)
    progress(None, "reading")
    model = read_model(source, model_operators)
    search = Search(model, model_operators, names_to_keep, keep_io_types, tolerance, progress)
    features = sizes.apply(loaded.input_features)
    values, seeded = complete_inputs(features, inputs or {})
    with tell_assumed_sizes(features, inputs or {}):
        search.evaluate_float32(values)
    converted, report = search.find_model(seeded)
    report = replace(report, sizes=find_input_sizes(features, inputs or {}))
    is_still_float32 = keep_io_types and len(report.kept_nodes) == report.nodes
    if not report.is_good or is_still_float32:
        raise ConversionError(
            "The float16 model is not accurate enough: " + "; ".join(str(report).splitlines()[1:]) + ".",
            hint="Allow a larger tolerance (--tolerance), or keep more nodes in float32 with keep_io_types "
            "(--keep-io-types) or keep_float32 (--keep-float32 NODE).",
            report=report,
        )
    progress(None, "writing")
    save_model(to_proto(converted), destination)
    return report
