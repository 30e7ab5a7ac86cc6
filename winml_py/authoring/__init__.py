"""Writing an image contract into a model: as metadata, or as nodes that keep to it in any runtime."""

from .build_in import build_in
from .write_contract import write_contract

__all__ = ["build_in", "write_contract"]
