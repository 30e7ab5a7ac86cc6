"""What the page works on: its models, pictures and last evaluations, and new files next to the models."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from .._examples import make_example
from .._http import MAX_REQUEST_PIXELS
from .._values import parse_value
from ..authoring.write_contract import write_contract
from ..core.base.arrays import Array
from ..core.base.messages import Facts
from ..core.contracts.published import find_model
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, NotBoundError, PictureError
from .open_model import Inputs, Job, OpenModel, PictureOnDisk, find_model_file
from .report import describe_placement, describe_tensor, encode_picture, make_answer, make_tensor_picture, write_program

T = TypeVar("T")

MAX_MODELS = 4
"""How many models stay open, each with its session."""

_MAX_PICTURES = 48
_MAX_EVALUATIONS = 16


class RecentItems(Generic[T]):
    """The items of one kind that were used last, by random keys. The methods may be called from any thread.

    Args:
        most: how many items are kept.
        kind: the word for an item, for messages.
        drop: called with each item that is no longer kept.
    """

    def __init__(self, most: int, kind: str, drop: Callable[[T], object] = lambda _: None) -> None:
        self._most = most
        self._kind = kind
        self._drop = drop
        self._items = dict[str, T]()
        self._lock = threading.Lock()

    def add(self, item: T) -> str:
        """Keeps an item, and returns its key."""
        key = secrets.token_hex(8)
        with self._lock:
            self._items[key] = item
            oldest = [self._items.pop(old) for old in list(self._items)[: -self._most]]
        for item in oldest:
            self._drop(item)
        return key

    def find(self, key: str) -> T:
        """The item of a key; NotBoundError if it is no longer kept."""
        with self._lock:
            if key not in self._items:
                raise NotBoundError(f"This {self._kind} is no longer open.")
            item = self._items.pop(key)
            self._items[key] = item  # at the end of the order: it was used last
            return item

    def clear(self) -> None:
        """Drops all items."""
        with self._lock:
            items, self._items = self._items, {}
        for item in items.values():
            self._drop(item)


class Evaluation(NamedTuple):
    """What the page may request of an evaluation: its tensors and contracts by input, and the pictures of its answer
    by output.
    """

    tensors: Mapping[str, Array]
    contracts: Mapping[str, ImageContract]
    pictures: Mapping[str, bytes]

    def encode_tensor(self, name: str, reading: str) -> bytes:
        """The picture of a bound tensor, by one of `READINGS`."""
        if name not in self.contracts:
            raise NotBoundError(f"No picture of the input {name!r} is available.")
        return encode_picture(make_tensor_picture(self.tensors[name], self.contracts[name], reading))

    def find_answer(self, name: str) -> bytes:
        """The file of an output's picture."""
        if name not in self.pictures:
            raise NotBoundError("The answer does not contain this picture.")
        return self.pictures[name]


