"""The page's models, pictures and evaluations; each model runs one evaluation at a time."""

from __future__ import annotations

import io
import math
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from PIL import Image

from .._http import MAX_REQUEST_PIXELS
from .._inputs.model import Case
from ..authoring.write_contract import write_contract
from ..core.base.arrays import Array
from ..core.base.messages import Facts
from ..core.contracts.files import read_contract
from ..core.contracts.published.folder import find_model
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, ModelNotFoundError, NotBoundError, PictureError
from .code import PictureFile, program
from .facts import (
    MODEL,
    OWN,
    AnswerFacts,
    AnswerPicture,
    answer_of,
    number_facts,
    placement_facts,
    png_of,
    share_outside,
    small_file,
    tensor_as_picture,
    tensor_facts,
)
from .opened import OpenModel, PictureOnDisk, file_of, new_file_beside, plain_name
from .switches import contract_facts, contract_of
from .values import format_value, make_up, parse_value
from .worker import Evaluated, EvaluationJob, Worker

T = TypeVar("T")

MAX_JOBS = 20
"""The most concurrent evaluations. Each holds a thread, and the page needs some of its forty for the rest."""

_MAX_OPEN = 48
"""How many models, and how many pictures, stay available: the latest ones."""

_MAX_KEPT = 16
"""How many evaluations are cached, the latest ones."""

_SESSIONS = 2
"""How many idle models keep their session open."""


