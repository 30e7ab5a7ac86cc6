"""The Windows ML way of running models - load, bind, evaluate - for Python, on every system.

The public names, and nothing else. `__init__.pyi` says where each of them stands, to type checkers and to this module:
a name is loaded when it is first used, so that a program pays for what it needs.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
