"""Calls of the command line in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from winml_py.cli.main import main


def call(*arguments: object, code: int | None = None) -> Result:
    """Calls `winml-py`; it must not end in an exception, and has to exit with `code` where one is given."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], env={"COLUMNS": "100"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert code is None or result.exit_code == code, result.output
    return result


def require_failure(code: int, *arguments: object) -> str:
    """Calls `winml-py`, which must exit with `code`; gives its message."""
    result = call(*arguments, code=code)
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())
