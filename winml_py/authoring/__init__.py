"""Image contracts: learned from the code that a model was trained with, and written into it as metadata or nodes."""

from .build_in import build_in
from .evidence import ContractCheck, ContractEvidence, check_contract
from .learning import LearnedContract, learn_contract
from .write_contract import write_contract

__all__ = [
    "ContractCheck",
    "ContractEvidence",
    "LearnedContract",
    "build_in",
    "check_contract",
    "learn_contract",
    "write_contract",
]
