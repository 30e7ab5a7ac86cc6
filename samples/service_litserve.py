"""A service that classifies pictures over HTTP, with LitServe. It evaluates together what arrives at the same time.

    pip install litserve
    python samples/service_litserve.py [PORT [MODEL]]
    curl --data-binary @samples/pictures/seven.png 127.0.0.1:8000/predict

Clients are not trusted: the size, the pixels and the time of a request are limited, what is no picture is refused
before it reaches the worker, and the picture of a client that leaves is not evaluated. Nor is the model: its engine has
a process of its own, and if that ends, the worker goes on with another one. On SIGTERM or Ctrl-C, it stops its worker,
too.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NoReturn
from uuid import uuid4

import litserve
from fastapi import Depends, HTTPException, Request
from fastapi.responses import JSONResponse
from litserve.loops import BatchedLoop
from starlette.requests import ClientDisconnect

from winml_py import (
    ImageFeatureValue,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    LearningModelSessionOptions,
    PictureError,
)

DIGITS = Path(__file__).parent.parent / "models" / "digits.onnx"
MOST_BYTES, MOST_PIXELS, MOST_SECONDS = 8 << 20, 24_000_000, 10
MOST_TOGETHER, GATHER_SECONDS = 16, 0.005


async def body_of(request: Request) -> bytes:
    """Receives a request whole, and refuses what holds no picture."""
    body = bytearray()
    try:
        async with asyncio.timeout(MOST_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MOST_BYTES:
                    raise HTTPException(413, f"Send at most {MOST_BYTES} bytes.")
        ImageFeatureValue.load(bytes(body), fast_decode=True, max_pixels=MOST_PIXELS)  # reads the head alone
    except TimeoutError:
        raise HTTPException(408, f"Send within {MOST_SECONDS} seconds.") from None
    except PictureError as error:
        raise HTTPException(415, str(error)) from None
    except ClientDisconnect:
        raise HTTPException(400, "The client has left.") from None
    return bytes(body)


async def file_of(request: Request, body: Annotated[bytes, Depends(body_of)]) -> AsyncIterator[Path]:
    """A file that holds the picture until it is answered. LitServe would send its bytes through two more processes."""
    path = Path(request.app.state.folder, uuid4().hex)
    path.write_bytes(body)
    leaving = asyncio.ensure_future(take_away(request, path))
    try:
        yield path
    finally:
        leaving.cancel()
        path.unlink(missing_ok=True)


async def take_away(request: Request, path: Path) -> None:
    """Removes the picture of a client that leaves: the worker does not evaluate it."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    path.unlink(missing_ok=True)


class Gathering(BatchedLoop):
    """Waits for the first request of a batch, where LitServe's own loop asks for one a thousand times a second."""

    def get_batch_requests(self, lit_api: Any, request_queue: Any, transport: Any) -> tuple[list[Any], list[Any]]:
        together: list[Any] = []
        late: list[Any] = []
        with suppress(Empty):
            while len(together) < MOST_TOGETHER:
                server, request, arrived, picture = request_queue.get(timeout=GATHER_SECONDS if together else None)
                if time.monotonic() - arrived > MOST_SECONDS:
                    late.append((server, request))
                else:
                    together.append((server, request, picture))
        return together, late


class Pictures(litserve.LitAPI):
    """Runs in a process of its own."""

    def __init__(self, model: str | Path) -> None:
        super().__init__(max_batch_size=MOST_TOGETHER, loop=Gathering())
        self.path = model

    def setup(self, device: str) -> None:
        self.options = LearningModelSessionOptions()
        self.options.intra_op_num_threads, self.options.batch_size_override = 1, 0  # each picture on a core
        self.options.isolation = "process"
        self.session = LearningModelSession(LearningModel.load(self.path), None, self.options)

    def decode_request(self, request: Annotated[Path, Depends(file_of)]) -> bytes:
        try:
            return request.read_bytes()
        except FileNotFoundError:
            return b""  # nobody waits for it any more

    def batch(self, inputs: list[bytes]) -> list[bytes]:
        return inputs

    def predict(self, x: list[bytes]) -> list[LearningModelEvaluationResult]:
        if self.session.is_lost:  # a picture before these ended the process of its engine
            self.session.close()
            self.session = LearningModelSession(LearningModel.load(self.path), None, self.options)
        return list(self.session.evaluate_many(x, fast_decode=True))

    def unbatch(self, output: list[LearningModelEvaluationResult]) -> list[LearningModelEvaluationResult]:
        return output

    def encode_response(self, output: LearningModelEvaluationResult) -> Any:
        if output.succeeded:
            return [asdict(best) for best in output.top_k(3)]
        status = 415 if isinstance(output.error, PictureError) else 500
        return JSONResponse({"detail": str(output.error)}, status)


def stop(service: int, *_: object) -> NoReturn:
    """Ends the service with its processes. Without it, SIGTERM would end the first of them alone."""
    if os.getpid() == service:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt
    sys.exit()


def main() -> None:
    port, model = (int(sys.argv[1]) if sys.argv[1:] else 8000), (sys.argv[2] if sys.argv[2:] else DIGITS)
    signal.signal(signal.SIGTERM, partial(stop, os.getpid()))
    server = litserve.LitServer(Pictures(model), accelerator="cpu", timeout=MOST_SECONDS)
    with TemporaryDirectory() as server.app.state.folder:
        server.run(host="127.0.0.1", port=port, log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    main()
