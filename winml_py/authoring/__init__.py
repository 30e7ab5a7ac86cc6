"""What is written into a model: image contracts, learned from its training code, as metadata or nodes; samples with
known answers; other names, sizes and texts.
"""

from .check_samples import AnswerCheck, ModelCheck, check_samples
from .contract_evidence import ContractEvidence
from .edit_features import EditReport, Edits, edit_model
from .known_answers import KnownAnswer, KnownInput, KnownOutput
from .learning import LearnedContract, learn_contract
from .output_nodes import BuiltIn
from .write_contract import build_in, write_contract
from .write_samples import write_samples

__all__ = [
    "AnswerCheck",
    "BuiltIn",
    "ContractEvidence",
    "EditReport",
    "Edits",
    "KnownAnswer",
    "KnownInput",
    "KnownOutput",
    "LearnedContract",
    "ModelCheck",
    "build_in",
    "check_samples",
    "edit_model",
    "learn_contract",
    "write_contract",
    "write_samples",
]
