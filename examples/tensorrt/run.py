"""Run a network on TensorRT where there is one, otherwise on NumPy, and say which and why.

``SUBGRAPH_BACKEND`` is ``tensorrt?,numpy`` unless it is set: the question mark means that a machine
without TensorRT or without a GPU is no error.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

import numpy as np

import subgraphkit as sk
from subgraphkit.errors import SubgraphkitError
from subgraphkit.testing.light_models import LIGHT_MODELS, seeded_feeds, seeded_model

TOLERANCE = 5e-3
"""Of the largest output; TensorRT may multiply float32 in ten bits (TF32)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it.

    Args:
        argv: The command line without the program's name; by default the process's own.

    Returns:
        0 if the answer is that of NumPy, otherwise 1; 1 as well if subgraphkit says why it cannot
        run.
    """
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("model", nargs="?", default="squeezenet", choices=LIGHT_MODELS)
    name = parser.parse_args(argv).model
    os.environ.setdefault("SUBGRAPH_BACKEND", "tensorrt?,numpy")
    # Why an optional backend is left out is told here.
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("subgraphkit.registry").setLevel(logging.INFO)
    try:
        return _run(name)
    except SubgraphkitError as error:  # such as a backend that was named and cannot run
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(name: str) -> int:
    model = seeded_model(name)  # real graph, random weights
    feeds = seeded_feeds(model)
    with sk.InferenceSession(model) as session:
        print(session.partitioning.report())
        answer = session.run(None, feeds)[0]
        used = {subgraph.backend for subgraph in session.partitioning.subgraphs}
    print(f"ran on: {', '.join(sorted(used))}")
    if used == {"numpy"}:
        return 0
    with sk.InferenceSession(model, backend="numpy") as session:
        expected = session.run(None, feeds)[0]
    error = float(np.abs(answer - expected).max() / np.abs(expected).max())
    print(f"error against numpy: {error:.1e}, {TOLERANCE:.0e} allowed")
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
