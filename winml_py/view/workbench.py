"""What the page works on: its models, pictures and last evaluations, and new files beside the models."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from .._http import MAX_REQUEST_PIXELS
from ..authoring.write_contract import write_contract
from ..core.base.arrays import Array
from ..core.base.atomic_files import written_to
from ..core.base.messages import Facts
from ..core.contracts.published.folder import find_model
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, NotBoundError, PictureError, StorageExistsError
from .code import File, program
from .facts import answer_of, picture_file, placement_facts, tensor_as_picture, tensor_facts
from .opened import Job, OpenModel, find_file
from .words import contract_of, make_up, parse_value

T = TypeVar("T")

MAX_MODELS = 4
"""How many models stay open, each with its session."""

_MAX_PICTURES = 48
_MAX_EVALUATIONS = 16


class Latest(Generic[T]):
    """The things of one kind that were used last, by random keys. The methods may be called from any thread.

    Args:
        most: how many are kept.
        kind: for messages.
        drop: called with each that is no longer kept.
    """

    def __init__(self, most: int, kind: str, drop: Callable[[T], object] = lambda _: None) -> None:
        self._most, self._kind, self._drop = most, kind, drop
        self._kept, self._lock = dict[str, T](), threading.Lock()

    def keep(self, value: T) -> str:
        """Keeps a value, and returns its key."""
        key = secrets.token_hex(8)
        with self._lock:
            self._kept[key] = value
            oldest = [self._kept.pop(old) for old in list(self._kept)[: -self._most]]
        for value in oldest:
            self._drop(value)
        return key

    def find(self, key: str) -> T:
        """The value of a key; NotBoundError if it is no longer kept."""
        with self._lock:
            if key not in self._kept:
                raise NotBoundError(f"This {self._kind} is no longer open.")
            self._kept[key] = value = self._kept.pop(key)
            return value

    def clear(self) -> None:
        """Drops all."""
        with self._lock:
            dropped, self._kept = list(self._kept.values()), {}
        for value in dropped:
            self._drop(value)


class PictureOnDisk(NamedTuple):
    """The file of a picture; `is_here` if the file is the user's, not a copy."""

    path: str
    name: str
    is_here: bool
    width: int
    height: int

    def load(self) -> ImageFeatureValue:
        """Its pixels."""
        return ImageFeatureValue.load(self.path, max_pixels=MAX_REQUEST_PIXELS)


class Evaluation(NamedTuple):
    """What the page may request of an evaluation: its tensors and contracts by input, and the pictures of its answer
    by output.
    """

    tensors: Mapping[str, Array]
    contracts: Mapping[str, ImageContract]
    pictures: Mapping[str, bytes]

    def tensor_file(self, name: str, reading: str) -> bytes:
        """The picture of a bound tensor, by one of `READINGS`."""
        if name not in self.contracts:
            raise NotBoundError(f"There is no picture of the input {name!r}.")
        return picture_file(tensor_as_picture(self.tensors[name], self.contracts[name], reading))

    def answer_file(self, name: str) -> bytes:
        """The picture of an output."""
        if name not in self.pictures:
            raise NotBoundError("There is no such picture of this answer.")
        return self.pictures[name]


