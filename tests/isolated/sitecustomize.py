"""Sessions that are isolated unless they cannot be: the substitute for a program that isolates all of them.

    PYTHONPATH=tests/isolated pytest tests/winml tests/project/test_samples.py

Python imports this module by its name when it starts, child processes too. A closed session leaves its process to the
next one: to start one for each of them would take hours. Sessions whose options isolate them have what they ask for.
Devices that run functions, and operators in Python, stay where they are.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from typing import Any

SESSION = "winml_py.core.session.session"


class _Finder(MetaPathFinder):
    """Changes the module of sessions as soon as somebody has imported it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != SESSION:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        run = spec.loader.exec_module

        def run_and_change(module: Any) -> None:
            run(module)
            change(module)

        spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


def change(session: Any) -> None:
    """Has every session isolated that can be."""
    from winml_py.core.base.child_process import ChildProcess
    from winml_py.core.runtime.engine import Isolation
    from winml_py.core.runtime.isolated import isolated_engine, system
    from winml_py.core.runtime.isolated.wire import ANSWER

    make_options, isolate, everywhere = session.engine_options, session.isolate, Isolation()
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

    session.engine_options, session.isolate = isolated_options, isolate_if_possible
    isolated_engine.ChildProcess = take


os.environ["WINML_PY_TEST_ISOLATED"] = "1"
sys.meta_path.insert(0, _Finder())
