"""Microsoft.AI.MachineLearning.Experimental: `winml_py.experimental`, ignoring what Windows ML ignores."""

from .....experimental import *  # noqa: F403 - all of its names are those of this module
from .....experimental import LearningModelBuilder as _LearningModelBuilder
from ....windows.ai.machinelearning import LearningModel


class LearningModelBuilder(_LearningModelBuilder):  # type: ignore[no-redef]
    """A builder of models that ignore what Windows ML ignores."""

    _model_class = LearningModel
