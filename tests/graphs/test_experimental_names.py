"""Windows ML's experimental API: every name of its interface definition, spelled as pywinrt spells names."""

from __future__ import annotations

import re

from helpers.paths import ROOT
from winml_py import experimental

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


def test_every_class_and_member_exists() -> None:
    assert sorted(experimental.__all__) == sorted(DEFINITION)
    assert len(DEFINITION) + len(MEMBERS) == 42
    for name, member in MEMBERS:
        assert getattr(experimental, name).__name__ == name
        assert hasattr(getattr(experimental, name), in_python(member))


def test_the_reference_has_every_class() -> None:
    page = (ROOT / "docs" / "api" / "experimental.md").read_text()
    documented = re.findall(r"^\.\. autoclass:: winml_py\.experimental\.(\w+)$", page, re.MULTILINE)
    assert sorted(documented) == sorted(DEFINITION)
