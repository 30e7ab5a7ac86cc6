"""What the page works on: models, pictures, and the evaluations that were asked for, one at a time."""

from __future__ import annotations

import math
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..authoring.write_contract import write_contract
from ..core.base.arrays import Array
from ..core.base.atomic_files import require_another_file
from ..core.base.messages import Facts
from ..core.contracts.files import read_contract
from ..core.features.descriptors import FeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, NotBoundError, StorageExistsError
from ..inputs.model import Case
from ..inputs.trial import Running
from ..perf.measure import Stopwatch
from .code import PictureFile, program
from .facts import (
    MODEL,
    OWN,
    answer_of,
    number_facts,
    placement_facts,
    png_of,
    small_file,
    tensor_as_picture,
    tensor_facts,
)
from .opened import OpenModel, PictureOnDisk, file_of, plain_name
from .switches import contract_facts, contract_of
from .values import make_up, read_value, spell_value
from .worker import Evaluated, Job, Worker, stated

T = TypeVar("T")

MOST_PIXELS = 50_000_000
"""Of a picture that the page is given: 200 MB once it is decoded."""

_KEPT = {"pictures": 48, "models": 48, "evaluations": 32}
"""So many the page can be asked for again, the latest ones."""

_KEPT_BYTES = 256 << 20
"""Of the tensors of evaluations."""

_SESSIONS = 2
"""Models whose session stays open."""

_ROOT = Path(__file__).parents[2]
_SAMPLES = {"digits.onnx": "seven.png", "shapes.onnx": "shapes.png", "edges.onnx": "cat.jpg"}
"""Models of the repository, each with a picture to begin with."""


class Kept(NamedTuple):
    """An evaluation whose pictures the page may ask for.

    Attributes:
        tensors: what was bound, by input.
        contracts: how pictures were, by input.
        model: the model's own contract, where it states one.
        pictures: makes the files of the answer's pictures.
    """

    tensors: dict[str, Array]
    contracts: dict[str, ImageContract]
    model: ImageContract | None
    pictures: Sequence[Callable[[], bytes]]


