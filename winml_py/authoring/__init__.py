"""Image contracts: learned from the code that a model was trained with, and written into it as metadata or nodes."""

from .build_in import build_in
from .learning import LearnedContract, learn_contract
from .write_contract import write_contract

__all__ = ["LearnedContract", "build_in", "learn_contract", "write_contract"]
