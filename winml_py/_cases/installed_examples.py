"""Where the example files of this installation are: models, pictures and programs."""

from __future__ import annotations

from pathlib import Path

from ..errors import StorageNotFoundError


def find_examples() -> Path:
    """Finds the folder with `models` and `samples`: inside the package in a wheel, beside it in a checkout.

    Raises:
        StorageNotFoundError: there is neither.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "examples", package.parent):
        if (folder / "models" / "digits.onnx").is_file():
            return folder
    raise StorageNotFoundError(
        f"{package / 'examples'}: This installation has no examples.", hint="Install winml-py from its wheel again."
    )
