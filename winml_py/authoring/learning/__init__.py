"""Learning an image contract from the code that a model was trained with."""

from .learn_contract import LearnedContract, learn_contract

__all__ = ["LearnedContract", "learn_contract"]