class Workbench:
    """The page's state. The methods may be called from any thread.

    Args:
        device: where models run, as in `winml-py run --device`.
        labels: class names, for models that have none.
        seconds: the time limit of an evaluation.
    """

    def __init__(self, device: str = "cpu", labels: Sequence[str] = (), seconds: float = 60.0) -> None:
        self._device, self._labels, self.seconds = device, tuple(labels), seconds
        self.folder = tempfile.mkdtemp(prefix="winml-py-view-")
        self.models = Latest[OpenModel](MAX_MODELS, "model", _close_model)
        self.pictures = Latest[PictureOnDisk](_MAX_PICTURES, "picture", _remove_copy)
        self.evaluations = Latest[Evaluation](_MAX_EVALUATIONS, "evaluation")
        self.first_model = self.first_picture = ""
        self._reserved = set[Path]()

    def new_file(self, ending: str = "") -> str:
        """The path of a new file, which is removed with the workbench."""
        return os.path.join(self.folder, secrets.token_hex(8) + ending)

    def close(self) -> None:
        """Ends all sessions, with their processes, and removes dropped files. Calling it twice is harmless."""
        self.models.clear()
        for path in list(self._reserved):  # whoever writes it may end with the program
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    # What is opened.

    def open_model(self, path: str, name: str = "") -> str:
        """Loads a model, and returns its key. A dropped one, which is a copy, has a name."""
        model, path = LearningModel.load(path), os.path.abspath(find_model(path))
        is_here = not name
        return self.models.keep(OpenModel(path, name or os.path.basename(path), model, self._device, is_here=is_here))

    def take_session(self, session: LearningModelSession | LearningModel) -> str:
        """The same for a program's object: a session, which the page never closes, or a model."""
        if isinstance(session, LearningModelSession):
            model, given = session.model, session
            device = "cpu" if session.device.hardware == "cpu" else session.device.name
        else:
            model, given, device = session, None, self._device
        path = find_file(model)
        name = os.path.basename(path) or model.name or "model"
        return self.models.keep(OpenModel(path, name, model, device, session=given))

    def open_picture(self, path: str, name: str = "") -> str:
        """Keeps a picture of at most 50 megapixels, and returns its key. A dropped one, which is a copy, has a name."""
        try:
            value = ImageFeatureValue.load(path, max_pixels=MAX_REQUEST_PIXELS)
        except PictureError as error:
            if not name:
                raise
            hint = "The page takes pictures of 50 megapixels at most."
            raise PictureError(error.message.replace(path, name), hint=hint) from error
        ((width, height),) = value.sizes
        path = os.path.abspath(path)
        return self.pictures.keep(PictureOnDisk(path, name or os.path.basename(path), not name, width, height))

    def model_facts(self, key: str) -> Facts:
        """The page's facts about a model."""
        return {"id": key} | self.models.find(key).facts()

    def picture_facts(self, key: str) -> Facts:
        """The page's facts about a picture."""
        picture = self.pictures.find(key)
        return {"id": key, "name": picture.name, "width": picture.width, "height": picture.height}

    # Evaluations.

    def evaluate(self, request: Mapping[str, Any], job: Job) -> Facts:
        """Evaluates a request of the page.

        Args:
            request: the `model`; for each of `inputs` a `picture` with its `contract` as words, a `text`, or nothing
                for an example value. A trial (`is_trial`) returns only the answer, and keeps nothing.
            job: stops it.
        """
        model = self.models.find(str(request.get("model", "")))
        inputs = request.get("inputs", {})
        if not isinstance(inputs, Mapping) or not all(isinstance(given, Mapping) for given in inputs.values()):
            raise InvalidArgumentError(
                "Expected the inputs as an object of objects.", hint='Such as {"x": {"text": "1 2 3"}}.'
            )
        values, pictures, contracts = dict[str, Any](), dict[str, PictureOnDisk](), dict[str, ImageContract]()
        decoding = 0.0
        for name, feature in model.features.items():
            given = inputs.get(name, {})
            if "picture" in given:
                pictures[name], started = self.pictures.find(str(given["picture"])), time.perf_counter()
                values[name] = pictures[name].load()
                decoding += time.perf_counter() - started
                contract = contract_of(given["contract"]) if given.get("contract") else model.contracts.get(name)
                contracts |= {} if contract is None else {name: contract}
            else:
                values[name] = parse_value(feature, str(given["text"])) if "text" in given else make_up(feature)
        evaluated = model.evaluate(job, values, contracts)
        labels = () if model.model.labels else self._labels
        answer = answer_of(evaluated.result, model.model, values, labels or model.model.labels, contracts)
        if request.get("is_trial") is True:
            return {"answer": answer.facts}
        files = {
            name: File(picture.path if picture.is_here else picture.name, picture.is_here, contracts.get(name))
            for name, picture in pictures.items()
        }
        model_file = File(model.path if model.is_here else model.name, model.is_here)
        return {
            "id": self.evaluations.keep(Evaluation(evaluated.tensors, contracts, answer.pictures)),
            "tensors": {name: tensor_facts(tensor, contracts.get(name)) for name, tensor in evaluated.tensors.items()},
            "contracts": {name: contract.to_metadata() for name, contract in contracts.items()},
            "placements": {name: placement_facts(places[0]) for name, places in evaluated.result.placements.items()},
            "answer": answer.facts,
            "times": {
                phase: round(seconds * 1e3, 3) for phase, seconds in {"decode": decoding, **evaluated.seconds}.items()
            },
            "engine": model.engine,
            "device": model.device,
            "code": program(model_file, {**values, **files}, answer.facts, model.device, labels),
        }

    # New files.

    def save_contract(
        self, model: OpenModel, name: object, contract: ImageContract, inputs: Sequence[str]
    ) -> str | bytes:
        """Writes a copy of a model with a contract: beside it, and opens it; or without a name, for a download.

        Args:
            model: the model.
            name: of the new file, which must not exist; None for a download.
            contract: of all the inputs that take pictures.
            inputs: their names.

        Returns:
            The key of the new model, or the bytes of the file.
        """
        source = model.require_file()
        if name is None:
            path = self.new_file(".onnx")
            try:
                write_contract(source, path, contract, inputs)
                return Path(path).read_bytes()
            finally:
                Path(path).unlink(missing_ok=True)
        if not model.is_here:
            raise InvalidArgumentError("The model was dropped on the page, so it has no folder.", hint="Download it.")
        with self._new_file_beside(source, str(name)) as path:
            write_contract(source, path, contract, inputs)
        return self.open_model(path)

    @contextmanager
    def _new_file_beside(self, source: str, name: str) -> Iterator[str]:
        """The path of a new file in a model's folder: an empty file reserves the name until the block has written it.

        Raises:
            InvalidArgumentError: not the name of a model file.
            StorageExistsError: the file exists.
            StorageAccessError: the file cannot be written.
        """
        if not re.fullmatch(r"\w[\w .()+-]*\.onnx", name):  # on any system, in no other folder
            raise InvalidArgumentError(
                f"{name!r} is not a plain name of a model file.",
                hint="Use letters, digits, spaces and ._()+-, and end with .onnx.",
            )
        path = Path(source).with_name(name)
        with written_to(path):
            try:
                path.open("x").close()
            except FileExistsError:
                raise StorageExistsError(f"{name}: This file exists beside the model.") from None
        self._reserved.add(path)
        try:
            with removed_on_error(str(path)):
                yield str(path)
        finally:
            self._reserved.discard(path)


def _close_model(model: OpenModel) -> None:
    model.close()
    if not model.is_here:
        Path(model.path).unlink(missing_ok=True)


def _remove_copy(picture: PictureOnDisk) -> None:
    if not picture.is_here:
        Path(picture.path).unlink(missing_ok=True)


@contextmanager
def removed_on_error(path: str) -> Iterator[None]:
    """Removes a file if the block fails."""
    try:
        yield
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
