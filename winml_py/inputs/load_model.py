"""Loading a model for a command, with the contract that the user states for its pictures."""

from __future__ import annotations

import os

from ..core.imaging.contract import ImageContract
from ..core.model.contract_fit import fitting_inputs
from ..core.model.model import LearningModel
from ..core.model.operators import Operators


def load_model(
    path: str | os.PathLike[str], contract: ImageContract | None = None, operators: Operators = ()
) -> LearningModel:
    """Loads a model with operators of the program's own, and attaches a contract to every input that it fits.

    Raises:
        InvalidArgumentError: it fits none.
        WinMLError: the model cannot be loaded.
    """
    model = LearningModel.load(path, operators=operators)
    if contract is not None:
        for feature in fitting_inputs(model.input_features, contract):
            model.contracts[feature.name] = contract
    return model
