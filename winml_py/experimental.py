"""Windows ML's experimental API: models built from operators, and joined models. The classes are in `_graphs`."""

from ._graphs.builder import LearningModelBuilder, LearningModelInputs, LearningModelOperatorSet, LearningModelOutputs
from ._graphs.join import LearningModelJoinOptions
from ._graphs.learning_model import (
    LearningModelDeviceExperimental,
    LearningModelExperimental,
    LearningModelSessionExperimental,
    LearningModelSessionOptionsExperimental,
)
from ._graphs.node import LearningModelOperator

__all__ = [
    "LearningModelBuilder",
    "LearningModelDeviceExperimental",
    "LearningModelExperimental",
    "LearningModelInputs",
    "LearningModelJoinOptions",
    "LearningModelOperator",
    "LearningModelOperatorSet",
    "LearningModelOutputs",
    "LearningModelSessionExperimental",
    "LearningModelSessionOptionsExperimental",
]