class Workbench:
    """The page's state. The methods may be called from any thread.

    Args:
        device: where models run, as in `winml-py run --device`.
        labels: class names, for models that have none.
        seconds: the time limit of an evaluation.
    """

    def __init__(self, device: str = "cpu", labels: Sequence[str] = (), seconds: float = 60.0) -> None:
        self.seconds = seconds
        self._device = device
        self._labels = tuple(labels)
        self.folder = tempfile.mkdtemp(prefix="winml-py-view-")
        self.models = RecentItems[OpenModel](MAX_MODELS, "model", _close_model)
        self.pictures = RecentItems[PictureOnDisk](_MAX_PICTURES, "picture", _remove_copy)
        self.evaluations = RecentItems[Evaluation](_MAX_EVALUATIONS, "evaluation")
        self.first_model = self.first_picture = ""

    def make_path(self, extension: str = "") -> str:
        """The path to a new file, which is removed with the workbench."""
        return os.path.join(self.folder, secrets.token_hex(8) + extension)

    def close(self) -> None:
        """Ends all sessions, with their processes, and removes dropped files. Calling it twice is harmless."""
        self.models.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    # What is opened.

    def open_model(self, path: str, name: str = "") -> str:
        """Loads a model, and returns its key. A dropped one, which is a copy, has a name."""
        model = LearningModel.load(path)
        path = os.path.abspath(find_model(path))
        is_here = not name
        return self.models.add(OpenModel(path, name or os.path.basename(path), model, self._device, is_here=is_here))

    def take_session(self, session: LearningModelSession | LearningModel) -> str:
        """Opens a program's own object, a model or a session, which the page never closes. Returns the model's key."""
        if isinstance(session, LearningModel):
            return self._add_model(session, self._device, None)
        is_cpu = session.device.hardware == "cpu"
        return self._add_model(session.model, "cpu" if is_cpu else session.device.name, session)

    def _add_model(self, model: LearningModel, device: str, session: LearningModelSession | None) -> str:
        path = find_model_file(model)
        name = os.path.basename(path) or model.name or "model"
        return self.models.add(OpenModel(path, name, model, device, session=session))

    def open_picture(self, path: str, name: str = "") -> str:
        """Keeps a picture of at most 50 megapixels, and returns its key. A dropped one, which is a copy, has a name."""
        try:
            value = ImageFeatureValue.load(path, max_pixels=MAX_REQUEST_PIXELS)
        except PictureError as error:
            if not name:
                raise
            hint = "Choose a picture of at most 50 megapixels."
            raise PictureError(error.message.replace(path, name), hint=hint) from error
        ((width, height),) = value.sizes
        path = os.path.abspath(path)
        return self.pictures.add(PictureOnDisk(path, name or os.path.basename(path), not name, width, height))

    def describe_model(self, key: str) -> Facts:
        """The page's facts about a model."""
        return {"id": key} | self.models.find(key).describe()

    def describe_picture(self, key: str) -> Facts:
        """The page's facts about a picture."""
        picture = self.pictures.find(key)
        return {"id": key, "name": picture.name, "width": picture.width, "height": picture.height}

    # Evaluations.

    def evaluate(self, request: Mapping[str, Any], job: Job) -> Facts:
        """Evaluates a request of the page.

        Args:
            request: the `model`; for each of `inputs` a `picture` with its `contract` as metadata, a `text`, or nothing
                for an example value. A trial (`is_trial`) returns only the answer, and keeps nothing.
            job: stops it.
        """
        model = self.models.find(str(request.get("model", "")))
        started = time.perf_counter()
        inputs = self._read_inputs(model, request.get("inputs", {}))
        seconds = {"decode": time.perf_counter() - started}
        evaluated = model.evaluate(job, inputs)
        seconds |= evaluated.seconds
        labels = () if model.model.labels else self._labels
        answer = make_answer(evaluated.result, model.model, inputs, labels or model.model.labels)
        if request.get("is_trial") is True:
            return {"answer": answer.facts}
        tensors, contracts, placements = evaluated.tensors, inputs.contracts, evaluated.result.placements
        return {
            "id": self.evaluations.add(Evaluation(tensors, contracts, answer.pictures)),
            "tensors": {name: describe_tensor(tensor, contracts.get(name)) for name, tensor in tensors.items()},
            "contracts": {name: contract.to_metadata() for name, contract in contracts.items()},
            "placements": {name: describe_placement(places[0]) for name, places in placements.items()},
            "answer": answer.facts,
            "times": {phase: round(1e3 * duration, 3) for phase, duration in seconds.items()},
            "engine": model.engine,
            "device": model.device,
            "code": write_program(model, inputs, answer.facts, labels),
        }

    def _read_inputs(self, model: OpenModel, stated: object) -> Inputs:
        """The values of a model's inputs, as the page states them.

        Raises:
            NotBoundError: a picture is no longer open.
            InvalidArgumentError: what is stated is not a value or a contract.
        """
        if not isinstance(stated, Mapping) or not all(isinstance(fields, Mapping) for fields in stated.values()):
            raise InvalidArgumentError(
                "Expected inputs to be an object of objects.", hint='Send, for example, {"x": {"text": "1 2 3"}}.'
            )
        inputs = Inputs({}, {}, {})
        for name, feature in model.features.items():
            fields = stated.get(name, {})
            if "picture" in fields:
                picture = self.pictures.find(str(fields["picture"]))
                inputs.pictures[name] = picture
                inputs.values[name] = picture.load()
                contract = parse_contract(fields["contract"]) if fields.get("contract") else model.contracts.get(name)
                if contract is not None:
                    inputs.contracts[name] = contract
            elif "text" in fields:
                inputs.values[name] = parse_value(feature, str(fields["text"]))
            else:
                inputs.values[name] = make_example(feature, np.random.default_rng(0))
        return inputs

    def copy_with_contract(self, model: OpenModel, contract: ImageContract, inputs: Sequence[str]) -> bytes:
        """The file of a copy of a model with a contract of these inputs, which take pictures."""
        path = self.make_path(".onnx")
        try:
            write_contract(model.require_file(), path, contract, inputs)
            return Path(path).read_bytes()
        finally:
            Path(path).unlink(missing_ok=True)


def _close_model(model: OpenModel) -> None:
    model.close()
    if not model.is_here:
        Path(model.path).unlink(missing_ok=True)


def _remove_copy(picture: PictureOnDisk) -> None:
    if not picture.is_here:
        Path(picture.path).unlink(missing_ok=True)


def parse_contract(words: object) -> ImageContract:
    """The contract that the fields state; an empty field states nothing.

    Raises:
        InvalidArgumentError: not an object of texts, an unknown key, or a word that a contract cannot have.
    """
    if not isinstance(words, Mapping) or not all(isinstance(word, str) for pair in words.items() for word in pair):
        raise InvalidArgumentError(
            "Expected contract values as text.", hint='Send, for example, {"Image.Mean": "0.5"}.'
        )
    if unknown := sorted(set(words) - set(METADATA_KEYS)):
        raise InvalidArgumentError(f"Unknown contract key {unknown[0]}.", hint=f"Keys: {', '.join(METADATA_KEYS)}.")
    return ImageContract.from_metadata({key: word for key, word in words.items() if word})


@contextmanager
def remove_on_error(path: str) -> Iterator[None]:
    """Removes a file if the block fails."""
    try:
        yield
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
