"""Calls of the command line in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from winml_py.cli.main import main


def call(*arguments: object) -> Result:
    """Calls `winml-py`, which must not end in an exception."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], env={"COLUMNS": "100"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def require_exit(*arguments: object, code: int = 0) -> Result:
    """Calls `winml-py`, which must exit with `code`."""
    result = call(*arguments)
    assert result.exit_code == code, result.output
    return result


def require_failure(code: int, *arguments: object) -> str:
    """Calls `winml-py`, which must exit with `code`; gives its message."""
    result = require_exit(*arguments, code=code)
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())
