"""What ``import subgraphkit`` and the quick commands cost over a bare interpreter."""

import statistics
import subprocess
import sys
import time

from measuring import Table, base_parser, milliseconds, show

HEAVY = ("numpy", "onnx", "networkx", "pluggy", "ml_dtypes", "rich", "filelock", "platformdirs")

STATEMENTS = {
    "bare interpreter": "pass",
    "import subgraphkit": "import subgraphkit",
    "subgraphkit --help": "-m subgraphkit --help",
    "subgraphkit --version": "-m subgraphkit --version",
    "subgraphkit list": "-m subgraphkit list",
    "sk.load is looked up": "import subgraphkit; subgraphkit.load",
    "sk.InferenceSession is looked up": "import subgraphkit; subgraphkit.InferenceSession",
}

_REPORT = f"""
import atexit, sys
def tell():
    found = [name for name in {HEAVY!r} if name in sys.modules]
    sys.stderr.write(f"{{len(sys.modules)}} {{','.join(found) or 'none'}}")
atexit.register(tell)
"""


def main() -> None:
    """Measure in new processes, taking turns, and print the table."""
    arguments = base_parser(__doc__, repeat=15).parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(arguments.repeat):
        for name, statement in STATEMENTS.items():
            seconds[name].append(_seconds(statement))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    bare = medians["bare interpreter"]
    modules = {name: _modules(statement) for name, statement in STATEMENTS.items()}
    rows = [
        [name, milliseconds(taken), milliseconds(taken - bare), *modules[name]]
        for name, taken in medians.items()
    ]
    columns = ["process", "time", "over bare", "modules", "heavy ones"]
    note = f"Medians of {arguments.repeat} processes each, taking turns."
    show(Table("Import", columns, rows, [note]), markdown=arguments.markdown)


def _command(statement: str, prelude: str = "") -> list[str]:
    if not statement.startswith("-m "):
        return [sys.executable, "-c", prelude + statement]
    words = statement.removeprefix("-m subgraphkit").split()
    if not prelude:
        return [sys.executable, "-m", "subgraphkit", *words]
    program = f"from subgraphkit.cli import main; main({words!r})"
    return [sys.executable, "-c", prelude + program]


def _seconds(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run(_command(statement), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def _modules(statement: str) -> list[str]:
    """Return how many modules a process has loaded at its end, and which of the heavy ones."""
    command = _command(statement, _REPORT)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1].split(maxsplit=1)


if __name__ == "__main__":
    main()
