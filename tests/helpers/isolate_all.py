"""Isolates every session of a test run that can be isolated, so that other tests try isolation, too.

    WINML_PY_TEST_ISOLATED=1 pytest tests/winml

Sessions whose options isolate them get what they ask for; devices that run functions, and operators in Python, cannot
be isolated. A closed session leaves its process to the next one, because starting one for each session would take
hours. So these runs cannot show that a process ends with its session: `tests/core/runtime/test_isolation.py` does.
"""

from __future__ import annotations

from typing import Any

from winml_py.core.base.child_process import ChildProcess
from winml_py.core.runtime.engine import Isolation
from winml_py.core.runtime.isolated import isolated_engine, system
from winml_py.core.runtime.isolated.wire import ANSWER
from winml_py.core.session import compile as compiling
from winml_py.core.session import session


def isolate_all() -> None:
    """Has every session isolated that can be."""
    make_options, isolate, everywhere = session.make_engine_options, compiling.isolate, Isolation()
    idle: list[Any] = []

    class Reused(ChildProcess):
        """A process that compiles another model when its session is closed, and ends with this one."""

        def close(self) -> None:
            if self.is_alive:
                idle.append(self)
            else:
                super().close()

    def take(serve: Any, **more: Any) -> Any:
        while idle:
            process = idle.pop()
            if process.is_alive:
                # It abbreviates an answer that repeats its last one, which the next session has not seen.
                system.send(process.connection, b"unknown")
                assert system.receive(process.connection) == ANSWER
                process.connection.recv_bytes()
                return process
        return Reused(serve, **more)

    def isolated_options(options: Any) -> Any:
        made = make_options(options)
        return made if made.isolation is not None else made._replace(isolation=everywhere)

    def isolate_if_possible(compiler: Any, isolation: Any, device: Any, functions: Any) -> Any:
        if isolation is not everywhere:
            return isolate(compiler, isolation, device, functions)
        if functions or type(device) is not session.LearningModelDevice:
            return compiler
        return isolate(compiler, isolation, device, functions)

    session.make_engine_options, compiling.isolate = isolated_options, isolate_if_possible
    isolated_engine.ChildProcess = take
