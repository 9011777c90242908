"""What each backend takes of models from other people's exporters, beside its library alone.

Usage: ``python benchmarks/backends/bench_real_models.py [--models A B] [--backends A,B]
[--save FILE] [--before FILE] [--write FOLDER]``

A cell says how many of the nodes that are left to run a backend takes, and in how many regions;
``--save`` keeps the figures, ``--before`` prints those of an earlier run before an arrow. The
libraries are asked themselves whether they compile the file as it is. Results are compared with
ONNX Runtime's, for every backend that is quick to compile; TVM is only asked what it takes.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import numpy as np  # noqa: E402 (after the paths, like its neighbours)
import onnx  # noqa: E402 (see above)
import onnxruntime as ort  # noqa: E402 (see above)
from measuring import Table, base_parser, machine, rendered, store_csv  # noqa: E402 (see above)
from real_models import MODELS, RealModel  # noqa: E402 (see above)

import subgraphkit as sk  # noqa: E402 (see above)

NOTE: Final = (
    "A cell: nodes the backend takes, of those there are to run, and in how many regions. "
    "The last column: the largest difference from ONNX Runtime over the largest number."
)
WRONG: Final = 1e-2
"""A larger difference than this is not one of rounding, even where numbers are quantised."""

SLOW: Final = frozenset({"iree", "tvm"})
"""Backends that take minutes to compile, which are asked and not run."""


def main() -> int:
    """Ask every backend about every model, print the table and store what is to be stored.

    Returns:
        The number of models with a result that differs from ONNX Runtime's.
    """
    parser = base_parser("What each backend takes of real models.", repeat=1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="MODEL")
    parser.add_argument("--backends", default="numpy,onnxruntime,openvino,onednn,tvm,iree")
    parser.add_argument("--save", type=Path, help="keep the figures here, as JSON")
    parser.add_argument("--before", type=Path, help="figures of an earlier run")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write a CSV file there")
    arguments = parser.parse_args()
    before = json.loads(arguments.before.read_text()) if arguments.before else {}
    backends = arguments.backends.split(",")
    figures: dict[str, dict[str, Any]] = {}
    for name in arguments.models:
        print(f"asking about {name}", file=sys.stderr, flush=True)
        figures[name] = _figures(MODELS[name], backends)
    if arguments.save:
        arguments.save.write_text(json.dumps(figures, indent=1) + "\n")
    table = _table(figures, before, backends)
    print(f"{machine()}\n\n{rendered(table, markdown=arguments.markdown)}")
    if arguments.write:
        store_csv(arguments.write, [table])
    return sum(row["wrong"] for row in figures.values())


def _figures(model: RealModel, backends: list[str]) -> dict[str, Any]:
    try:
        data, feeds = model.read(), dict(model.feeds())
    except ImportError as error:
        return {"missing": str(error), "wrong": False}
    options = ort.SessionOptions()
    options.log_severity_level = 3
    expected = ort.InferenceSession(data, options).run(None, feeds)
    figures: dict[str, Any] = {"wrong": False}
    for backend in backends:
        if backend in model.backends:
            figures[backend] = _taken(model, data, feeds, expected, backend)
            figures["wrong"] |= figures[backend].get("difference", 0.0) > WRONG
        if backend in ALONE:
            figures[f"{backend} alone"] = _compiles(ALONE[backend], data)
    return figures


def _taken(
    model: RealModel, data: bytes, feeds: dict[str, Any], expected: list[Any], backend: str
) -> dict[str, Any]:
    """Return what a backend takes, and by how much results differ."""
    shapes = {name: value.shape for name, value in feeds.items()} if model.fixed else None
    asked = backend if backend == "numpy" else f"{backend},numpy"
    try:
        partitioning = sk.partition(sk.bind(sk.load(data), shapes, backend=asked))
        regions = [one for one in partitioning.subgraphs if one.backend == backend]
        every = [node for one in partitioning.subgraphs for node in _run_by(one)]
        mine = [node for one in regions for node in _run_by(one)]
        figures: dict[str, Any] = {"nodes": len(mine), "of": len(every), "regions": len(regions)}
        if backend not in SLOW:
            with sk.InferenceSession(data, shapes=shapes, backend=asked) as session:
                figures["difference"] = _difference(session.run(None, feeds), expected)
    except sk.SubgraphkitError as error:
        return {"error": error.code}
    return figures


def _run_by(subgraph: Any) -> list[int]:
    return [node for node in subgraph.nodes if not subgraph.graph.is_constant_node(node)]


def _difference(got: list[Any], expected: list[Any]) -> float:
    """Return the largest difference over the largest number."""
    found = 0.0
    for ours, theirs in zip(got, expected, strict=True):
        if np.asarray(theirs).dtype.kind in "fiub":
            one, other = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
            found = max(found, float(np.abs(one - other).max() / max(1.0, np.abs(other).max())))
        elif not np.array_equal(ours, theirs):
            found = float("inf")
    return found


def _compiles(alone: Callable[[bytes], None], data: bytes) -> str:
    try:
        alone(data)
    except ImportError:
        return "not installed"
    except Exception:  # noqa: BLE001 (a library says in its own ways that it cannot)
        return "refused"
    return "whole"


def _openvino(data: bytes) -> None:
    import openvino  # noqa: PLC0415 (not everybody has it)

    core = openvino.Core()
    core.compile_model(core.read_model(data), "CPU")


def _tvm(data: bytes) -> None:
    from tvm.relax.frontend.onnx import from_onnx  # noqa: PLC0415 (not everybody has it)

    from_onnx(onnx.load_from_string(data), keep_params_in_input=False)


ALONE: Final[dict[str, Callable[[bytes], None]]] = {"openvino": _openvino, "tvm": _tvm}


def _table(figures: dict[str, Any], before: dict[str, Any], backends: list[str]) -> Table:
    columns = ["model"]
    for backend in backends:
        columns += [backend, f"{backend} alone"] if backend in ALONE else [backend]
    columns.append("largest difference")
    rows = []
    for name, row in figures.items():
        cells = [name]
        for column in columns[1:-1]:
            now, then = _cell(row.get(column)), _cell(before.get(name, {}).get(column))
            cells.append(now if then in {now, "-"} else f"{then} → {now}")
        found = [one["difference"] for one in row.values() if _has_difference(one)]
        rows.append([*cells, f"{max(found):.0e}" if found else "-"])
    return Table("Models of other exporters", columns, rows, (NOTE, machine()))


def _has_difference(cell: Any) -> bool:
    return isinstance(cell, dict) and "difference" in cell


def _cell(found: Any) -> str:
    if found is None:
        return "-"
    if isinstance(found, str):
        return found
    if "error" in found:
        return f"error {found['error']}"
    return f"{found['nodes']} of {found['of']} in {found['regions']}"


if __name__ == "__main__":
    sys.exit(main())
