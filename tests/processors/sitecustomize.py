"""A processor by substitute: OpenVINO reports the types of half precision that the test run states.

    PYTHONPATH=tests/processors WINML_PY_TEST_HALF_TYPES="bfloat16 float16" pytest tests/core/runtime

The types are "bfloat16", "float16", both with a space between them, or "none". Python imports a module of this name
when it starts, in child processes too. A type that the substitute lacks compiles as OpenVINO compiles it: float16 as
bfloat16 where that is there, else as float32.

The tests see what the package chooses, says and remembers on such a processor. They cannot see its numbers: everything
is computed in float32.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from typing import Any

WANTED = os.environ.get("WINML_PY_TEST_HALF_TYPES", "")
CAPABILITIES = {"bfloat16": "BF16", "float16": "FP16"}
HINT = "INFERENCE_PRECISION_HINT"


class _Finder(MetaPathFinder):
    """Changes the module openvino as soon as somebody has imported it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "openvino":
            return None
        # The others are asked without this one. It comes back: who asks for a spec need not import it.
        place = sys.meta_path.index(self)
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(place, self)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_change(module: Any) -> None:
                run(module)
                change(module, set(WANTED.split()) - {"none"})

            spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


def change(openvino: Any, types: set[str]) -> None:
    """Has the package report these types."""
    core, compiled = openvino.Core, openvino.CompiledModel
    get_property, get_own_property = core.get_property, compiled.get_property
    types_of_hints = {
        "f32": openvino.Type.f32,
        "bf16": openvino.Type.bf16 if "bfloat16" in types else openvino.Type.f32,
    }
    types_of_hints["f16"] = openvino.Type.f16 if "float16" in types else types_of_hints["bf16"]

    def reported(self: Any, *names: Any) -> Any:
        value = get_property(self, *names)
        if names[-1] != "OPTIMIZATION_CAPABILITIES":
            return value
        others = [word for word in value if word not in CAPABILITIES.values()]
        return others + [CAPABILITIES[type_name] for type_name in sorted(types)]

    def reported_by_model(self: Any, name: Any) -> Any:
        return vars(self).get("stated_type") if name == HINT else get_own_property(self, name)

    def in_float32(make: Any) -> Any:
        def made(self: Any, model: Any, device: Any, config: Any = None, **more: Any) -> Any:
            config = dict(config or {})
            stated = types_of_hints[config.get(HINT, "f32")]
            result = make(self, model, device, config | {HINT: "f32"}, **more)
            vars(result)["stated_type"] = stated
            return result

        return made

    core.get_property, compiled.get_property = reported, reported_by_model
    core.compile_model, core.import_model = in_float32(core.compile_model), in_float32(core.import_model)


if WANTED:
    sys.meta_path.insert(0, _Finder())
