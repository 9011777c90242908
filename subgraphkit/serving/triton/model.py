"""The ``model.py`` that is copied beside a spec, where Triton's Python backend looks for it.

It is the same for every model. The stub that runs it ignores ``PYTHONPATH`` and environments. Once
this file is read, the stub imports NumPy itself. So a file beside it has the folder of packages,
and is read at once.
"""

import site
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def _use_packages(file: Path) -> None:
    """Import from the folder that a file names, and start children of the Python it belongs to."""
    folder = Path(file.read_text(encoding="utf-8") if file.exists() else "")
    if folder.is_absolute() and folder.is_dir():
        site.addsitedir(str(folder))
        python = folder.parents[2] / "bin" / "python3"
        sys.executable = str(python) if python.exists() else sys.executable


_use_packages(Path(__file__).with_name("packages.txt"))


class TritonPythonModel:
    """The class that Triton asks for."""

    def initialize(self, _: Mapping[str, str]) -> None:
        """Open the session of the spec that is in the folder of this version."""
        import triton_python_backend_utils as backend_utils  # noqa: PLC0415 (only Triton has it)

        from subgraphkit.serving.triton import ServedModel  # noqa: PLC0415 (found from here on)

        self._model = ServedModel(Path(__file__).with_name("spec.json"), backend_utils)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer the requests that Triton has gathered."""
        return self._model.execute(requests)

    def finalize(self) -> None:
        """Close the session."""
        self._model.close()
