"""What a replica costs: processor time to open it, and memory that no other process shares.

Usage: ``python benchmarks/bench_replicas.py [--models A,B] [--rows A,B] [--repeat N]
[--write FOLDER]``

One model gives a table of all kinds of replicas, several give one of models beside the libraries.

Every replica is a process of its own. It first opens a model of one node in the same way, so that
libraries are imported; what is measured comes on top of that: processor seconds of opening, user
and system, until threads that wait by spinning are asleep, and private dirty memory once it is open
and has been idle. A bundle was opened on this machine before, so it is not hashed again. A library
used directly and subgraphkit take turns, and two replicas of a kind are open at the same time, so
that memory which they could share is there to be shared.
"""

import argparse
import gc
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "numpy_backend")]
from measuring import (  # noqa: E402 (after the path, like its neighbour)
    THREADS,
    Table,
    base_parser,
    limit_threads,
    machine,
    show,
    store_csv,
)

limit_threads()
from architectures import ARCHITECTURES, find_export  # noqa: E402 (imports NumPy)

_TINY: Final = b"""<ir_version: 9, opset_import: ["": 20]>
tiny (float[2, 2] x) => (float[2, 2] y) { y = MatMul(x, x) }"""
_MEBIBYTE: Final = 1 << 20
_ASLEEP: Final = 0.3
"""Seconds after which no thread spins any more."""
_SETTLED: Final = 2.5
"""Seconds after which a file that was written is remembered when it was hashed."""
_SMAPS: Final = Path("/proc/self/smaps_rollup")

SETTINGS: Final[Mapping[str, Any]] = {
    "on_fallback": "ok",
    "nan_policy": "ignore",
}

Open = Callable[[str], Any]


def main() -> None:
    """Measure each kind of replica of each model, and print a table for each model."""
    parser = base_parser("What a replica costs to open and to keep.", repeat=3)
    parser.add_argument("--models", default="bert_base", help="separated by commas, or 'all'")
    parser.add_argument("--rows", help="kinds of replicas, separated by commas")
    parser.add_argument("--at-once", type=int, default=2, help="replicas of a kind (default: 2)")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write a CSV file there")
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
        usual = OF_ONE if len(names) == 1 else OF_MANY
        kinds = arguments.rows.split(",") if arguments.rows else usual
        measured = {}
        for name in names:
            measured[name] = _of_model(name, kinds, arguments.repeat, arguments.at_once)
            print(name, measured[name], file=sys.stderr, flush=True)
        one = _table(names[0], measured[names[0]]) if len(names) == 1 else _models(measured)
        show(one, markdown=arguments.markdown)
        if arguments.write:
            store_csv(arguments.write, [one])


def _of_model(
    name: str, kinds: Sequence[str], repeat: int, count: int
) -> dict[str, dict[str, float]]:
    """Measure one model, kinds taking turns; return medians."""
    model = find_export(name)
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="subgraphkit-replicas-") as folder:
        places = {kind: _place(kind, model, Path(folder)) for kind in kinds}
        for _ in range(repeat):
            for kind in kinds:
                found[kind] += _replicas(kind, places[kind], count)
    return {
        kind: {what: statistics.median(one[what] for one in ones) for what in ones[0]}
        for kind, ones in found.items()
        if ones
    }


def _place(kind: str, model: Path, folder: Path) -> str:
    """Return the file that replicas of a kind open, or the bundle, which is made now."""
    if kind.endswith("data outside"):
        return str(_with_data_outside(model, folder))
    if "bundle" not in kind:
        return str(model)
    backend = kind.rsplit(maxsplit=1)[-1]
    bundle = folder / backend.partition(":")[0]
    if not bundle.exists():
        command = [sys.executable, __file__, "--bundle", str(model), backend, str(bundle)]
        subprocess.run(command, check=True)
    return str(bundle)


def _with_data_outside(model: Path, folder: Path) -> Path:
    import onnx  # noqa: PLC0415 (not in replicas)

    outside = folder / "outside.onnx"
    onnx.save(onnx.load(model), outside, save_as_external_data=True, location="outside.data")
    return outside


