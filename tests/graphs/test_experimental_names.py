"""Windows ML's experimental API: every name of its interface definition, spelled as pywinrt spells names."""

from __future__ import annotations

import re

import pytest

from helpers.paths import ROOT
from winml_py import experimental
from winml_py.winrt.microsoft.ai import machinelearning as microsoft
from winml_py.winrt.microsoft.ai.machinelearning import experimental as winrt
from winml_py.winrt.windows.ai import machinelearning as windows

DEFINITION = {
    "LearningModelBuilder": "Inputs Outputs Operators Create CreateTensorFeatureDescriptor CreateModel Save",
    "LearningModelDeviceExperimental": "CreateDMLDevice CreateOpenVinoDevice CreateTensorRTDevice CreateCUDADevice",
    "LearningModelExperimental": "JoinModel Save SetName",
    "LearningModelInputs": "Add AddConstant",
    "LearningModelJoinOptions": "PromoteUnlinkedOutputsToFusedOutputs JoinedNodePrefix CloseModelOnJoin Link",
    "LearningModelOperator": "SetName SetInput SetConstant SetOutput SetAttribute Name Type Domain",
    "LearningModelOperatorSet": "Add",
    "LearningModelOutputs": "Add",
    "LearningModelSessionExperimental": "Options",
    "LearningModelSessionOptionsExperimental": "GetNamedDimensionOverrides",
}
MEMBERS = [(name, member) for name, members in DEFINITION.items() for member in members.split()]


def in_python(name: str) -> str:
    """`CreateDMLDevice` as `create_dml_device`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@pytest.mark.parametrize("module", [experimental, winrt])
def test_every_class_and_member_exists(module: object) -> None:
    assert sorted(experimental.__all__) == sorted(DEFINITION)
    assert len(DEFINITION) + len(MEMBERS) == 42
    for name, member in MEMBERS:
        assert getattr(module, name).__name__ == name
        assert hasattr(getattr(module, name), in_python(member))
    assert experimental.LearningModelExperimental.join_models is experimental.LearningModelExperimental.join_model


def test_the_reference_has_every_class() -> None:
    page = (ROOT / "docs" / "api" / "experimental.md").read_text()
    documented = re.findall(r"^\.\. autoclass:: winml_py\.experimental\.(\w+)$", page, re.MULTILINE)
    assert sorted(documented) == sorted(DEFINITION)


def test_models_of_the_winrt_builder_are_silent() -> None:
    builder = winrt.LearningModelBuilder.create(17)
    builder.outputs.add(builder.create_tensor_feature_descriptor("y", microsoft.TensorKind.INT64, []))
    identity = winrt.LearningModelOperator("Identity").set_constant("input", 1).set_output("output", "y")
    assert type(builder.operators.add(identity).create_model()) is windows.LearningModel


def test_the_two_namespaces_of_windows_ml_have_the_same_names() -> None:
    others = {"FeatureDescriptor", "InvalidArgumentError", "ModelOperators", "Object", "Operators", "Tensor"}
    others |= {"Any", "AsyncOperation", "BinaryIO", "Self"}
    names = {name for name in vars(windows) if name[0].isupper()} - others
    assert {name: getattr(microsoft, name) for name in names} == {name: getattr(windows, name) for name in names}
