"""Windows ML's experimental API: models built of operators, and models joined. The names stand in `graphs`."""

from .graphs.builder import LearningModelBuilder, LearningModelInputs, LearningModelOperatorSet, LearningModelOutputs
from .graphs.join import LearningModelJoinOptions
from .graphs.learning_model import (
    LearningModelDeviceExperimental,
    LearningModelExperimental,
    LearningModelSessionExperimental,
    LearningModelSessionOptionsExperimental,
)
from .graphs.node import LearningModelOperator

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
