"""A service that sees pictures over HTTP, with FastAPI: it answers with the best classes, or of a detector with the
objects. It evaluates together what arrives at the same time.

    pip install fastapi 'uvicorn[standard]'
    python samples/service_fastapi.py [PORT [MODEL]]
    curl --data-binary @samples/pictures/seven.png 127.0.0.1:8000

Clients are not trusted: the size, the pixels and the time of a request are limited, what is no picture is refused, and
the work for a client that leaves is dropped. Nor is the model: its engine has a process of its own, and if that ends,
the service goes on with another one. On SIGTERM or Ctrl-C, requests that run are answered first.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from starlette.requests import ClientDisconnect

from winml_py import (
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    LearningModelSessionOptions,
    PictureError,
    WinMLError,
)
from winml_py.vision import detections

DIGITS = Path(__file__).parent.parent / "models" / "digits.onnx"
MOST_BYTES, MOST_PIXELS, MOST_SECONDS = 8 << 20, 24_000_000, 10
MOST_TOGETHER, MOST_WAITING = 16, 256


class Waiting(NamedTuple):
    picture: ImageFeatureValue
    answer: "asyncio.Future[LearningModelEvaluationResult]"


class Batches:
    """Evaluates pictures together: while some are evaluated, the next ones gather."""

    def __init__(self, model: LearningModel) -> None:
        self.model, self.options = model, LearningModelSessionOptions()
        self.options.intra_op_num_threads, self.options.batch_size_override = 1, 0  # each picture on a core
        self.options.isolation = "process"
        self.session = LearningModelSession(model, None, self.options)
        self.waiting: asyncio.Queue[Waiting] = asyncio.Queue(MOST_WAITING)

    async def evaluate(self, picture: ImageFeatureValue) -> LearningModelEvaluationResult:
        one = Waiting(picture, asyncio.get_running_loop().create_future())
        try:
            self.waiting.put_nowait(one)
        except asyncio.QueueFull:
            raise HTTPException(503, "Too many requests wait.") from None
        return await one.answer  # a client that leaves cancels it

    async def run(self) -> None:
        while True:
            together = [await self.waiting.get()]
            while len(together) < MOST_TOGETHER and not self.waiting.empty():
                together.append(self.waiting.get_nowait())
            together = [one for one in together if not one.answer.done()]
            try:
                results = await asyncio.to_thread(self.results, [one.picture for one in together])
            except WinMLError as error:  # the process of the engine has ended, say
                results = [LearningModelEvaluationResult("", {}, error)] * len(together)
            for one, result in zip(together, results, strict=True):
                if not one.answer.done():
                    one.answer.set_result(result)

    def results(self, pictures: list[ImageFeatureValue]) -> list[LearningModelEvaluationResult]:
        if self.session.is_lost:  # a picture before these ended the process of its engine
            self.session.close()
            self.session = LearningModelSession(self.model, None, self.options)
        return list(self.session.evaluate_many(pictures))


def seen_in(result: LearningModelEvaluationResult) -> list[dict[str, Any]]:
    """The best classes; of a model without one row of scores, the objects: boxes are left, top, right, bottom."""
    if result.error is not None:
        raise result.error
    try:
        return [asdict(best) for best in result.top_k(3)]
    except InvalidArgumentError:  # no output is one row of scores
        objects = detections(result)
    return [{"label": one.label, "index": one.index, "score": one.score, "box": one.box.tolist()} for one in objects]


async def body_of(request: Request) -> bytes:
    too_large = HTTPException(413, f"Send at most {MOST_BYTES} bytes.")
    if int(request.headers.get("content-length", 0)) > MOST_BYTES:
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise too_large
    return bytes(body)


async def gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def unless_gone(request: Request, work: Any) -> LearningModelEvaluationResult:
    """The result of the work, which is cancelled when the client leaves."""
    tasks = asyncio.ensure_future(work), asyncio.ensure_future(gone(request))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnect
        return tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()


def service(model: str | os.PathLike[str]) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batches = app.state.batches = Batches(LearningModel.load(model))
        running = asyncio.ensure_future(batches.run())
        yield
        running.cancel()
        batches.session.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.post("/")
    async def classify(request: Request) -> list[dict[str, Any]]:
        try:
            async with asyncio.timeout(MOST_SECONDS):
                # This reads the head alone; a thread decodes the picture.
                picture = ImageFeatureValue.load(await body_of(request), fast_decode=True, max_pixels=MOST_PIXELS)
                result = await unless_gone(request, app.state.batches.evaluate(picture))
        except TimeoutError:
            raise HTTPException(408, f"The request took more than {MOST_SECONDS} seconds.") from None
        except PictureError as error:
            raise HTTPException(415, str(error)) from None
        except ClientDisconnect:
            raise HTTPException(400, "The client has left.") from None
        try:
            return seen_in(result)
        except WinMLError as error:
            raise HTTPException(415 if isinstance(error, PictureError) else 500, str(error)) from None

    return app


def main() -> None:
    port, model = (int(sys.argv[1]) if sys.argv[1:] else 8000), (sys.argv[2] if sys.argv[2:] else DIGITS)
    uvicorn.run(
        service(model), host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=MOST_SECONDS
    )


if __name__ == "__main__":
    main()
