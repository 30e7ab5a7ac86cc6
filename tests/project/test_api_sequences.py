"""Random sequences of calls: our errors or right answers, and never a dead interpreter.

Each sequence opens models and sessions, binds values of every kind to names of every kind, evaluates, closes what it
likes when it likes, and goes on with what is closed. What comes out of a model that negates must be the negative of
what was bound; whatever is raised must be one of our errors.
"""

from __future__ import annotations

import math
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from PIL import Image

from helpers import damaged_files, paths, winml_models
from helpers.models import FLOAT16, INT64, STRING, TENSOR_CLASSES, unary
from helpers.odd_values import ODD_PROPERTIES, make_odd_values
from helpers.sessions import open_session
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    LearningModelSessionOptions,
    TensorFeatureDescriptor,
    TensorFloat,
    TensorKind,
    WinMLError,
)

MODELS = [
    unary("Neg", ["n"]),
    unary("Neg", [3]),
    unary("Neg", ["n", 2], FLOAT16),
    unary("Neg", [2], INT64),
    unary("Identity", [2], STRING),
    unary("Neg", [1, 3, 4, 4], denotation="IMAGE"),
    unary("Neg", ["n", 1, "h", "w"], denotation="IMAGE"),
    unary("Frobnicate", [1]),
    b"no model",
]
NAMES = ["x", "y", "X", "", "z", "\0", "x" * 1000]


def choose_value(rng: random.Random) -> Any:
    """Something to bind: what fits some of the models, or does not."""
    array = np.arange(rng.choice([0, 1, 2, 3, 4]), dtype=np.float32)
    fitting: list[Any] = [
        array,
        array.reshape(-1, 1)[::-1],
        array.astype(np.int64),
        np.zeros((rng.choice([1, 2]), rng.choice([1, 3]), 4, 4), np.float32),
        np.array(["a", "b"], object),
        TensorFloat.from_numpy(array),
        ImageFeatureValue.from_array(np.zeros((5, 7, 3), np.uint8), BitmapPixelFormat.RGB8),
        Image.new("L", (4, 9)),
    ]
    return rng.choice(fitting if rng.random() < 0.6 else make_odd_values())


