"""ONNX's model zoo: `test_data_set_0/input_0.pb`, `output_0.pb` and so on, which are known answers."""

from __future__ import annotations

from itertools import count, takewhile

from ..config import Config
from .folder import ANY_SIZE, Folder, Parts


def _find_answers(_: Config, folder: Folder) -> list[tuple[list[str], list[str]]]:
    """The paths of the inputs and the outputs of each data set."""
    answers = []
    for number in count():
        outputs = _find_files(folder, f"test_data_set_{number}/output")
        if not outputs:
            break
        answers.append((_find_files(folder, f"test_data_set_{number}/input"), outputs))
    return answers


def _find_files(folder: Folder, start: str) -> list[str]:
    return list(takewhile(bool, (folder.find(f"{start}_{number}.pb", ANY_SIZE) for number in count())))


OTHER_FILES = ("test_data_set_*/*.pb",)
PARTS: Parts = (("answers", "test_data_set_0/output_0.pb", "", _find_answers),)
