"""The node that is named where two evaluations depart. `tests/tools/find_planted_faults.py` tries it on many models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from helpers.paths import MODELS, PICTURES
from tools import find_planted_faults as tool
from winml_py import BitmapPixelFormat, ImageContract, ImageFeatureValue, LearningModel
from winml_py.compare.first_departure import Departure, find_departure


def departure(folder: Path, planted: tool.Planted, values: tool.Values) -> Departure | None:
    paths = [str(folder / name) for name in ("first.onnx", "second.onnx")]
    for path, model in zip(paths, planted[:2], strict=True):
        onnx.save(model, path)
    return find_departure(*map(LearningModel.load, paths), values)


@pytest.mark.one_python
@pytest.mark.parametrize("fault", tool.FAULTS)
@pytest.mark.parametrize("maker", [tool.make_attention, tool.make_branching, tool.make_convolutional])
def test_the_node_with_a_fault_is_named_and_without_one_none(tmp_path: Path, maker, fault) -> None:
    """Also inside an `If` and a `Loop`."""
    for seed in range(20):
        model, values = maker(np.random.default_rng(seed))
        planted = fault(model, values, np.random.default_rng(seed))
        if planted is not None and tool.has_effect(planted, values):
            break
    found = departure(tmp_path, planted, values)
    (named,) = [node for node in planted.first.graph.node if planted.output in node.output]
    assert found is not None
    assert found.first == {named.name or planted.output: named.op_type}
    if fault is tool.overflow_float16:
        assert (found.difference, len(found.second)) == (np.inf, 4)
    assert departure(tmp_path, tool.Planted(model, planted.first, ""), values) is None


@pytest.mark.usefixtures("openvino")
@pytest.mark.parametrize("kind", tool.PAIRS)
def test_rounding_is_not_blamed(tmp_path: Path, kind: str) -> None:
    model, values = tool.make_attention(np.random.default_rng(3))
    onnx.save(model, tmp_path / "model.onnx")
    assert find_departure(*tool.make_pair(kind, str(tmp_path / "model.onnx")), values) is None


def test_nan_is_named_where_it_begins(tmp_path: Path) -> None:
    models = []
    for exponent in (2, 2.5):  # of negative numbers
        draft = tool.Draft(np.random.default_rng(0))
        power = draft.add("Pow", draft.add("Mul", "x", np.float32(3)), np.float32(exponent))
        model, values = draft.model(draft.add("Tanh", draft.add("Softmax", power)), [3, 4])
        models.append(model)
    values["x"][:] = np.abs(values["x"])
    values["x"][1, 2] = -1
    found = departure(tmp_path, tool.Planted(*models, ""), values)
    assert found is not None
    assert (found.difference, found.first) == (np.inf, {f"node/{power}": "Pow"})
    assert found.first == found.second


def test_names_of_inputs_are_found_in_another_case() -> None:
    digits = LearningModel.load(MODELS / "digits.onnx")
    values = {"IMAGE": np.zeros((1, 1, 28, 28), np.float32)}
    assert find_departure(digits, digits, values) is None


def test_pictures_that_become_other_tensors_are_named_first() -> None:
    digits, other = (LearningModel.load(MODELS / "digits.onnx") for _ in range(2))
    picture = {"image": ImageFeatureValue.load(PICTURES / "seven.png")}
    other.contracts["image"] = ImageContract(BitmapPixelFormat.GRAY8)
    found = find_departure(digits, other, picture)
    assert found is not None
    assert str(found).startswith("The input 'image': the same inputs yield a difference of")
