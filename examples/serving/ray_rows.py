"""Rows of a dataset through a model, on actors of Ray Data.

``python ray_rows.py MODEL IN OUT``; both are folders of Parquet files, the rows have a column
``id`` and one for each input of the model.
"""

import sys

import ray

import subgraphkit as sk
from subgraphkit.serving.ray_data import map_batches


def main(model: str, source: str, target: str) -> None:
    """Send the spec; each actor opens the session once, and takes batches as it is free."""
    spec = sk.SessionSpec.of(model)
    rows = ray.data.read_parquet(source)
    answers = map_batches(rows, spec, keep=["id"], batch_size=16, replicas=(1, 2), num_cpus=1)
    answers.write_parquet(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
