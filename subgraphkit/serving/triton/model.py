"""The ``model.py`` that is copied beside a spec, where Triton's Python backend looks for it.

It is the same for every model. The stub that runs it ignores ``PYTHONPATH`` and environments, so
the folder of packages is a parameter of the model's configuration.
"""

import json
import site
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["TritonPythonModel"]


class TritonPythonModel:
    """The class that Triton asks for."""

    def initialize(self, arguments: Mapping[str, str]) -> None:
        """Open the session of the spec that is in the folder of this version."""
        packages = json.loads(arguments["model_config"])["parameters"].get("packages")
        if packages is not None:
            folder = Path(packages["string_value"])
            site.addsitedir(str(folder))
            # child processes are of the Python that has these packages, not of the first on PATH
            python = folder.parents[2] / "bin" / "python3"
            sys.executable = str(python) if python.exists() else sys.executable
        import triton_python_backend_utils as backend_utils  # noqa: PLC0415 (only Triton has it)

        from subgraphkit.serving.triton import ServedModel  # noqa: PLC0415 (found from here on)

        self._model = ServedModel(Path(__file__).with_name("spec.json"), backend_utils)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer what Triton has gathered."""
        return self._model.execute(requests)

    def finalize(self) -> None:
        """Close the session."""
        self._model.close()