class Workbench:
    """The page's state. The methods may be called from any thread.

    Args:
        device: where models run, as in `winml-py run --device`.
        labels: class names, for models that have none.
        seconds: the time limit of an evaluation.
    """

    def __init__(self, device: str = "cpu", labels: Sequence[str] = (), seconds: float = 60.0) -> None:
        self.device, self._labels, self.seconds = device, tuple(labels), seconds
        self.folder = tempfile.mkdtemp(prefix="winml-py-view-")
        self._lock, self._decoding = threading.RLock(), threading.Lock()
        self._models: dict[str, OpenModel] = {}
        self._pictures: dict[str, PictureOnDisk] = {}
        self._decoded: tuple[str, ImageFeatureValue] | None = None
        self._jobs: dict[str, EvaluationJob] = {}
        self.kept = EvaluationCache()
        self.first_model = self.first_picture = self._latest = ""

    # Models.

    def find_model(self, key: str = "") -> OpenModel:
        """An open model; by default the one that was opened last."""
        if not key and not self._latest:
            raise ModelNotFoundError("There is no model file to show.", hint="Open a model first.")
        return self._find(self._models, key or self._latest, "model")

    def open_model(self, path: str, name: str = "", *, is_here: bool = True) -> str:
        """Loads a model; returns its key."""
        model = LearningModel.load(path)
        worker = Worker(model, Case(path, device=self.device))
        return self._keep_model(
            OpenModel(os.path.abspath(find_model(path)), name or os.path.basename(path), model, worker, is_here)
        )

    def take_session(self, session: LearningModelSession | LearningModel) -> str:
        """The same for a program's object: a session, which the page never closes, or a model."""
        model = session.model if isinstance(session, LearningModelSession) else session
        path, own, device = file_of(model), None, self.device
        if isinstance(session, LearningModelSession):
            own, device = session, "cpu" if session.device.hardware == "cpu" else session.device.name
        worker = Worker(model, Case(path, device=device), own)
        return self._keep_model(
            OpenModel(path, os.path.basename(path) or model.name or "model", model, worker, bool(path))
        )

    def _keep_model(self, opened: OpenModel) -> str:
        key = secrets.token_hex(8)
        with self._lock:
            self._models[key], self._latest = opened, key
            gone = self._shorten(self._models, self.first_model)
        for each in gone:
            each.worker.close()
            if not each.is_here and each.path:
                _remove(each.path)
        return key

    def model_facts(self, key: str) -> Facts:
        """The page's facts about a model."""
        return {"id": key} | self.find_model(key).facts()

    def upload_model(self, path: str, name: str) -> str:
        """Loads a dropped file, and keeps it."""
        with removed_on_error(path):
            return self.open_model(path, plain_name(name, "model.onnx"), is_here=False)

    def save(self, key: str, words: object, name: object, inputs: Sequence[str], is_beside: bool) -> tuple[str, bytes]:
        """Writes the contract into a copy of a model: beside it, and opens it; or returns the bytes of the file.

        Returns:
            The new model's key, and no bytes; or "", and the bytes of the file.
        """
        opened, contract = self.find_model(key), contract_of(words)
        if not opened.path:
            raise InvalidArgumentError("This model has no file.", hint="Save it first, and load it from its path.")
        if is_beside and opened.is_here:
            with new_file_beside(opened.path, name) as path:
                write_contract(opened.path, path, contract, inputs)
            return self.open_model(path), b""
        path = self.new_file(".onnx")
        try:
            write_contract(opened.path, path, contract, inputs)
            return "", Path(path).read_bytes()
        finally:
            _remove(path)

    def read_config(self, values: object) -> ImageContract:
        """The contract in another library's config."""
        if not isinstance(values, Mapping):
            raise InvalidArgumentError("Expected a JSON object.", hint="Such as a preprocessor_config.json.")
        return read_contract(values)

    def example(self, key: str, name: str) -> Facts:
        """An example value for an input, as text for a field."""
        feature = self.find_model(key).features.get(name)
        if feature is None:
            raise NotBoundError(f"The model has no input {name!r}.")
        return format_value(make_up(feature))

    # Pictures.

    def open_picture(self, path: str, name: str = "", *, is_here: bool = True) -> str:
        """Keeps a picture of at most 50 megapixels; returns its key."""
        with self._decoding:
            started = time.perf_counter()
            value = ImageFeatureValue.load(path, max_pixels=MAX_REQUEST_PIXELS)
            seconds = time.perf_counter() - started
        ((width, height),) = value.sizes
        key = secrets.token_hex(8)
        picture = PictureOnDisk(os.path.abspath(path), name or os.path.basename(path), is_here, width, height, seconds)
        with self._lock:
            self._pictures[key], self._decoded = picture, (key, value)
            gone = self._shorten(self._pictures, self.first_picture)
        for each in gone:
            if not each.is_here:
                _remove(each.path)
        return key

    def upload_picture(self, path: str, name: str) -> str:
        """Keeps a dropped picture file."""
        name = plain_name(name, "picture.png")
        with removed_on_error(path):
            try:
                return self.open_picture(path, name, is_here=False)
            except PictureError as error:  # its temporary name would tell the user nothing
                hint = "The page takes pictures of 50 megapixels at most."
                raise PictureError(error.message.replace(path, name), hint=hint) from error

    def picture_facts(self, key: str) -> Facts:
        """The page's facts about a picture."""
        picture = self._find(self._pictures, key, "picture")
        return {"id": key, "name": picture.name, "width": picture.width, "height": picture.height}

    def picture_file(self, key: str) -> bytes:
        """The picture, upright, for display."""
        return small_file(self._decode(key).to_pil())

    def _decode(self, key: str) -> ImageFeatureValue:
        """A picture's pixels; only the last picture's are cached."""
        picture = self._find(self._pictures, key, "picture")
        with self._decoding:  # one at a time: the largest need 200 MB each
            if self._decoded is None or self._decoded[0] != key:
                self._decoded = key, ImageFeatureValue.load(picture.path, max_pixels=MAX_REQUEST_PIXELS)
            return self._decoded[1]

    # Evaluations.

    def evaluate(self, asked: Mapping[str, Any]) -> Facts:
        """Evaluates a request of the page.

        Args:
            asked: the `model`; for each of `inputs` a `picture` with its `contract` as words, a `text`, or nothing
                for an example value; a `job` to stop it by. A `substitute` replaces all pictures. A
                trial (`is_trial`) returns only the answer and stores nothing.
        """
        key, job = str(asked.get("model", "")), EvaluationJob(self.seconds)
        opened = self._find(self._models, key, "model")
        name = str(asked.get("job", "")) or secrets.token_hex(8)
        with self._lock:
            if name in self._jobs:
                raise InvalidArgumentError("This job already exists.")
            if len(self._jobs) >= MAX_JOBS:
                raise InvalidArgumentError(f"{MAX_JOBS} evaluations are already waiting.")
            self._jobs[name] = job
        try:
            while not opened.turn.acquire(timeout=0.1):
                job.require_wanted()
            try:
                job.begin()
                self._close_others(key)
                inputs, is_trial = asked.get("inputs", {}), asked.get("is_trial") is True
                if not isinstance(inputs, Mapping) or not all(isinstance(each, Mapping) for each in inputs.values()):
                    raise InvalidArgumentError(
                        "Expected the inputs as an object of objects.", hint='Such as {"x": {"text": "1 2 3"}}.'
                    )
                return self._evaluate(opened, inputs, job, str(asked.get("substitute", "")), is_trial)
            finally:
                opened.turn.release()
        finally:
            with self._lock:
                del self._jobs[name]

    def cancel(self, name: str) -> bool:
        """Stops a job; returns whether there is one."""
        with self._lock:
            job = self._jobs.get(name)
        if job is not None:
            job.cancel()
        return job is not None

    def _evaluate(
        self, opened: OpenModel, inputs: Mapping[str, Mapping[str, Any]], job: EvaluationJob, other: str, is_trial: bool
    ) -> Facts:
        values, files, contracts = dict[str, Any](), dict[str, PictureOnDisk](), dict[str, ImageContract]()
        for name, feature in opened.features.items():
            given = inputs.get(name, {})
            if "picture" in given:
                key = str(given["picture"])
                files[name], values[name] = self._find(self._pictures, key, "picture"), self._decode(key)
                if other:
                    values[name] = _substitute(values[name], other)
                stated = contract_of(given["contract"]) if given.get("contract") else opened.contracts.get(name)
                if stated is not None:
                    contracts[name] = opened.complete(name, stated)
            else:
                values[name] = parse_value(feature, str(given["text"])) if "text" in given else make_up(feature)
        evaluated = opened.worker.evaluate(job, values, contracts, needs_times=not is_trial)
        labels = () if opened.model.labels else self._labels
        answer = answer_of(evaluated, opened.model, values, labels, contracts)
        if is_trial:
            return {"answer": answer.facts}
        opened.case = self._case_of(opened, files, contracts)
        return {
            "id": self.kept.keep(CachedEvaluation(evaluated.tensors, contracts, opened.stated, answer.pictures)),
            "inputs": [_input_facts(name, evaluated, contracts.get(name), opened) for name in opened.features],
            "answer": answer.facts,
            "times": _times(evaluated, sum(file.seconds for file in files.values())),
            "is_first": evaluated.is_first,
            "engine": opened.worker.engine,
            "device": opened.case.device,
            "code": _program(opened, values, files, contracts, answer, labels),
        }

    def _case_of(
        self, opened: OpenModel, files: Mapping[str, PictureOnDisk], contracts: Mapping[str, ImageContract]
    ) -> Case:
        """The case for the graph page: with the pictures, if all inputs are pictures of one contract; else examples."""
        is_one = len(set(contracts.values())) == 1 and len(contracts) == len(opened.features)
        words = tuple(f"{name}={picture.path}" for name, picture in files.items()) if is_one else ()
        return Case(opened.path, words, opened.case.device, contract=next(iter(contracts.values())) if is_one else None)

    def _close_others(self, key: str) -> None:
        """Ends the sessions of models that have been idle for long."""
        with self._lock:
            if key in self._models:
                self._models[key] = self._models.pop(key)
            others = [each for name, each in self._models.items() if name != key and each.worker.engine]
        for each in others[: max(0, len(others) + 1 - _SESSIONS)]:
            if each.turn.acquire(blocking=False):
                try:
                    each.worker.close()
                finally:
                    each.turn.release()

    # Everything.

    def _find(self, among: Mapping[str, T], key: str, what: str) -> T:
        with self._lock:
            if key not in among:
                raise NotBoundError(f"This {what} is no longer open.")
            return among[key]

    @staticmethod
    def _shorten(kept: dict[str, T], first: str) -> list[T]:
        """Drops the oldest, except for the page's first."""
        oldest = [key for key in kept if key != first][: max(0, len(kept) - _MAX_OPEN)]
        return [kept.pop(key) for key in oldest]

    def new_file(self, ending: str = "") -> str:
        """The path of a new file, which is removed with the workbench."""
        return os.path.join(self.folder, secrets.token_hex(8) + ending)

    def stop_all(self) -> None:
        """Stops all evaluations."""
        with self._lock:
            jobs, models = list(self._jobs.values()), list(self._models.values())
        for job in jobs:
            job.cancel()
        for each in models:
            each.running.stop()

    def close(self) -> None:
        """Ends all sessions, with their processes, and removes dropped files. Calling it twice is harmless."""
        self.stop_all()
        with self._lock:
            models, self._models = list(self._models.values()), {}
        for each in models:
            each.worker.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _program(
    opened: OpenModel,
    values: Mapping[str, Any],
    files: Mapping[str, PictureOnDisk],
    contracts: Mapping[str, ImageContract],
    answer: AnswerFacts,
    labels: Sequence[str],
) -> str:
    """The Python program for an evaluation. Files that were dropped on the page have only their name."""
    pictures = {
        name: PictureFile(file.path if file.is_here else file.name, file.is_here, contracts.get(name))
        for name, file in files.items()
    }
    return program(
        opened.path if opened.is_here else opened.name,
        {**values, **pictures},
        answer.kind,
        is_here=opened.is_here,
        device=opened.case.device,
        labels=labels,
        output=next((output["name"] for output in answer.facts["outputs"] if "classes" in output), ""),
    )


