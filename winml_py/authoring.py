"""Writing an image contract into a model: the public name of `tools.write_contract`."""

from .tools.write_contract import write_contract

__all__ = ["write_contract"]
