"""A model served by Ray Serve, and updated while it is asked.

``python ray_models.py MODEL NEWER ROWS.npy ANSWERS.npy``
"""

import sys
from typing import Any

import numpy as np
from ray import serve

import subgraphkit as sk
from subgraphkit.serving.ray_serve import deployment


def served(model: str) -> Any:
    """Serve a model, or exchange the one that is served; return a handle."""
    made = deployment(sk.SessionSpec.of(model), name="m", max_batch=16, max_queued_requests=200)
    return serve.run(made.bind(), name="example", route_prefix="/example")


def main(model: str, newer: str, source: str, target: str) -> None:
    """Ask, with each row a request of its own; the second model answers the last half of them."""
    rows = np.split(np.load(source), len(np.load(source)))
    middle = len(rows) // 2
    handle = served(model)
    answers = [handle.remote({"x": row}) for row in rows[:middle]]
    handle = served(newer)
    answers += [handle.remote({"x": row}) for row in rows[middle:]]
    np.save(target, np.concatenate([answer.result()[0] for answer in answers]))


if __name__ == "__main__":
    main(*sys.argv[1:])
