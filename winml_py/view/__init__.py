"""A local page that shows the picture that reached the model, what the model sees, and its answer.

It needs `pip install 'winml-py[view]'`.

Example:
    >>> from winml_py import LearningModel, view
    >>> page = view.show(LearningModel.load("models/digits.onnx"), "samples/pictures/seven.png")
    >>> page.address.startswith("http://127.0.0.1:")
    True
    >>> page.close()
"""

from __future__ import annotations

import atexit
import os
from html import escape
from typing import TYPE_CHECKING

from ..core.base.arguments import require_type
from ..core.features.pictures import ImageFeatureValue
from ..core.features.prepare import as_picture
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    from .server import PageServer
    from .workbench import Workbench

__all__ = ["show"]


class ShownPage:
    """The page in a notebook: the last line of a cell shows it. It ends with the program, or with `close`.

    Attributes:
        address: for a browser on this machine; anyone who has it can use the page.
    """

    def __init__(self, server: PageServer) -> None:
        self._server = server
        self.address = server.address

    def close(self) -> None:
        """Ends the page. Calling it twice is harmless."""
        self._server.close()
        _shown.discard(self)

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{escape(self.address)}" width="100%" height="760" allow="camera" '
            'style="border:0" title="What the model sees"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<ShownPage {self.address}>"


_shown: set[ShownPage] = set()
"""Open pages: a notebook also shows them after their variables are gone."""


def show(session_or_model: LearningModelSession | LearningModel, picture: object = None) -> ShownPage:
    """Shows what a model sees, in a notebook.

    A server in a thread of this process serves the page on this machine's loopback; its address has a token. A session
    is used as it is; for a model, the page makes one, in a separate process if the system supports that.

    Args:
        session_or_model: the session or model to show.
        picture: the first picture: a path, the bytes of a file, a Pillow image, or another picture.

    Raises:
        MissingPackageError: the server's packages are not installed.
        InvalidArgumentError: not a session or a model, or not a picture.
        PictureError: the file is not a picture.

    Example:
        >>> from winml_py import LearningModel, view
        >>> page = view.show(LearningModel.load("models/digits.onnx"))
        >>> page.close()
    """
    require_type(session_or_model, LearningModelSession | LearningModel, "Load it first with LearningModel.load(path).")
    from .server import PageServer
    from .workbench import Workbench

    bench = Workbench()
    try:
        bench.first_model = bench.take_session(session_or_model)
        if picture is not None:
            bench.first_picture = _add_picture(bench, picture)
    except BaseException:
        bench.close()
        raise
    server = PageServer(bench, in_notebooks=True)
    server.start()
    page = ShownPage(server)
    _shown.add(page)
    return page


def _add_picture(bench: Workbench, picture: object) -> str:
    if isinstance(picture, (str, os.PathLike)):
        return bench.open_picture(os.fspath(picture))
    value = ImageFeatureValue.load(picture) if isinstance(picture, bytes) else as_picture(picture)
    if value is None:
        raise InvalidArgumentError(
            f"Expected a picture, got {type(picture).__name__}.", hint="Pass a path, Pillow image or ImageFeatureValue."
        )
    path = bench.make_path(".png")
    value.save(path)
    return bench.open_picture(path, "picture.png")


@atexit.register
def _close_all() -> None:
    for page in list(_shown):
        page.close()
