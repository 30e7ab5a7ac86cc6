"""Windows ML's experimental API: models built of operators, and models joined. The names stand in `graphs`."""

from .graphs.builder import LearningModelBuilder, LearningModelInputs, LearningModelOperatorSet, LearningModelOutputs
from .graphs.join_options import LearningModelJoinOptions
from .graphs.learning_model import LearningModelExperimental
from .graphs.operator import LearningModelOperator
from .graphs.sessions import (
    LearningModelDeviceExperimental,
    LearningModelSessionExperimental,
    LearningModelSessionOptionsExperimental,
)

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