def _export(model: str, backend: str, bundle: str) -> None:
    import subgraphkit as sk  # noqa: PLC0415 (not in replicas of other libraries)

    with sk.config(**SETTINGS, cache=False), sk.InferenceSession(model, backend) as session:
        session.export(bundle)
    time.sleep(_SETTLED)
    _subgraphkit(f"bundle on {backend}")(bundle).close()


def _replicas(kind: str, place: str, count: int) -> list[dict[str, float]]:
    command = [sys.executable, __file__, "--child", kind, place]
    with ExitStack() as stack:
        children = []
        for _ in range(count):
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(child)
            children.append(child)
            if child.stdout is None or not child.stdout.readline():
                return []  # what a library cannot open has said why
        found = []
        for child in children:
            answer, _ = child.communicate("measure\n")
            found.append(json.loads(answer))
    return found


def _be_a_replica(kind: str, place: str) -> None:
    """Open a model, say so, and when asked say what that took."""
    opening = ROWS[kind](kind)
    tiny = opening(_tiny())
    time.sleep(_ASLEEP)
    before, seconds = _memory(), time.process_time()
    replica = opening(place)
    time.sleep(_ASLEEP)
    taken = time.process_time() - seconds
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


def _memory() -> dict[str, int]:
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB$", _SMAPS.read_text(), re.MULTILINE))
    return {"private": int(fields["Private_Dirty"]) << 10, "pss": int(fields["Pss"]) << 10}


def _subgraphkit(kind: str) -> Open:
    import subgraphkit as sk  # noqa: PLC0415 (not in replicas of other libraries)

    backend = kind.rsplit(maxsplit=1)[-1]

    def opened(place: str) -> Any:
        is_bundle = Path(place).is_dir()
        chosen = None if is_bundle else backend
        kept = {"cache": is_bundle, "cache_dir": str(Path(place).parent / "cache")}
        name, _, given = backend.partition(":")
        options = {name: dict([given.split("=")])} if given and chosen is None else None
        with sk.config(**SETTINGS, **kept, threads=THREADS):
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
    "onnxruntime itself, data outside": _onnxruntime,
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

OF_ONE: Final = tuple(ROWS)
OF_MANY: Final = tuple(kind for kind in ROWS if kind.endswith(("e itself", "o itself")))
OF_MANY += ("model on onnxruntime", "model on openvino")


def _models(measured: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """Return a row for each model: the libraries themselves, and how we compare."""
    libraries = [kind for kind in OF_MANY if kind.endswith("itself")]
    ratios: dict[tuple[str, str], list[float]] = {}
    rows = []
    for name, found in measured.items():
        row = [name]
        for library in libraries:
            own, ours = found.get(library), found.get(f"model on {library.split()[0]}")
            row.append(f"{own['seconds']:.2f} s, {own['private']:.0f} MiB" if own else "-")
            for what in ("seconds", "private"):
                ratio = ours[what] / own[what] if own and ours else None
                row.append("-" if ratio is None else f"{ratio:.2f}")
                ratios.setdefault((library, what), []).extend([ratio] if ratio else [])
        rows.append(row)
    mean = ["geometric mean"]
    for library in libraries:
        of = [ratios[library, what] for what in ("seconds", "private")]
        mean += ["", *(f"{statistics.geometric_mean(one):.2f}" if one else "-" for one in of)]
    columns = ["model"]
    for library in libraries:
        columns += [library, "to open here", "MiB here"]
    notes = ["Processor seconds to open and private memory; here: ratios to the library itself."]
    return Table("Opening a model", columns, [*rows, mean], [*notes, f"{machine()}."])


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
    notes = ["Ratios are to the library itself.", f"{machine()}."]
    return Table(f"Replicas of {name}", columns, rows, notes)


def _library_of(kind: str) -> str:
    library = kind.rsplit(maxsplit=1)[-1].partition(":")
    return f"{library[0]} itself" + (", unpacked" if "prepack" in library[2] else "")


if __name__ == "__main__":
    main()
