"""Scripts that belong to no package, loaded by their path."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["BENCHMARKS", "EXAMPLES", "load_script"]

ROOT: Final = Path(__file__).resolve().parents[1]
EXAMPLES: Final = ROOT / "examples"
BENCHMARKS: Final = ROOT / "benchmarks"


def load_script(path: Path) -> ModuleType:
    """Import a script without running its main part; a script is imported once."""
    name = f"script_{path.parent.name}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being imported
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
