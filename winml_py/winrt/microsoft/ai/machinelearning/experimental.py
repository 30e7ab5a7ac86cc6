"""Microsoft.AI.MachineLearning.Experimental: `winml_py.experimental`, ignoring what Windows ML ignores."""

from .....experimental import LearningModelBuilder as _LearningModelBuilder
from .....experimental import LearningModelDeviceExperimental as LearningModelDeviceExperimental
from .....experimental import LearningModelExperimental as LearningModelExperimental
from .....experimental import LearningModelInputs as LearningModelInputs
from .....experimental import LearningModelJoinOptions as LearningModelJoinOptions
from .....experimental import LearningModelOperator as LearningModelOperator
from .....experimental import LearningModelOperatorSet as LearningModelOperatorSet
from .....experimental import LearningModelOutputs as LearningModelOutputs
from .....experimental import LearningModelSessionExperimental as LearningModelSessionExperimental
from .....experimental import LearningModelSessionOptionsExperimental as LearningModelSessionOptionsExperimental
from ....windows.ai.machinelearning import LearningModel


class LearningModelBuilder(_LearningModelBuilder):
    """A builder of models that ignore what Windows ML ignores."""

    _model_class = LearningModel
