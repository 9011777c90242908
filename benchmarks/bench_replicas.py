"""What a replica costs: processor time to open it, and memory that no other process shares.

Usage: ``python benchmarks/bench_replicas.py [--models A,B] [--rows A,B] [--repeat N]``

Every replica is a process of its own. It first opens a model of one node in the same way, so that
libraries are imported; what is measured comes on top of that: processor seconds of opening, user
and system, and private dirty memory once it is open and has been idle. A library used directly and
subgraphkit take turns, and two replicas of a kind are open at the same time, so that memory which
they could share is there to be shared.
"""

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "numpy_backend")]
from measuring import THREADS, Table, base_parser, limit_threads, show  # noqa: E402 (see above)

limit_threads()
from architectures import ARCHITECTURES, find_export  # noqa: E402 (imports NumPy)

_TINY: Final = b"""<ir_version: 9, opset_import: ["": 20]>
tiny (float[2, 2] x) => (float[2, 2] y) { y = MatMul(x, x) }"""
_MEBIBYTE: Final = 1 << 20
_SMAPS: Final = Path("/proc/self/smaps_rollup")
_AT_ONCE: Final = 2

Open = Callable[[str], Any]


def main() -> None:
    """Measure each kind of replica of each model, and print a table for each model."""
    parser = base_parser("What a replica costs to open and to keep.", repeat=3)
    parser.add_argument("--models", default="bert_base", help="separated by commas, or 'all'")
    parser.add_argument("--rows", default=",".join(ROWS), help="kinds of replicas")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--bundle", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _be_a_replica(*arguments.child)
    elif arguments.bundle:
        _export(*arguments.bundle)
    else:
        wanted = arguments.models
        names = list(ARCHITECTURES) if wanted == "all" else wanted.split(",")
        kinds = arguments.rows.split(",")
        measured = {name: _of_model(name, kinds, arguments.repeat) for name in names}
        for name, found in measured.items():
            show(_table(name, found), markdown=arguments.markdown)


def _of_model(name: str, kinds: Sequence[str], repeat: int) -> dict[str, dict[str, float]]:
    """Measure one model, kinds taking turns; return medians."""
    model = find_export(name)
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="subgraphkit-replicas-") as folder:
        places = {kind: _place(kind, model, Path(folder)) for kind in kinds}
        for _ in range(repeat):
            for kind in kinds:
                found[kind] += _replicas(kind, places[kind])
    return {
        kind: {what: statistics.median(one[what] for one in ones) for what in ones[0]}
        for kind, ones in found.items()
    }


def _place(kind: str, model: Path, folder: Path) -> str:
    """Return the file that replicas of a kind open, or the bundle, which is made now."""
    if "bundle" not in kind:
        return str(model)
    backend = kind.rsplit(maxsplit=1)[-1]
    bundle = folder / backend.partition(":")[0]
    if not bundle.exists():
        command = [sys.executable, __file__, "--bundle", str(model), backend, str(bundle)]
        subprocess.run(command, check=True)
    return str(bundle)


def _export(model: str, backend: str, bundle: str) -> None:
    import subgraphkit as sk  # noqa: PLC0415 (not in replicas of other libraries)

    with sk.config(cache=False), sk.InferenceSession(model, backend) as session:
        session.export(bundle)


def _replicas(kind: str, place: str) -> list[dict[str, float]]:
    command = [sys.executable, __file__, "--child", kind, place]
    with ExitStack() as stack:
        children = []
        for _ in range(_AT_ONCE):
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(child)
            children.append(child)
            if child.stdout is None or not child.stdout.readline():
                raise SystemExit(f"{kind} cannot be opened")
        found = []
        for child in children:
            answer, _ = child.communicate("measure\n")
            found.append(json.loads(answer))
    return found


def _be_a_replica(kind: str, place: str) -> None:
    """Open a model, say so, and when asked say what that took."""
    opening = ROWS[kind](kind)
    tiny = opening(_tiny())
    before, seconds = _memory(), _processor_seconds()
    replica = opening(place)
    taken = _processor_seconds() - seconds
    print("open", flush=True)
    sys.stdin.readline()
    gc.collect()
    after = _memory()
    grown = {what: (after[what] - before[what]) / _MEBIBYTE for what in after}
    print(json.dumps({"seconds": taken, **grown}), flush=True)
    del tiny, replica


def _tiny() -> str:
    path = Path(tempfile.gettempdir(), "subgraphkit_replicas_tiny.onnx")
    import onnx  # noqa: PLC0415 (not in replicas of other libraries, once the file is there)

    onnx.save(onnx.parser.parse_model(_TINY.decode()), path)
    return str(path)


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _memory() -> dict[str, int]:
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB$", _SMAPS.read_text(), re.MULTILINE))
    return {"private": int(fields["Private_Dirty"]) << 10, "pss": int(fields["Pss"]) << 10}


def _subgraphkit(kind: str) -> Open:
    import subgraphkit as sk  # noqa: PLC0415 (not in replicas of other libraries)

    backend = kind.rsplit(maxsplit=1)[-1]

    def opened(place: str) -> Any:
        chosen = None if Path(place).is_dir() else backend
        name, _, given = backend.partition(":")
        options = {name: dict([given.split("=")])} if given and chosen is None else None
        with sk.config(cache=False, on_fallback="ok", threads=THREADS):
            return sk.InferenceSession(place, chosen, options=options)

    return opened


def _onnxruntime(kind: str) -> Open:
    import onnxruntime  # noqa: PLC0415 (not in replicas of other libraries)

    def opened(place: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = THREADS
        if kind.endswith("unpacked"):
            options.add_session_config_entry("session.disable_prepacking", "1")
        return onnxruntime.InferenceSession(place, options)

    return opened


def _openvino(_: str) -> Open:
    import openvino  # noqa: PLC0415 (not in replicas of other libraries)

    core = openvino.Core()
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": THREADS}

    def opened(place: str) -> Any:
        compiled = core.compile_model(place, "CPU", settings)
        return compiled, compiled.create_infer_request()

    return opened


ROWS: Final[Mapping[str, Callable[[str], Open]]] = {
    "onnxruntime itself": _onnxruntime,
    "model on onnxruntime": _subgraphkit,
    "bundle on onnxruntime": _subgraphkit,
    "onnxruntime itself, unpacked": _onnxruntime,
    "bundle on onnxruntime:prepack=false": _subgraphkit,
    "openvino itself": _openvino,
    "model on openvino": _subgraphkit,
    "bundle on openvino": _subgraphkit,
    "model on numpy": _subgraphkit,
    "bundle on numpy": _subgraphkit,
}


def _table(name: str, found: Mapping[str, Mapping[str, float]]) -> Table:
    rows = []
    for kind, one in found.items():
        own = found.get(_library_of(kind))
        ratios = ["", ""]
        if own is not None and own is not one:
            ratios = [f"{one[what] / own[what]:.2f}" for what in ("seconds", "private")]
        cells = [f"{one['seconds']:.2f} s", ratios[0], f"{one['private']:.0f}", ratios[1]]
        rows.append([kind, *cells, f"{one['pss']:.0f}"])
    columns = ["replica", "to open", "ratio", "private MiB", "ratio", "share MiB"]
    notes = [f"{_AT_ONCE} replicas at once; ratios are to the library itself."]
    return Table(f"Replicas of {name}", columns, rows, notes)


def _library_of(kind: str) -> str:
    library = kind.rsplit(maxsplit=1)[-1].partition(":")
    return f"{library[0]} itself" + (", unpacked" if "prepack" in library[2] else "")


if __name__ == "__main__":
    main()
