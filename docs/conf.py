"""The documentation site: `sphinx-build -W --keep-going -n -b html docs docs/_build/html`."""

from __future__ import annotations

import importlib
import re
import sys
from enum import Enum
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring

sys.path.insert(0, str(Path(__file__).parent.parent))  # document the checkout, even where another version is installed

import winml_py

project = "winml-py"
version = release = winml_py.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
highlight_language = "none"  # a block without a language is not highlighted
smartquotes_action = "D"  # only dashes: docstrings quote words of the code

myst_heading_anchors = 3  # [text](page.md#a-heading) works here as it does on GitHub

default_role = "py:obj"  # docstrings put code between single backticks; names of ours become links
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
python_trailing_comma_in_multi_line_signatures = False
toc_object_entries_show_parents = "hide"

# With -n, an unresolved reference is a warning. These lead outside the site, which is built without a network.
nitpick_ignore_regex = [
    ("py:obj", r".*"),  # code between single backticks need not be a name
    ("py:class", r"(numpy|np|onnx|PIL|collections|contextlib|datetime|enum|os|types|typing)\..*"),
    ("py:class", r"Image|ModelProto"),  # of Pillow and onnx, imported only for type checkers
    (
        "py:class",
        r"Source|Operators|Output|BindableValue|AnyFeature|Size|Pixels|Array",
    ),  # for type checkers; the text says what they are
    ("py:class", r"winml_py(\.\w+)+\.[A-Z]"),  # type variables
    ("py:class", r"tuple\[(int|float)"),  # unions of tuples, which Sphinx cuts in two
]

html_theme = "furo"
html_title = "winml-py"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = html_logo = "_static/icon.svg"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

NOT_CALLED = {
    "AsyncOperation",
    "AttachedContracts",
    "BitmapBuffer",
    "CompiledOperator",
    "ConversionReport",
    "EvaluationStream",
    "ExampleShape",
    "Explanation",
    "LearningModel",
    "LearningModelBuilder",
    "LearningModelEvaluationResult",
    "LearningModelInputs",
    "LearningModelOperatorSet",
    "LearningModelOutputs",
    "LearningModelSessionOptionsExperimental",
    "Measurement",
    "MemoryBufferReference",
    "NameMap",
    "Operator",
    "OptimizationReport",
    "OutputReport",
    "PicturePlacement",
    "AssignedNode",
    "Profile",
    "ShownPage",
    "Time",
    "Vector",
    "VectorIterator",
    "VectorView",
}
"""Classes that programs receive and do not make: the site does not show their constructors' parameters."""

PUBLIC_SIGNATURES = {
    "ImageFeatureValue": "(frames: Iterable[VideoFrame])",
    "LearningModelBinding": "(session: LearningModelSession, /)",
    "LearningModelSession": "(model: LearningModel, device: LearningModelDevice | None = None, "
    "options: LearningModelSessionOptions | None = None, /)",
    "StatedSizes": "(dimensions: Mapping[str, int] = {}, picture: tuple[int, int] | None = None)",
}
"""Constructors that also take what only the package itself passes, or whose defaults Sphinx cannot read: the site shows
what programs pass."""


def read_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Reads a docstring in Google's style.

    Napoleon's own hook treats the text before the first colon of a property's docstring as a type.
    """
    lines[:] = GoogleDocstring(lines, what="method" if what in ("attribute", "property") else what, name=name).lines()


def shorten_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None] | None:
    """Hides parameters that programs do not pass, and those of errors, which all take the same."""
    if what != "class":
        return None
    if obj.__name__ in PUBLIC_SIGNATURES:
        return PUBLIC_SIGNATURES[obj.__name__], None
    bases = (Enum, winml_py.FeatureDescriptor, winml_py.Tensor, winml_py.WinMLError)
    is_hidden = issubclass(obj, bases) or obj.__name__ in NOT_CALLED
    return ("", None) if is_hidden and obj is not winml_py.WinMLError else None


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Makes links of the names in the table of the reference. On GitHub they are only code.

    A name is one of the module that its row is about, or of `winml_py`, where some names are those of modules.
    """
    if app.env.docname != "api/index":
        return
    for row in doctree.findall(nodes.row):
        modules = [*re.findall(r"winml_py\.\w+", row[0].astext()), "winml_py", "winml_py.authoring"]
        for name in list(row[1].findall(nodes.literal)):
            target = next((f"{module}.{name.astext()}" for module in modules if _has(module, name.astext())), None)
            if target:
                link = pending_xref(refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True)
                name.replace_self(link)
                link += name


def _has(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name)


def setup(app: Sphinx) -> None:
    """Connects the three above."""
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("doctree-read", link_names)
