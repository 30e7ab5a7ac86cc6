"""LearningModelBinding: values bound to a session's features by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import NotBoundError
from ..base.collections import MapView
from ..base.winrt_object import Object
from ..features.bind_properties import BindProperties
from ..imaging.picture_placement import PicturePlacement
from .compiled import CompiledModel, compiled_of
from .evaluation import Evaluation


class LearningModelBinding(Object, MapView[Any]):
    """The inputs and outputs of an evaluation: a map from feature names to what was bound.

    Tensors of numbers are bound by reference: writing to one before the next `evaluate` changes the input. (An array
    that is not C-contiguous, such as a transposed one, has no such memory: it is copied at `bind`; so is float32 where
    a float16 feature takes pictures.)
    Pictures are turned into numbers at `bind`, into memory that the binding keeps and reuses; strings are copied.
    A binding is evaluated by one thread at a time (others wait); use one binding a thread.

    Args:
        session: the session to bind for; the binding keeps it alive.

    Raises:
        ClosedError: the session has been closed.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModel, LearningModelBinding, LearningModelSession, ImageFeatureValue
        >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
        >>> binding = LearningModelBinding(session)
        >>> binding.bind("image", ImageFeatureValue.load("samples/pictures/seven.png"))
        >>> int(np.argmax(session.evaluate(binding).outputs["probabilities"]))
        7
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, session: CompiledModel, /) -> None:
        self._session = session  # a session that nobody else holds would close its engine
        compiled = compiled_of(session)
        self._is_silent = compiled.is_silent
        self._evaluation = Evaluation(compiled)

    def bind(self, name: str, value: Any, properties: Mapping[str, Any] | None = None, /) -> None:
        """Binds a value to an input or an output; a name bound before gets the new value.

        Args:
            name: the feature's name; case does not matter unless the model has names that differ in nothing else.
            value: a tensor; a picture (`ImageFeatureValue`, `VideoFrame`, `SoftwareBitmap`, a Pillow image);
                an array of numpy or, in the host's memory, of another library that has DLPack, such as torch; or a
                number, for a feature of one element. An array must have the feature's dtype and shape; for an image
                feature, a uint8 array of pixels will do, whose channel order is said by a property.
            properties: `BitmapBounds` (x, y, width, height: the part of the picture to use),
                `BitmapPixelFormat` (the channel order of the model's tensor; of an array bound as a picture,
                its own), `PixelRange` (what the bytes become), `ImageContract` (all of it, in place of what the
                model says); for a tensor bound to an output of a GPU session, `DisableTensorCpuSync` (True: the
                numbers stay in the GPU's memory).

        Raises:
            InvalidBindingError: no such feature or property, or a value of the wrong kind or type.
            SizeMismatchError: a value of the wrong shape.
            ClosedError: the session has been closed.
            IllegalCallError: another process made the session, and this one was forked from it.
        """
        self._evaluation.bind(name, value, BindProperties.read(properties, self._is_silent))

    bind_with_properties = bind  # pywinrt 3's name

    def clear(self) -> None:
        """Unbinds everything, and lets go of the memory that pictures were turned into."""
        self._evaluation.clear()

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where each picture that is bound lies in its input's tensor, by the names of inputs: one for each picture
        of a batch. They map points, boxes and masks back to the picture.
        """
        return self._evaluation.placements

    def __getitem__(self, name: str) -> Any:
        try:
            return self._evaluation.bound[name]
        except KeyError:
            bound = ", ".join(self._evaluation.bound) or "nothing"
            raise NotBoundError(f"Nothing is bound to {name!r}.", hint=f"Bound so far: {bound}.") from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._evaluation.bound

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._evaluation.bound))

    def __len__(self) -> int:
        return len(self._evaluation.bound)

    def __repr__(self) -> str:
        return f"<LearningModelBinding {self._evaluation.bound!r}>"


def evaluation_of(binding: LearningModelBinding) -> Evaluation:
    """The inside of a binding, for the session that runs it."""
    return binding._evaluation  # noqa: SLF001 - the one way in: users bind, and sessions evaluate