class Workbench:
    """All of it. Its methods may be called from any thread.

    Args:
        device: where models run, as `winml-py run --device` has it.
        labels: names of the classes, for models that have none.
        seconds: so long an evaluation may take.

    Attributes:
        first_model: what the page shows at first, or "".
        first_picture: the same of a picture.
        folder: for files that go with the workbench.
    """

    def __init__(self, device: str = "cpu", labels: Sequence[str] = (), seconds: float = 60.0) -> None:
        self.device, self._labels, self.seconds = device, tuple(labels), seconds
        self.folder = tempfile.mkdtemp(prefix="winml-py-view-")
        self._lock, self._turn = threading.RLock(), threading.Lock()
        self._models: OrderedDict[str, OpenModel] = OrderedDict()
        self._pictures: OrderedDict[str, PictureOnDisk] = OrderedDict()
        self._evaluations: OrderedDict[str, Kept] = OrderedDict()
        self._decoded: tuple[str, ImageFeatureValue, float] | None = None
        self._jobs: dict[str, Job] = {}
        self.running = Running()  # what the pages of the graph evaluate
        self.first_model = self.first_picture = self._current = ""
        self._case = Case("", device=device)

    # What the pages of the graph ask for.

    @property
    def path(self) -> str | None:
        """The file of the model that was opened or evaluated last."""
        with self._lock:
            opened = self._models.get(self._current)
            return opened.path or None if opened else None

    @property
    def title(self) -> tuple[str, bool]:
        """What that file is called, and whether it lies in a folder of the user's."""
        with self._lock:
            opened = self._models.get(self._current)
            return (opened.name, opened.is_here) if opened else ("", False)

    def case(self) -> Case:
        """That model, where it runs, and on what it was evaluated last."""
        with self._lock:
            path = self.path or ""
            return self._case if self._case.model == path else Case(path, device=self.device)

    # Models.

    def open_model(self, path: str, name: str = "", *, is_here: bool = True) -> str:
        """Loads a model; gives what it is asked for by.

        Raises:
            WinMLError: it cannot be loaded.
        """
        model = LearningModel.load(path)
        worker = Worker(model, Case(path, device=self.device))
        return self._keep_model(
            OpenModel(os.path.abspath(path), name or os.path.basename(path), model, worker, is_here)
        )

    def take_session(self, session: LearningModelSession | LearningModel) -> str:
        """The same for what a program has: a session, which stays its own, or a model."""
        model = session.model if isinstance(session, LearningModelSession) else session
        path, own = file_of(model), session if isinstance(session, LearningModelSession) else None
        worker = Worker(model, Case(path, device=self.device), own)
        return self._keep_model(
            OpenModel(path, os.path.basename(path) or model.name or "model", model, worker, bool(path))
        )

    def _keep_model(self, opened: OpenModel) -> str:
        key = secrets.token_hex(8)
        with self._lock:
            self._models[key], self._current = opened, key
            gone = self._shorten(self._models, _KEPT["models"])
        for each in gone:
            each.worker.close()
        return key

    def model_facts(self, key: str) -> Facts:
        """What the page shows of a model."""
        return {"id": key} | self._find(self._models, key, "model").facts()

    def upload_model(self, name: str, write: Callable[[str], None]) -> str:
        """Keeps the file that somebody dropped, and loads it."""
        path = self.new_file(".onnx")
        try:
            write(path)
            return self.open_model(path, plain_name(name, "model.onnx"), is_here=False)
        except BaseException:
            _remove(path)
            raise

    def save(self, key: str, words: object, name: str, inputs: Sequence[str], is_beside: bool) -> tuple[str, bytes]:
        """Writes the contract into a copy of a model.

        Args:
            key: the model.
            words: the contract.
            name: of the new file.
            inputs: those that take pictures.
            is_beside: whether it is written into the model's folder, and opened; else its bytes are given back.

        Returns:
            The new model, and "" of bytes; or nothing, and the bytes of the file.

        Raises:
            StorageExistsError: there is such a file.
            WinMLError: it cannot be written.
        """
        opened, contract = self._find(self._models, key, "model"), contract_of(words)
        if not opened.path:
            raise InvalidArgumentError("This model has no file.", hint="Save it first, and load it from its path.")
        if not is_beside or not opened.is_here:
            path = self.new_file(".onnx")
            try:
                write_contract(opened.path, path, contract, inputs)
                return "", Path(path).read_bytes()
            finally:
                _remove(path)
        if name != os.path.basename(name) or name.startswith(".") or not name.endswith(".onnx"):
            raise InvalidArgumentError(f"{name!r} is no name of a model's file.", hint="Write one such as fixed.onnx.")
        path = os.path.join(os.path.dirname(opened.path), name)
        if os.path.lexists(path):
            raise StorageExistsError(f"{name}: There is such a file beside the model.", hint="Name another.")
        require_another_file(path, opened.path)
        write_contract(opened.path, path, contract, inputs)
        return self.open_model(path), b""

    def read_config(self, values: object) -> ImageContract:
        """The contract that a config of another library's states.

        Raises:
            WinMLError: it states none.
        """
        if not isinstance(values, Mapping):
            raise InvalidArgumentError("A config is a JSON object.", hint="Such as a preprocessor_config.json.")
        return read_contract(values)

    def example(self, key: str, name: str) -> Facts:
        """A value that is made up for an input, as a field shows it."""
        return spell_value(make_up(self._feature(key, name)))

    def samples(self) -> list[Facts]:
        """The models of the repository, where this is one."""
        folder = _ROOT / "models"
        return [{"name": name} for name in _SAMPLES if (folder / name).is_file()]

    def open_sample(self, name: str) -> tuple[str, str]:
        """Opens a model of the repository, and its picture."""
        if name not in {sample["name"] for sample in self.samples()}:
            raise NotBoundError(f"There is no sample {name!r}.")
        picture = _ROOT / "samples" / "pictures" / _SAMPLES[name]
        return self.open_model(str(_ROOT / "models" / name)), self.open_picture(
            str(picture)
        ) if picture.is_file() else ""

    # Pictures.

    def open_picture(self, path: str, name: str = "", *, is_here: bool = True) -> str:
        """Keeps a picture; gives what it is asked for by.

        Raises:
            PictureError: it is none, or of more than 50 megapixels.
        """
        started = time.perf_counter()
        value = ImageFeatureValue.load(path, max_pixels=MOST_PIXELS)
        seconds = time.perf_counter() - started
        ((width, height),) = value.sizes
        key = secrets.token_hex(8)
        picture = PictureOnDisk(os.path.abspath(path), name or os.path.basename(path), is_here, width, height)
        with self._lock:
            self._pictures[key], self._decoded = picture, (key, value, seconds)
            gone = self._shorten(self._pictures, _KEPT["pictures"])
        for each in gone:
            if not each.is_here:
                _remove(each.path)
        return key

    def upload_picture(self, name: str, write: Callable[[str], None]) -> str:
        """Keeps the file that somebody dropped."""
        path = self.new_file("")
        try:
            write(path)
            return self.open_picture(path, plain_name(name, "picture.png"), is_here=False)
        except BaseException:
            _remove(path)
            raise

    def picture_facts(self, key: str) -> Facts:
        """What the page shows of a picture."""
        picture = self._find(self._pictures, key, "picture")
        return {"id": key, "name": picture.name, "width": picture.width, "height": picture.height}

    def picture_file(self, key: str) -> bytes:
        """The picture, upright, for looking at it."""
        return small_file(self._decode(key)[0].to_pil())

    def _decode(self, key: str) -> tuple[ImageFeatureValue, float]:
        """A picture's pixels, and how long it took to decode them; only the last one's are kept."""
        picture = self._find(self._pictures, key, "picture")
        with self._lock:
            if self._decoded is not None and self._decoded[0] == key:
                return self._decoded[1:]
        started = time.perf_counter()
        value = ImageFeatureValue.load(picture.path, max_pixels=MOST_PIXELS)
        seconds = time.perf_counter() - started
        with self._lock:
            self._decoded = (key, value, seconds)
        return value, seconds

    # Evaluations.

    def evaluate(self, asked: Mapping[str, Any]) -> Facts:
        """Evaluates what the page asks for.

        Args:
            asked: the `model`; for each of `inputs` a `picture`, a `text` or nothing, which is made up; the words of
                the `contract`; a `job` to stop it by.

        Raises:
            WinMLError: something is wrong with it, or with the model.
        """
        key, job = str(asked.get("model", "")), Job(self.seconds)
        opened = self._find(self._models, key, "model")
        name = str(asked.get("job", "")) or secrets.token_hex(8)
        with self._lock:
            if name in self._jobs:
                raise InvalidArgumentError("There is such a job already.")
            self._jobs[name] = job
        try:
            with self._turn:
                return self._evaluate(key, opened, asked, job)
        finally:
            with self._lock:
                del self._jobs[name]

    def cancel(self, name: str) -> bool:
        """Stops a job; says whether there is one."""
        with self._lock:
            job = self._jobs.get(name)
        if job is not None:
            job.cancel()
        return job is not None

    def _evaluate(self, key: str, opened: OpenModel, asked: Mapping[str, Any], job: Job) -> Facts:
        job.begin()
        inputs = asked.get("inputs", {})
        contract = contract_of(asked["contract"]) if asked.get("contract") else opened.contract
        watch, decoding, values, files = Stopwatch(), 0.0, {}, {}
        for name, feature in opened.features.items():
            given = inputs.get(name, {}) if isinstance(inputs, Mapping) else {}
            if "picture" in given:
                files[name] = self._find(self._pictures, str(given["picture"]), "picture")
                values[name], seconds = self._decode(str(given["picture"]))
                decoding += seconds
            else:
                values[name] = read_value(feature, str(given["text"])) if "text" in given else make_up(feature)
        self._keep_open(key)
        evaluated = opened.worker.evaluate(job, values, contract if files else None, watch)
        started = time.perf_counter()
        labels = () if opened.model.labels else self._labels
        answer = answer_of(evaluated, opened.model, values, labels, contract if files else None)
        reading = time.perf_counter() - started - answer.drawing
        contracts = {} if contract is None else {name: stated(contract, opened.model, name) for name in files}
        identity = self._keep(Kept(evaluated.tensors, contracts, opened.stated_contract, answer.pictures))
        with self._lock:
            self._current, self._case = key, self._case_of(opened, files, contract)
        spelled = {
            name: PictureFile(files[name].path if files[name].is_here else files[name].name, files[name].is_here)
            if name in files
            else value
            for name, value in values.items()
        }
        scores = [output["name"] for output in answer.facts["outputs"] if "classes" in output]
        return {
            "id": identity,
            "contract": None if contract is None or not files else contract_facts(contract),
            "inputs": [_input_facts(name, values[name], evaluated, contracts.get(name)) for name in opened.features],
            "answer": answer.facts,
            "times": _times(evaluated, decoding, reading),
            "engine": opened.worker.engine,
            "device": self.device,
            "code": program(
                opened.path if opened.is_here else opened.name,
                spelled,
                next(iter(contracts.values()), None),
                answer.kind,
                is_here=opened.is_here,
                device=self.device,
                labels=labels,
                output=(scores or [""])[0],
            ),
        }

    def _case_of(self, opened: OpenModel, files: Mapping[str, PictureOnDisk], contract: ImageContract | None) -> Case:
        """For the pages of the graph: with the pictures, where all inputs are some; else example inputs."""
        has_all = bool(files) and len(files) == len(opened.features)
        words = tuple(f"{name}={picture.path}" for name, picture in files.items()) if has_all else ()
        return Case(opened.path, words, self.device, contract=contract if has_all else None)

    def _keep_open(self, key: str) -> None:
        """Ends the sessions of models that have not been evaluated for long."""
        with self._lock:
            if key in self._models:
                self._models.move_to_end(key)
            others = [each for name, each in self._models.items() if name != key and each.worker.engine]
        for each in others[: max(0, len(others) + 1 - _SESSIONS)]:
            each.worker.close()

    def _keep(self, kept: Kept) -> str:
        identity = secrets.token_hex(8)
        with self._lock:
            self._evaluations[identity] = kept
            self._shorten(self._evaluations, _KEPT["evaluations"])
            sizes = {
                key: sum(tensor.nbytes for tensor in each.tensors.values()) for key, each in self._evaluations.items()
            }
            total = sum(sizes.values())
            while total > _KEPT_BYTES and len(self._evaluations) > 1:
                total -= sizes[self._evaluations.popitem(last=False)[0]]
        return identity

    def tensor_file(self, identity: str, name: str, reading: str = OWN, channel: int = -1) -> bytes:
        """The picture of a tensor that was bound.

        Raises:
            NotBoundError: it is not kept any more, or no picture's.
        """
        kept = self._find(self._evaluations, identity, "evaluation")
        if name not in kept.contracts or not -1 <= channel < kept.contracts[name].channels:
            raise NotBoundError(f"There is no such picture of the input {name!r}.")
        if reading == MODEL and kept.model is None:
            reading = OWN
        return png_of(tensor_as_picture(kept.tensors[name], kept.contracts[name], reading, kept.model, channel))

    def array_file(self, identity: str, name: str) -> bytes:
        """A tensor that was bound, as a .npy file."""
        import io

        kept = self._find(self._evaluations, identity, "evaluation")
        file = io.BytesIO()
        np.save(file, self._find(kept.tensors, name, "tensor"), allow_pickle=False)
        return file.getvalue()

    def answer_file(self, identity: str, number: int) -> bytes:
        """A picture of an answer."""
        pictures = self._find(self._evaluations, identity, "evaluation").pictures
        if not 0 <= number < len(pictures):
            raise NotBoundError(f"There is no picture {number} of this answer.")
        return pictures[number]()

    # Everything.

    def _find(self, among: Mapping[str, T], key: str, what: str) -> T:
        with self._lock:
            if key not in among:
                raise NotBoundError(f"This {what} is not kept any more.", hint="Open it again.")
            return among[key]

    def _feature(self, key: str, name: str) -> FeatureDescriptor:
        return self._find(self._find(self._models, key, "model").features, name, "input")

    @staticmethod
    def _shorten(kept: OrderedDict[str, T], most: int) -> list[T]:
        return [kept.popitem(last=False)[1] for _ in range(len(kept) - most)]

    def new_file(self, ending: str = "") -> str:
        """The path of a file that is not there yet, and goes with the workbench."""
        return os.path.join(self.folder, secrets.token_hex(8) + ending)

    def stop_all(self) -> None:
        """Stops every job."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        self.running.stop()

    def close(self) -> None:
        """Ends all sessions, with their processes, and removes what was dropped here. Twice is harmless."""
        self.stop_all()
        with self._lock:
            models, self._models = list(self._models.values()), OrderedDict()
        for each in models:
            each.worker.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _input_facts(name: str, value: object, evaluated: Evaluated, contract: ImageContract | None) -> Facts:
    facts: Facts = {"name": name}
    tensor = evaluated.tensors.get(name)
    if tensor is None:
        return facts
    if contract is None:
        return facts | {"array": {"type": tensor.dtype.name, "shape": list(tensor.shape)} | number_facts(tensor)}
    return facts | {
        "placement": placement_facts(evaluated.placements[name]),
        "tensor": tensor_facts(tensor, contract),
    }


def _times(evaluated: Evaluated, decoding: float, reading: float) -> dict[str, float]:
    """Milliseconds of each phase."""
    spent = evaluated.seconds
    phases = {name: spent.get(name, 0.0) for name in ("tensorize", "bind", "evaluate")}
    all_phases = {"decode": decoding, **phases, "back": spent.get("back", 0.0) + reading}
    return {name: round(seconds * 1e3, 3) for name, seconds in all_phases.items() if math.isfinite(seconds)}


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)
