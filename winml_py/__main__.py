"""`python -m winml_py` is `winml-py`."""

from __future__ import annotations

from .cli.main import main

if __name__ == "__main__":
    main(prog_name="winml-py")
