"""Image contracts: learned from the code that a model was trained with, and written into it as metadata or nodes; and
samples whose answers are known.
"""

from ..core.model.known_answers import KnownAnswer, KnownInput, KnownOutput
from .build_in import build_in
from .evidence import ContractCheck, ContractEvidence, check_contract
from .learning import LearnedContract, learn_contract
from .write_contract import write_contract
from .write_samples import write_samples

__all__ = [
    "ContractCheck",
    "ContractEvidence",
    "KnownAnswer",
    "KnownInput",
    "KnownOutput",
    "LearnedContract",
    "build_in",
    "check_contract",
    "learn_contract",
    "write_contract",
    "write_samples",
]
