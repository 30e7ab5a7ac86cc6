"""The page that edits a model: its fields, and the file with what was changed in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._graphs.edit_features import Edits, edit_model
from ..core.base.messages import Facts
from ..core.contracts.labels import LABELS_KEY, read_written_labels
from ..errors import InvalidArgumentError, WinMLError
from .apart import call_apart

if TYPE_CHECKING:
    from onnx import ValueInfoProto

_SECONDS = 120.0
"""The time limit of an edit, including the evaluations that compare the files."""


def read_fields(path: str) -> Facts:
    """All that the page can change in a file."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    labels = list(read_written_labels(metadata))
    if labels:
        del metadata[LABELS_KEY]
    weights = {weight.name for weight in model.graph.initializer}
    return {
        "texts": {
            "name": model.graph.name,
            "description": model.doc_string,
            "domain": model.domain,
            "author": model.producer_name,
            "version": str(model.model_version),
        },
        "features": {
            "inputs": [_read_feature(info) for info in model.graph.input if info.name not in weights],
            "outputs": [_read_feature(info) for info in model.graph.output],
        },
        "metadata": metadata,
        "labels": labels,
    }


def _read_feature(info: ValueInfoProto) -> Facts:
    sizes = info.type.tensor_type.shape.dim
    return {
        "name": info.name,
        "denotation": info.type.denotation,
        "sizes": [str(size.dim_value) if size.HasField("dim_value") else size.dim_param or "?" for size in sizes],
        "dimensions": [size.denotation for size in sizes],
    }


def write_edited(source: str, destination: str, values: Mapping[str, Any]) -> None:
    """Writes an edited copy of a model, after comparing its results with the model's, in a separate process.

    Args:
        source: the model's path.
        destination: the copy's.
        values: the changes, with the names of `Edits`; numbers come as text, and "" is a size that stays.

    Raises:
        InvalidArgumentError: the changes have another form, or there are none.
        WinMLError: as for `edit_model`.
    """
    try:
        given = dict(values)
        given["shapes"] = {name: tuple(map(_read_size, sizes)) for name, sizes in given.get("shapes", {}).items()}
        if "version" in given:
            given["version"] = int(given["version"])
        if Edits(**given) == Edits():
            raise InvalidArgumentError("Nothing was changed.")
        call_apart(_SECONDS, edit_model, source, destination, Edits(**given))
    except WinMLError:
        raise
    except (AttributeError, TypeError, ValueError) as error:  # from wrong types, also within `edit_model`
        raise InvalidArgumentError(f"The changes cannot be made: {error}.", hint="Reload the page.") from error


def _read_size(text: str) -> int:
    size = int(text or -1)
    if text and size < 1:
        raise ValueError(f"{text} is not a size")
    return size
