"""The Windows ML way of running models - load, bind, evaluate - for Python, on every system.

The public names only. `__init__.pyi` states the module of each, for type checkers and for this module: a name is loaded
on first use, so that a program pays only for what it needs. Capabilities, too: after `import winml_py`,
`winml_py.vision` is available.
"""

__version__ = "0.1.0"

_MODULES = frozenset(
    [
        "authoring",
        "compare",
        "distributed",
        "errors",
        "experimental",
        "float16",
        "operators",
        "perf",
        "results",
        "serve",
        "testing",
        "view",
        "vision",
    ]
)


def __getattr__(name: str) -> object:
    import lazy_loader  # on first use: reading the stub takes longer than the rest of this import

    from .core.base.messages import did_you_mean

    attach, _, names = lazy_loader.attach_stub(__name__, __file__)

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"winml_py has no {name!r}. {did_you_mean(name, names)}", name=name)
        return attach(name)

    # `from winml_py import *` would import all capabilities, and what they need, if they were in `__all__`.
    globals().update(__getattr__=find, __all__=[*(set(names) - _MODULES), "__version__"])
    return globals().get(name) or find(name)


def __dir__() -> list[str]:
    return [*(globals().get("__all__") or __getattr__("__all__")), *_MODULES]  # type: ignore[misc]
