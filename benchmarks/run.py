"""Run benchmarks, each in a process of its own, and print the tables.

Without names, all those are run that need nothing but this checkout; the others read networks
exported from PyTorch, see ``numpy_backend/exporting.py``, ``backends``, ``exchange``,
``forecast``, ``kit``, ``neighbours``, ``operators``, ``placement``, ``real_models``, ``stream`` and
``transparency`` use whatever backends are installed, ``tensorrt_build`` needs TensorRT for RTX and
``tensorrt_overhead`` the backend for TensorRT alone,
``precision`` the exports and ONNX Runtime, ``replicas`` the exports and whatever libraries are
installed, and ``report`` Playwright and Chromium.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from measuring import machine

BENCHMARKS = ("import", "overhead", "isolation", "road", "models")
EXPORTED = ("latency", "where", "memory")
COMPARED = (
    "backends",
    "exchange",
    "forecast",
    "kit",
    "neighbours",
    "operators",
    "placement",
    "real_models",
    "transparency",
    "tensorrt_build",
    "tensorrt_overhead",
)
OTHERS = ("precision", "replicas", "report", "stream")
BUSY = 1.0


def main() -> int:
    """Run the benchmarks named, or all that need no exports.

    Returns:
        The number of benchmarks that failed.
    """
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    known = (*BENCHMARKS, *EXPORTED, *COMPARED, *OTHERS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--markdown", action="store_true", help="write Markdown tables")
    parser.add_argument("--repeat", type=int, help="times to measure, instead of the defaults")
    arguments = parser.parse_args()
    unknown = set(arguments.names).difference(known)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    options = ["--markdown"] if arguments.markdown else []
    if arguments.repeat is not None:
        options += ["--repeat", str(arguments.repeat)]
    print(f"{machine()}\n", flush=True)
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY:
        load = os.getloadavg()[0]
        print(f"The machine is busy (load {load:.1f}): these figures say little.\n", flush=True)
    failed = 0
    for name in arguments.names or BENCHMARKS:
        script = Path(__file__).parent / _folder(name) / f"bench_{name}.py"
        done = subprocess.run([sys.executable, str(script), *options], check=False)
        failed += done.returncode != 0
    return failed


def _folder(name: str) -> str:
    if name in COMPARED:
        return "backends"
    return "numpy_backend" if name in EXPORTED else ""


if __name__ == "__main__":
    sys.exit(main())
