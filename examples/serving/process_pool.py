"""A pool of processes: each opens, once, the session that a spec describes, and answers batches.

``python process_pool.py MODEL ROWS.npy ANSWERS.npy [spawn | forkserver | fork]``
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

import subgraphkit as sk

PROCESSES = 2


def answer(spec: sk.SessionSpec, rows: Any) -> Any:
    """Answer a batch; ``get`` opens the session when a process asks for the first time."""
    return spec.get().run(None, {"x": rows})[0]


def main(model: str, source: str, target: str, method: str = "spawn") -> None:
    """Send the spec, a few hundred bytes, and the batches; get the answers in their order."""
    spec = sk.SessionSpec.of(model, threads=1)
    batches = np.array_split(np.load(source), 8)
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context(method)) as pool:
        answers = list(pool.map(partial(answer, spec), batches))
    np.save(target, np.concatenate(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
