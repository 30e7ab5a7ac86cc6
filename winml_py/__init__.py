"""The Windows ML way of running models - load, bind, evaluate - for Python, on every system.

The public names, and nothing else. `__init__.pyi` says where each of them stands, to type checkers and to this module:
a name is loaded when it is first used, so that a program pays for what it needs.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    import lazy_loader  # at the first name, because it reads the stub: that takes longer than all of this import

    attach, _, names = lazy_loader.attach_stub(__name__, __file__)
    globals().update(__getattr__=attach, __all__=[*names, "__version__"])
    return globals().get(name) or attach(name)


def __dir__() -> list[str]:
    return list(globals().get("__all__") or __getattr__("__all__"))  # type: ignore[call-overload]