def _input_facts(name: str, evaluated: Evaluated, contract: ImageContract | None, opened: OpenModel) -> Facts:
    facts: Facts = {"name": name}
    tensor = evaluated.tensors.get(name)
    if tensor is None:
        return facts
    if contract is None:
        return facts | {"array": {"type": tensor.dtype.name, "shape": list(tensor.shape)} | number_facts(tensor)}
    if name in opened.stated:
        stated = opened.complete(name, opened.stated[name])
        facts |= {"is_as_stated": contract == stated}
        if contract.channels == stated.channels:
            facts |= {"outside": share_outside(tensor, replace(stated, layout=contract.layout))}
    return facts | {
        "contract": contract_facts(contract),
        "placement": placement_facts(evaluated.placements[name]),
        "tensor": tensor_facts(tensor, contract),
    }


def _times(evaluated: Evaluated, decoding: float) -> dict[str, float]:
    """The milliseconds of each phase."""
    all_phases = {"decode": decoding} | evaluated.seconds
    return {name: round(seconds * 1e3, 3) for name, seconds in all_phases.items() if math.isfinite(seconds)}


@contextmanager
def removed_on_error(path: str) -> Iterator[None]:
    """Removes a file if the block fails."""
    try:
        yield
    except BaseException:
        _remove(path)
        raise


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


