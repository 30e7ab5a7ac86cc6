"""Several devices: the CPU prepares the values of an item, and whichever device is free evaluates them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

from ...errors import DeviceLostError
from ..evaluation.compiled import Compiled
from ..evaluation.picture_inputs import PictureInputs
from ..evaluation.result import LearningModelEvaluationResult, placed
from ..features.bind_properties import BindProperties
from ..features.resolve import Pictures, resolve
from .jobs import spelling
from .runners import Features, Properties, Runner

OTHER_SLOTS = 2
"""Items at once on a device that is not the CPU: one is computed while the other is sent."""


class Lane:
    """One device, by the runner of its session.

    Attributes:
        runner: evaluates there.
        slots: how many items it takes at once.
        is_cpu: whether it is the CPU.
        in_use: how many it has.
    """

    def __init__(self, runner: Runner, slots: int, is_cpu: bool) -> None:
        self.runner, self.slots, self.is_cpu, self.in_use = runner, slots, is_cpu, 0


class Lanes:
    """The devices that are left, and who is free."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._left = list(lanes)
        self._changed = threading.Condition()
        self._loss: DeviceLostError | None = None

    def take(self) -> Lane:
        """The device that has the least to do, of several the first; waits until one is free.

        Raises:
            DeviceLostError: all have been lost.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._left or self._free())
            if not self._left:
                assert self._loss is not None  # only a loss takes a lane away
                raise self._loss
            lane = min(self._free(), key=lambda lane: lane.in_use / lane.slots)
            lane.in_use += 1
            return lane

    def _free(self) -> list[Lane]:
        return [lane for lane in self._left if lane.in_use < lane.slots]

    def give_back(self, lane: Lane) -> None:
        """The lane has room for an item again."""
        with self._changed:
            lane.in_use -= 1
            self._changed.notify_all()

    def drop(self, lane: Lane, loss: DeviceLostError) -> None:
        """The lane's device has gone."""
        with self._changed:
            self._loss = loss
            if lane in self._left:
                self._left.remove(lane)
            self._changed.notify_all()


class DevicesRunner:
    """Evaluates on several devices. Pictures are tensorized by the CPU, so that any device can take them.

    Args:
        lanes: the devices.
        compiled: one of the sessions; all of them have the same model.
        properties: of binds, by the names of inputs.
    """

    def __init__(self, lanes: Sequence[Lane], compiled: Compiled, properties: Properties) -> None:
        self._lanes, self._runners = Lanes(lanes), [lane.runner for lane in lanes]
        self._preparation = Preparation(compiled, properties)

    def run(self, features: Features) -> LearningModelEvaluationResult:
        """Evaluates the values of one item, on another device where the one it is on gets lost.

        Raises:
            DeviceLostError: all devices have been lost.
            WinMLError: as `bind` and `evaluate` do.
        """
        with self._preparation.prepared(features) as (values, pictures):
            while True:
                lane = self._lanes.take()
                try:
                    return placed(lane.runner.run(values), pictures.placements)
                except DeviceLostError as loss:
                    self._lanes.drop(lane, loss)
                finally:
                    self._lanes.give_back(lane)

    def clear(self) -> None:
        """Lets go of the memory that is kept for the next item."""
        self._preparation.clear()
        for runner in self._runners:
            runner.clear()


class Preparation:
    """Turns pictures into tensors in the host's memory, and leaves other values as they are."""

    def __init__(self, compiled: Compiled, properties: Properties) -> None:
        self._compiled = compiled
        self._properties = {
            name: BindProperties.read(properties.get(name), compiled.is_silent) for name in compiled.inputs
        }
        self._spelling = spelling(compiled.inputs)
        self._kept: SimpleQueue[PictureInputs] = SimpleQueue()

    @contextmanager
    def prepared(self, features: Features) -> Iterator[tuple[dict[str, Any], PictureInputs]]:
        """The values to bind, and where pictures lie in them; the memory is reused after the block.

        Raises:
            WinMLError: as `bind` does for a picture.
        """
        pictures = self._host_pictures()
        pictures.placements.clear()  # those of the item before
        yield {name: self._value(name, value, pictures) for name, value in features.items()}, pictures
        self._kept.put(pictures)  # not where it failed: a device that is lost may still read the memory

    def _host_pictures(self) -> PictureInputs:
        try:
            return self._kept.get_nowait()
        except Empty:
            pictures = PictureInputs(self._compiled)
            pictures.device_tensorizer = None
            return pictures

    def _value(self, name: str, value: Any, pictures: PictureInputs) -> Any:
        if name not in self._spelling:  # an output's, or unknown
            return value
        feature, properties = self._compiled.inputs[self._spelling[name]], self._properties[self._spelling[name]]
        found = resolve(value, feature, properties)
        if not isinstance(found, Pictures):
            return value
        tensor = pictures.tensors[feature.name] = pictures.write(found)
        self._compiled.missing_contracts.tell(found, properties)
        return tensor

    def clear(self) -> None:
        """Lets go of the memory."""
        while True:
            try:
                self._kept.get_nowait()
            except Empty:
                return
