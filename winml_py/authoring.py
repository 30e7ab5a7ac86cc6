"""Writing an image contract into a model: as metadata, or as nodes that keep to it in any runtime."""

from .tools.built_in.build_in import build_in
from .tools.write_contract import write_contract

__all__ = ["build_in", "write_contract"]
