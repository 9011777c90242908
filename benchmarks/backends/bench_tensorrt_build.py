"""What TensorRT takes of real networks, and how long it takes to claim, to build and to find again.

Usage: ``python benchmarks/backends/bench_tensorrt_build.py [--models A,B] [--markdown]``

It needs TensorRT for RTX and no GPU: engines are built and not run. The networks are those of
``numpy_backend/architectures.py``, two of them once more with symbolic dimensions, and those that
the onnx wheel ships, with seeded weights. Each is bound twice, in processes of their own that share
an empty cache: the first claims and builds, the second is to find every engine. What is not taken
is listed below the table, with the reason. Two networks are built in every precision besides.

The exit status says whether a network fell short: more than three subgraphs, less than 95 % of the
nodes, or a call of the builder at the second bind.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "numpy_backend")]
from architectures import ARCHITECTURES, DYNAMIC, seeded_feeds  # noqa: E402 (after the paths)
from exporting import ensure_export  # noqa: E402 (see above)
from measuring import Table, base_parser, machine, show  # noqa: E402 (see above)

import subgraphkit as sk  # noqa: E402 (see above)
from subgraphkit.precision import calibrate  # noqa: E402 (see above)
from subgraphkit.testing.light_models import LIGHT_MODELS, seeded_model  # noqa: E402 (see above)

LIBRARY: Final = "tensorrt_rtx"
SELECTION: Final = f"tensorrt:flavour={LIBRARY}:build_only=true,numpy"
LIGHT: Final = "light_"
DYNAMIC_SUFFIX: Final = "_dynamic"
DIMS: Final = {"batch": (1, 4, 8), "seq": (16, 128, 512)}
PRECISE: Final = ("resnet50", "bert_base")
PRECISIONS: Final = ("fp16", "bf16", "int8")
BATCHES: Final = 4
"""Batches that int8 is calibrated on."""
MOST_SUBGRAPHS: Final = 3
LEAST_SHARE: Final = 0.95

Facts = dict[str, Any]


def main() -> int:
    """Bind every network twice and print the table.

    Returns:
        How many networks fell short.
    """
    parser = base_parser("What TensorRT takes of real networks, and builds.", repeat=1)
    known = [
        *ARCHITECTURES,
        *(f"{name}{DYNAMIC_SUFFIX}" for name in DYNAMIC),
        *(f"{LIGHT}{name}" for name in LIGHT_MODELS),
    ]
    parser.add_argument("--models", default=",".join(known), help="separated by commas")
    parser.add_argument("--bind", metavar="MODEL", help=argparse.SUPPRESS)
    parser.add_argument("--precision", default="keep", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bind:
        print(json.dumps(_bind(arguments.bind, arguments.precision)))
        return 0
    names = arguments.models.split(",")
    unknown = sorted(set(names).difference(known))
    if unknown:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(known)}")
    found = {name: _both(name) for name in names}
    show(_table(found), markdown=arguments.markdown)
    precise = [
        (name, precision, _both(name, precision)[0])
        for name in PRECISE
        for precision in PRECISIONS
        if name in names
    ]
    if precise:
        show(_precisions(precise), markdown=arguments.markdown)
    return sum(not _is_enough(*pair) for pair in found.values())


def _both(name: str, precision: str = "keep") -> tuple[Facts, Facts]:
    """Bind a network twice, each time in a process of its own; return what they tell."""
    print(f"building {name}, precision={precision}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="subgraphkit-bench-") as folder:
        places = {"SUBGRAPH_CACHE_DIR": f"{folder}/cache", "XDG_STATE_HOME": f"{folder}/state"}
        first, second = (_in_a_process(name, precision, places) for _ in range(2))
    return first, second


def _in_a_process(name: str, precision: str, places: Mapping[str, str]) -> Facts:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--bind", name, "--precision", precision],
        env={**os.environ, **places, "SUBGRAPH_CONFIG": "none"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told: Facts = json.loads(done.stdout.splitlines()[-1])
    return told


def _bind(name: str, precision: str) -> Facts:
    """Claim and build a network, or find its engines; return figures."""
    options: dict[str, Any] = {"precision": precision}
    if precision == "int8":
        options["calibration"] = _calibration(name)
    if name.endswith(DYNAMIC_SUFFIX):
        axes = DYNAMIC[name.removesuffix(DYNAMIC_SUFFIX)].values()
        options["dims"] = {symbol: DIMS[symbol] for one in axes for symbol in one.values()}
    calls = _counted_builds()
    model = sk.load(_source(name))
    with sk.config(backend=SELECTION, options={"tensorrt": options}):
        started = time.perf_counter()
        bound = sk.bind(model)
        partitioning = sk.partition(bound)
        claimed = time.perf_counter()
        compiled = sk.compile_subgraphs(partitioning)
        built = time.perf_counter()
    try:
        return {
            "claim": claimed - started,
            "build": built - claimed,
            "calls": len(calls),
            **_figures(compiled),
        }
    finally:
        compiled.close()


def _calibration(name: str) -> Path:
    """Return ranges of the values of a network, made now if the other process has not."""
    path = Path(os.environ["SUBGRAPH_CACHE_DIR"]).parent / "ranges.json"
    if not path.exists():
        batches = [seeded_feeds(name, seed) for seed in range(BATCHES)]
        calibrate(ensure_export(name), batches, backend="onnxruntime?,numpy").save(path)
    return path


def _source(name: str) -> Path | bytes:
    if name.startswith(LIGHT):
        return seeded_model(name.removeprefix(LIGHT)).SerializeToString()
    plain = name.removesuffix(DYNAMIC_SUFFIX)
    return ensure_export(plain, dynamic=name != plain)


def _counted_builds() -> list[None]:
    """Return a list that grows with every call of TensorRT's builder."""
    import tensorrt_rtx_bindings as trt  # noqa: PLC0415 (not needed to read the usage)

    calls: list[None] = []
    build = trt.Builder.build_serialized_network

    def counted(*given: Any) -> Any:
        calls.append(None)
        return build(*given)

    trt.Builder.build_serialized_network = counted
    return calls