# Substitutes for the given picture: an answer that is the same for all of them does not depend on the picture.


_SUBSTITUTES: dict[str, Callable[[Array], Array]] = {
    "turned": lambda pixels: pixels[::-1, ::-1],
    "black": np.zeros_like,
    "white": lambda pixels: np.full_like(pixels, 255),
    "noise": lambda pixels: np.random.default_rng(0).integers(0, 256, pixels.shape, np.uint8),
}
"""From a picture's pixels to its substitute's. "turned" is by 180 degrees."""


def _substitute(picture: ImageFeatureValue, name: str) -> ImageFeatureValue:
    """A picture of the same size, by a key of `_SUBSTITUTES`."""
    if name not in _SUBSTITUTES:
        raise InvalidArgumentError(f"Unknown substitute {name!r}.", hint=f"Known: {', '.join(_SUBSTITUTES)}.")
    image = picture.to_pil().convert("RGB")
    return ImageFeatureValue.from_pil(Image.fromarray(np.ascontiguousarray(_SUBSTITUTES[name](np.asarray(image)))))


# The last evaluations, whose tensors and pictures the page may request.


class CachedEvaluation(NamedTuple):
    """An evaluation: its tensors, its contracts and the model's own by input, and the pictures of its answer."""

    tensors: Mapping[str, Array]
    contracts: Mapping[str, ImageContract]
    stated: Mapping[str, ImageContract]
    pictures: Sequence[AnswerPicture]


class EvaluationCache:
    """The cached evaluations. The methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, CachedEvaluation] = {}

    def keep(self, evaluation: CachedEvaluation) -> str:
        """Caches one, and drops the oldest; returns its identity."""
        identity = secrets.token_hex(8)
        with self._lock:
            self._kept[identity] = evaluation
            if len(self._kept) > _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        return identity

    def tensor_file(self, identity: str, name: str, reading: str = OWN, channel: int = -1) -> bytes:
        """The picture of a bound tensor."""
        kept = self._find(identity)
        if name not in kept.contracts or not -1 <= channel < kept.contracts[name].channels:
            raise NotBoundError(f"There is no such picture of the input {name!r}.")
        stated = kept.stated.get(name)
        reading = OWN if reading == MODEL and stated is None else reading
        return png_of(tensor_as_picture(kept.tensors[name], kept.contracts[name], reading, stated, channel))

    def array_file(self, identity: str, name: str) -> bytes:
        """A bound tensor, as a .npy file."""
        tensors = self._find(identity).tensors
        if name not in tensors:
            raise NotBoundError(f"The input {name!r} is not a tensor.")
        file = io.BytesIO()
        np.save(file, tensors[name], allow_pickle=False)
        return file.getvalue()

    def answer_file(self, identity: str, number: str) -> bytes:
        """A picture of an answer, by its number."""
        pictures = {str(at): picture for at, picture in enumerate(self._find(identity).pictures)}
        if number not in pictures:
            raise NotBoundError("There is no such picture of this answer.")
        picture = pictures[number]
        return picture if isinstance(picture, bytes) else png_of(picture)

    def _find(self, identity: str) -> CachedEvaluation:
        with self._lock:
            if identity not in self._kept:
                raise NotBoundError("This evaluation is no longer cached.")
            return self._kept[identity]
