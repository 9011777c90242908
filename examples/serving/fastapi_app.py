"""A web service on FastAPI: ``MODEL_SPEC=spec.json uvicorn fastapi_app:app``."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

import subgraphkit as sk

SPEC = sk.SessionSpec.from_json(Path(os.environ["MODEL_SPEC"]).read_text(encoding="utf-8"))
STATUS = {"caller": 400, "model": 500, "backend": 500, "machine": 503}
SECONDS = 5.0


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the session before the first request is taken, and close it after the last."""
    with SPEC.open() as session:
        session.warm_up()
        app.state.session = session
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(sk.SubgraphkitError)
async def refuse(_: Request, error: sk.SubgraphkitError) -> JSONResponse:
    """Say whose fault it is: 400 is the caller's, 500 the service's, 503 may be gone later."""
    return JSONResponse({"code": error.code, "detail": error.message}, STATUS[error.fault])


@app.post("/answers")
async def answers(rows: list[Any]) -> list[Any]:
    """Answer a batch; the event loop goes on meanwhile."""
    feeds = {"x": np.asarray(rows, np.float32)}
    (result,) = await app.state.session.arun(feeds, timeout=SECONDS)
    return result.tolist()


@app.get("/health")
def health() -> None:
    """Be healthy as long as the model runs: an error of this run is the answer."""
    app.state.session.ping()
