"""Memory as `plan --memory` tells it ahead, beside the memory that a session then takes.

Usage: ``python benchmarks/backends/bench_forecast.py [--models NAME ...] [--backends A,B]
[--repeat N] [--save FILE] [--write FOLDER]``

Every model and backend has a process of its own. It first runs a model of one node there, so that
the library is there, and takes its resident memory as the baseline. Then it loads the model, asks
what it will take, opens it and runs it. *To open* is the peak from loading it to a session that is
ready; *to run* the peak of the runs after that; both less the baseline. The figures in the backends
were found on the exported networks; those whose names begin with ``light_`` were looked at when
that was done. They added two rules, that of folded scales and that convolutions work in no more
than their own size allows; the figures of oneDNN were chosen with them in view.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "numpy_backend")]
from measuring import (  # noqa: E402 (after the paths, like its neighbours)
    THREADS,
    Table,
    base_parser,
    limit_threads,
    machine,
    show,
    store_csv,
)

limit_threads()
import numpy as np  # noqa: E402 (reads the number of threads when imported)
from architectures import ARCHITECTURES, find_export, seeded_feeds  # noqa: E402 (imports NumPy)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)
from subgraphkit.processes.memory import peak_bytes, resident_bytes  # noqa: E402 (as above)
from subgraphkit.testing import light_models as light  # noqa: E402 (as above)

ALLOWED: Final = 0.15
HELD_BACK: Final = tuple(f"light_{name}" for name in light.LIGHT_MODELS)

_MEBIBYTE: Final = 1 << 20
_PATIENCE: Final = 300.0
_TINY: Final = b"""<ir_version: 9, opset_import: ["": 20]>
tiny (float[2, 2] x) => (float[2, 2] y) { y = MatMul(x, x) }"""

Row = dict[str, Any]


def main() -> None:
    """Measure what is not measured yet, and print or store the table."""
    parser = base_parser("Memory told ahead beside memory measured.", repeat=3)
    parser.add_argument("--models", nargs="+", default=[*ARCHITECTURES, *HELD_BACK])
    parser.add_argument("--backends", default="numpy,onnxruntime,openvino,onednn")
    parser.add_argument("--save", type=Path, help="keep what is measured here, as JSON")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write a CSV file there")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_measured(*arguments.child, arguments.repeat)))
        return
    saved = arguments.save
    rows: dict[str, Row] = json.loads(saved.read_text()) if saved and saved.exists() else {}
    for backend in arguments.backends.split(","):
        for name in arguments.models:
            if f"{name}|{backend}" not in rows:
                _model(name)
                rows[f"{name}|{backend}"] = _in_child(name, backend, arguments.repeat)
                if saved:
                    saved.write_text(json.dumps(rows, indent=1) + "\n")
    table = _table(rows, arguments.repeat)
    show(table, markdown=arguments.markdown)
    if arguments.write:
        store_csv(arguments.write, [table])


def _in_child(name: str, backend: str, runs: int) -> Row:
    print(f"measuring {name} on {backend}", file=sys.stderr)
    command = [sys.executable, __file__, "--child", name, backend, "--repeat", str(runs)]
    try:
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, timeout=_PATIENCE
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return {"failed": "takes too long" if hasattr(error, "timeout") else "cannot be run"}
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def _measured(name: str, backend: str, runs: int) -> Row:
    with sk.config(cache=False, on_fallback="ok", threads=THREADS):
        with sk.InferenceSession(_TINY, backend=backend) as tiny:
            tiny.run(None, {"x": np.eye(2, dtype=np.float32)})
        _forget_peak()
        before = resident_bytes() or 0
        partitioning = sk.partition(sk.bind(sk.load(_model(name)), backend=backend))
        told = partitioning.memory()
        session = sk.Session(sk.plan(partitioning, sk.compile_subgraphs(partitioning)))
        opening = (peak_bytes() or 0) - before
        feeds = _feeds(name, session)
        _forget_peak()
        for _ in range(runs):
            session.run(None, feeds)
        running = (peak_bytes() or 0) - before
    return {
        "open": [max(told.loading, told.opening), opening],
        "run": [told.running, running],
    }


def _model(name: str) -> Path:
    """Return the file of a model, written now if it is one of the light ones."""
    if not name.startswith("light_"):
        return find_export(name)
    path = Path(tempfile.gettempdir(), f"{name}.onnx")
    if not path.exists():
        model = light.seeded_model(name.removeprefix("light_"))
        path.write_bytes(model.SerializeToString())
    return path


def _feeds(name: str, session: sk.Session) -> Mapping[str, Any]:
    if not name.startswith("light_"):
        return seeded_feeds(name)
    numbers = np.random.default_rng(0)
    return {one.name: numbers.random(one.shape, np.float32) for one in session.get_inputs()}


def _forget_peak() -> None:
    """Set the record of the peak back to what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def _table(rows: Mapping[str, Row], runs: int) -> Table:
    cells, within, ratios = [], dict[str, list[bool]](), dict[str, list[float]]()
    for key, row in rows.items():
        name, _, backend = key.partition("|")
        if "failed" in row:
            cells.append([name, backend, row["failed"], *[""] * 6])
            continue
        whole = [max(row["open"][at], row["run"][at]) for at in range(2)]
        pairs = [row["open"], row["run"]]
        texts = [f"{part / _MEBIBYTE:.0f}" for pair in pairs for part in pair]
        cells.append([name, backend, *texts, _off(*pairs[0]), _off(*pairs[1]), _off(*whole)])
        kind = f"{backend}{', held back' if name in HELD_BACK else ''}"
        ratios.setdefault(kind, []).append(whole[0] / whole[1] - 1)
        within.setdefault(kind, []).append(abs(whole[0] / whole[1] - 1) <= ALLOWED)
    heads = [f"{part}, {how}" for part in ("to open", "to run") for how in ("told", "measured")]
    columns = ["model", "backend", *heads, "off, to open", "off, to run", "off, at most"]
    notes = [
        f"{kind}: {sum(inside)} of {len(inside)} within {ALLOWED:.0%} at most; median "
        f"{statistics.median(ratios[kind]):+.0%}, furthest {max(ratios[kind], key=abs):+.0%}."
        for kind, inside in within.items()
    ]
    notes += [
        "MiB of resident memory above a process in which the library has run one node.",
        f"to open: peak of loading and opening; to run: that of {runs} runs on {THREADS} threads.",
        "at most: the larger of the two, told by measured. light_: held back, looked at last.",
        f"{machine()}.",
    ]
    return Table("Memory told ahead", columns, cells, notes)


def _off(told: float, measured: float) -> str:
    return f"{told / measured - 1:+.0%}"


if __name__ == "__main__":
    main()
