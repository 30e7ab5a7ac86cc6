"""Microsoft.AI.MachineLearning: the names of Windows.AI.MachineLearning, which is the same code inside Windows."""

from ....windows.ai.machinelearning import *  # noqa: F403 - all of its names are those of this module
