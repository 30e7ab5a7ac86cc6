"""What is written into a model: image contracts, learned from its training code, as metadata or nodes; and samples with
their answers, next to it.
"""

from .build_in import build_in
from .learning.learn_contract import LearnedContract, learn_contract
from .output_nodes import BuiltIn
from .samples import SampleCheck, check_samples, write_samples
from .write_contract import write_contract

__all__ = [
    "BuiltIn",
    "LearnedContract",
    "SampleCheck",
    "build_in",
    "check_samples",
    "learn_contract",
    "write_contract",
    "write_samples",
]
