"""A DataLoader of PyTorch whose workers run a model on what they load.

``python data_loader.py MODEL ROWS.npy ANSWERS.npy [spawn | forkserver | fork]``
"""

import sys
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import subgraphkit as sk


class Answered(Dataset[Any]):
    """Rows of a file, each as a model sees it; the workers get the file's name and the spec."""

    def __init__(self, source: str, spec: sk.SessionSpec) -> None:
        self.rows = np.load(source, mmap_mode="r")
        self.spec = spec

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        """Answer one row, in whichever process asks."""
        (answers,) = self.spec.get().run(None, {"x": self.rows[index : index + 1]})
        return torch.from_numpy(answers[0])


def main(model: str, source: str, target: str, method: str = "spawn") -> None:
    """Load everything with two workers, in order."""
    rows = Answered(source, sk.SessionSpec.of(model, threads=1))
    loader = DataLoader(rows, batch_size=4, num_workers=2, multiprocessing_context=method)
    np.save(target, torch.cat(list(loader)).numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
