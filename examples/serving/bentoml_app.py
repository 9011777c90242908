"""A web service on BentoML: ``MODEL_SPEC=spec.json bentoml serve bentoml_app:Answers``."""

import os
from pathlib import Path

import bentoml
import numpy as np
import numpy.typing as npt

import subgraphkit as sk

SPEC = sk.SessionSpec.from_json(Path(os.environ["MODEL_SPEC"]).read_text(encoding="utf-8"))


@bentoml.service(workers=2)
class Answers:
    """One session in each worker."""

    def __init__(self) -> None:
        self.session = SPEC.get()
        self.session.warm_up()

    @bentoml.api
    async def answers(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Answer a batch."""
        (result,) = await self.session.arun({"x": x}, timeout=5.0)
        return result
