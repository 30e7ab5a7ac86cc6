"""ONNX's model zoo: `test_data_set_0/input_0.pb`, `output_0.pb` and so on, which are known answers."""

from __future__ import annotations

from itertools import count, takewhile

from ..config import Config
from .folder import ANY_SIZE, Folder, Parts


def _answers(_: Config, folder: Folder) -> list[tuple[list[str], list[str]]]:
    def files(of: str) -> list[str]:
        return list(takewhile(bool, (folder.find(f"test_data_set_{of}_{at}.pb", ANY_SIZE) for at in count())))

    return list(takewhile(lambda each: each[1], ((files(f"{at}/input"), files(f"{at}/output")) for at in count())))


PARTS: Parts = (("answers", "test_data_set_0/output_0.pb", "", _answers),)
