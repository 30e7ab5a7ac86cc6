"""A service that classifies pictures over HTTP, with LitServe. It evaluates requests together that arrive together.

    pip install litserve
    python samples/service_litserve.py [PORT [MODEL]]
    curl --data-binary @samples/pictures/seven.png 127.0.0.1:8000/predict

The service limits the size, the pixels and the time of a request. It refuses data that are not a picture before they
reach the worker. The engine runs in its own process. If a model crashes this process, the worker continues with a new
one. `winml-py serve` does the same and more, and needs no program.
"""

import asyncio
import os
import signal
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import litserve
from fastapi import Depends, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from winml_py import (
    ImageFeatureValue,
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    LearningModelSessionOptions,
    PictureError,
)
from winml_py.errors import EngineLostError

DIGITS = Path(__file__).parent.parent / "models" / "digits.onnx"
MOST_BYTES, MOST_PIXELS, MOST_SECONDS, MOST_TOGETHER = 8 << 20, 24_000_000, 10, 16


async def body_of(request: Request) -> bytes:
    """Receives a whole request, and refuses it if it holds no picture."""
    body = bytearray()
    try:
        async with asyncio.timeout(MOST_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MOST_BYTES:
                    raise HTTPException(413, f"Send at most {MOST_BYTES} bytes.")
        ImageFeatureValue.load(bytes(body), fast_decode=True, max_pixels=MOST_PIXELS)  # reads only the header
    except TimeoutError:
        raise HTTPException(408, f"Send within {MOST_SECONDS} seconds.") from None
    except PictureError as error:
        raise HTTPException(415, str(error)) from None
    except ClientDisconnect:
        raise HTTPException(400, "The client has left.") from None
    return bytes(body)


class Pictures(litserve.LitAPI):
    """Runs in its own process."""

    def __init__(self, model: str | Path) -> None:
        super().__init__(max_batch_size=MOST_TOGETHER)
        self.path = model

    def setup(self, device: str) -> None:
        self.options = LearningModelSessionOptions()
        self.options.intra_op_num_threads, self.options.batch_size_override = 1, 0  # each picture on a core
        self.options.isolation = "process"
        self.session = LearningModelSession(LearningModel.load(self.path), None, self.options)

    def decode_request(self, request: Annotated[bytes, Depends(body_of)]) -> bytes:
        return request

    def batch(self, inputs: list[bytes]) -> list[bytes]:
        return inputs

    def predict(self, x: list[bytes]) -> list[LearningModelEvaluationResult]:
        if self.session.is_lost:  # an earlier picture ended the process of the engine
            self.session.close()
            self.session = LearningModelSession(LearningModel.load(self.path), None, self.options)
        try:
            return list(self.session.evaluate_many(x, fast_decode=True))
        except EngineLostError as error:  # one of these pictures ended it
            return [LearningModelEvaluationResult("", {}, error)] * len(x)

    def unbatch(self, output: list[LearningModelEvaluationResult]) -> list[LearningModelEvaluationResult]:
        return output

    def encode_response(self, output: LearningModelEvaluationResult) -> Any:
        if output.succeeded:
            return [asdict(best) for best in output.top_k(3)]
        status = 415 if isinstance(output.error, PictureError) else 500
        return JSONResponse({"detail": str(output.error)}, status)


def stop(service: int, *_: object) -> NoReturn:
    """Ends the service with its processes. Without this, SIGTERM would end only the first one."""
    if os.getpid() == service:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt
    sys.exit()


def main() -> None:
    port, model = (int(sys.argv[1]) if sys.argv[1:] else 8000), (sys.argv[2] if sys.argv[2:] else DIGITS)
    signal.signal(signal.SIGTERM, partial(stop, os.getpid()))
    server = litserve.LitServer(Pictures(model), accelerator="cpu", timeout=MOST_SECONDS)
    server.run(host="127.0.0.1", port=port, log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    main()