class Sequence:
    """What one sequence has made so far, and the calls it can make."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.models: list[LearningModel] = []
        self.sessions: list[LearningModelSession] = []
        self.bindings: list[LearningModelBinding] = []
        self.tensors: list[Any] = []
        self.counts: Counter[str] = Counter()

    def run(self, length: int) -> Counter[str]:
        calls = [
            self.load,
            self.make_session,
            self.make_binding,
            *[self.bind] * 4,
            *[self.evaluate] * 3,
            self.evaluate_features,
            self.evaluate_async,
            self.close,
            self.look,
        ]
        for _ in range(length):
            call = self.rng.choice(calls)
            try:
                call()
                self.counts["done"] += 1
            except WinMLError:
                self.counts["refused"] += 1
        return self.counts

    def one_of(self, things: list[Any], make: Callable[[], Any]) -> Any:
        if not things:
            make()
        return self.rng.choice(things)

    def load(self) -> None:
        self.models.append(LearningModel.load(self.rng.choice(MODELS)))

    def make_session(self) -> None:
        options = self.rng.choice([None, LearningModelSessionOptions()])
        if options is not None:
            options.intra_op_num_threads = 1
            if self.rng.random() < 0.5:  # some models have no such dimension, and refuse it
                options.override_named_dimension("n", self.rng.choice([0, 1, 3]))
            options.close_model_on_session_creation = self.rng.random() < 0.2
        self.sessions.append(LearningModelSession(self.one_of(self.models, self.load), None, options))

    def make_binding(self) -> None:
        self.bindings.append(LearningModelBinding(self.one_of(self.sessions, self.make_session)))

    def bind(self) -> None:
        bound_value = choose_value(self.rng)
        if isinstance(bound_value, TensorFloat):
            self.tensors.append(bound_value)
        binding = self.one_of(self.bindings, self.make_binding)
        binding.bind(
            self.rng.choice(NAMES[:3] if self.rng.random() < 0.8 else NAMES),
            bound_value,
            self.rng.choice(ODD_PROPERTIES),
        )

    def evaluate(self) -> None:
        binding = self.one_of(self.bindings, self.make_binding)
        session = binding._session if self.rng.random() < 0.9 else self.rng.choice(self.sessions or [binding._session])
        require_negative(binding, session.evaluate(binding, timeout=self.rng.choice([None, None, 5])).outputs)

    def evaluate_features(self) -> None:
        session = self.one_of(self.sessions, self.make_session)
        session.evaluate_features({self.rng.choice(NAMES[:3]): choose_value(self.rng)})

    def evaluate_async(self) -> None:
        binding = self.one_of(self.bindings, self.make_binding)
        operation = binding._session.evaluate_async(binding)
        if self.rng.random() < 0.3:
            operation.cancel()
        operation.get(60)

    def close(self) -> None:
        things = self.rng.choice([self.models, self.sessions, self.tensors, self.bindings])
        if things:
            thing = self.rng.choice(things)
            thing.clear() if isinstance(thing, LearningModelBinding) else thing.close()
            if self.rng.random() < 0.5:
                things.remove(thing)

    def look(self) -> None:
        for things in (self.models, self.sessions, self.bindings, self.tensors):
            if things:
                repr(self.rng.choice(things))
        if self.sessions:
            session = self.rng.choice(self.sessions)
            _ = session.engine, session.precision, str(session.explain())


def require_negative(binding: LearningModelBinding, outputs: Any) -> None:
    """The answer must be the negative of what was bound, where that is an array of numbers."""
    bound, output = binding.get("x"), outputs["y"]
    if not isinstance(bound, np.ndarray) or bound.dtype.kind not in "fi" or not hasattr(output, "to_numpy"):
        return
    answer = output.to_numpy()
    if isinstance(answer, np.ndarray) and answer.shape == bound.shape and answer.dtype == bound.dtype:
        np.testing.assert_array_equal(answer, -bound)


def test_a_sample_of_sequences() -> None:
    counts: Counter[str] = Counter()
    for number in range(150):
        counts += Sequence(random.Random(f"1 {number}")).run(20)
    assert counts["done"] > 500
    assert counts["refused"] > 500


@pytest.mark.parametrize(
    "model",
    [
        unary(shape=(1, 3, 4, 6), denotation="IMAGE"),
        unary(shape=(1, 3, 4, 6), denotation="IMAGE", element=FLOAT16),
        unary(shape=(2, "n")),
        unary(element=STRING),
        unary(shape=()),
        unary(shape=(3,), element=TensorProto.INT8),
    ],
    ids=["image", "half image", "tensor", "strings", "scalar", "int8"],
)
def test_every_odd_value_under_every_odd_property(model: bytes) -> None:
    session = open_session(model)
    counts: Counter[str] = Counter()
    for feature, odd_value, properties in product("xy", make_odd_values(), ODD_PROPERTIES):
        binding = LearningModelBinding(session)
        try:
            binding.bind(feature, odd_value, properties)
            if feature == "x":
                session.evaluate(binding)
            counts["done"] += 1
        except WinMLError as error:
            assert str(error).strip()  # noqa: PT017  # the loop goes on
            counts["refused"] += 1
    assert counts["done"] > 0
    assert counts["refused"] > 500


def evaluate_damaged(data: bytes) -> str:
    """What becomes of a model: it is evaluated, compiled if its inputs are none that can be made up, or refused."""
    try:
        with LearningModel.load(data) as model, open_session(data, intra_op_num_threads=1) as session:
            features = {}
            for feature in model.input_features:
                if not isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
                    return "compiled"
                shape = [size if size >= 0 else 2 for size in feature.shape]
                if math.prod(shape) > 1 << 20 or feature.tensor_kind in (TensorKind.STRING, TensorKind.UNDEFINED):
                    return "compiled"
                features[feature.name] = np.zeros(shape, TENSOR_CLASSES[feature.tensor_kind].dtype)
            session.evaluate_features(features)
            return "evaluated"
    except WinMLError:
        return "refused"


def test_damaged_models_are_evaluated_or_refused() -> None:
    """In another process: none may end it."""
    models = [path.read_bytes() for path in sorted(paths.MODELS.glob("*.onnx")) if path.stat().st_size < 40_000]
    models += [
        *MODELS[:-1],
        winml_models.candy("Bgr8", (8, 8)),
        winml_models.zipmap(INT64),
        winml_models.sequence_construct(),
    ]
    damaged = [damaged_files.damage(models[number % len(models)], random.Random(number)) for number in range(150)]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        counts = Counter(pool.map(evaluate_damaged, damaged))
    assert counts["refused"] > 50
    assert counts["evaluated"] >= 3
