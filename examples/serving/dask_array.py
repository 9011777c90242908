"""Blocks of a Dask array, answered in the processes of a cluster.

``python dask_array.py MODEL ROWS.npy ANSWERS.npy``
"""

import sys
from typing import Any

import dask.array
import numpy as np

import subgraphkit as sk


def answer(rows: Any, spec: sk.SessionSpec) -> Any:
    """Answer a block, in whichever process has it."""
    return spec.get().run(None, {"x": rows})[0]


def main(model: str, source: str, target: str) -> None:
    """Answer in processes of this machine; with a Client of a cluster, on its workers."""
    spec = sk.SessionSpec.of(model, threads=1)
    rows = dask.array.from_array(np.load(source), chunks=(8, -1, -1, -1))
    answers = rows.map_blocks(answer, spec, dtype=np.float32, chunks=(rows.chunks[0], 4, 8, 8))
    np.save(target, answers.compute(scheduler="processes", num_workers=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
