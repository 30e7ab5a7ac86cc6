"""What is written into a model: image contracts, learned from its training code, as metadata or nodes; and samples with
known answers.
"""

from .build_in import build_in
from .check_samples import AnswerCheck, ModelCheck, check_samples
from .known_answers import KnownAnswer, KnownInput, KnownOutput
from .learning.learn_contract import LearnedContract, learn_contract
from .output_nodes import BuiltIn
from .write_contract import write_contract
from .write_samples import write_samples

__all__ = [
    "AnswerCheck",
    "BuiltIn",
    "KnownAnswer",
    "KnownInput",
    "KnownOutput",
    "LearnedContract",
    "ModelCheck",
    "build_in",
    "check_samples",
    "learn_contract",
    "write_contract",
    "write_samples",
]