def _figures(compiled: Any) -> Facts:
    partitioning = compiled.partitioning
    graph = partitioning.graph
    nodes = [node for node in graph.nodes if not graph.is_constant_node(node.id)]
    mine = {one.id: one for one in partitioning.subgraphs if one.backend == "tensorrt"}
    taken = {node for one in mine.values() for node in one.nodes}
    reasons = Counter(
        f"{node.qualified_op_type}: {_reason(partitioning, node.id)}"
        for node in nodes
        if node.id not in taken
    )
    reports = [
        engine["report"]
        for one, operator in zip(partitioning.subgraphs, compiled, strict=True)
        if one.id in mine
        for engine in operator.info()["engines"]
    ]
    return {
        "nodes": len(nodes),
        "taken": sum(node.id in taken for node in nodes),
        "subgraphs": len(mine),
        "found": len(compiled.restored & set(mine)),
        "bytes": sum(report["bytes"] for report in reports),
        "products": dict(sum((Counter(one["products"]) for one in reports), Counter())),
        "reasons": sorted(reasons.items()),
    }


def _reason(partitioning: Any, node: int) -> str:
    return next(
        (str(one.refusal) for one in partitioning.refusals[node] if one.backend == "tensorrt"), ""
    )


def _is_enough(first: Facts, second: Facts) -> bool:
    return bool(
        first["subgraphs"] <= MOST_SUBGRAPHS
        and first["taken"] >= LEAST_SHARE * first["nodes"]
        and second["calls"] == 0
        and second["found"] == second["subgraphs"]
    )


def _table(found: Mapping[str, tuple[Facts, Facts]]) -> Table:
    columns = [
        *("network", "nodes", "taken", "subgraphs", "claim", "build", "engines", "second bind"),
        "builds then",
    ]
    rows = [_row(name, *pair) for name, pair in found.items()]
    notes = [
        f"TensorRT for RTX {version('tensorrt-rtx-cu13-bindings')}, no GPU; {machine()}.",
        "claim: seconds to bind and partition; build: seconds to compile, one engine per subgraph.",
        "second bind: both, in another process with the same cache.",
        "builds then: calls of the builder at the second bind.",
        f"*{DYNAMIC_SUFFIX}: symbolic dimensions, "
        + ", ".join(f"{name} {least} to {most}" for name, (least, _, most) in DIMS.items())
        + ".",
    ]
    return Table("TensorRT: claimed and built", columns, rows, [*notes, *_left(found)])


def _row(name: str, first: Facts, second: Facts) -> Sequence[str]:
    return [
        name if _is_enough(first, second) else f"{name} FALLS SHORT",
        str(first["nodes"]),
        f"{first['taken'] / first['nodes']:.1%}",
        str(first["subgraphs"]),
        f"{first['claim']:.1f} s",
        f"{first['build']:.1f} s",
        f"{first['bytes'] / 2**20:.1f} MiB",
        f"{second['claim'] + second['build']:.1f} s",
        str(second["calls"]),
    ]


def _precisions(found: Sequence[tuple[str, str, Facts]]) -> Table:
    columns = ["network", "precision", "products", "build", "engines"]
    rows = [
        [
            name,
            precision,
            ", ".join(f"{count} {dtype}" for dtype, count in facts["products"].items()),
            f"{facts['build']:.1f} s",
            f"{facts['bytes'] / 2**20:.1f} MiB",
        ]
        for name, precision, facts in found
    ]
    notes = [
        "products: convolutions and matrix products by the type they multiply in.",
        f"int8: calibrated on {BATCHES} seeded batches.",
    ]
    return Table("TensorRT: precisions", columns, rows, notes)


def _left(found: Mapping[str, tuple[Facts, Facts]]) -> Iterator[str]:
    """Say which nodes were not taken, and why."""
    for name, (first, _) in found.items():
        for reason, count in first["reasons"]:
            yield f"Not taken of {name}: {count} x {reason}"


if __name__ == "__main__":
    sys.exit(min(main(), 1))
