"""Where the time of a run on the NumPy backend goes, beside the matrix products it cannot avoid.

Usage: ``python benchmarks/numpy_backend/bench_where.py [--models A,B] [--steps] [--markdown]``

The kernels of the compiled program are wrapped in clocks, and so are the functions of NumPy that
multiply matrices and copy arrays, before the network is compiled. Every second is then one of:

- product: inside ``numpy.matmul``, ``dot``, ``einsum`` and the like;
- copy: operators that only move data, and copying functions of NumPy inside other operators;
- elementwise: operators and ufuncs that look at each element once;
- rest: everything else: reductions, normalization, pooling, depthwise sums, calls.

The clocks cost about a microsecond per call; the column "whole run" is measured without them.
Everything runs on one thread, so that the parts of a step add up to what it took; unless
``OPENBLAS_NUM_THREADS`` and ``OMP_NUM_THREADS`` say otherwise.

The floor is the time of the products alone, see ``products.py``, in the same process.
"""

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measuring import Table, base_parser, limit_threads, milliseconds, show

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
limit_threads()
from architectures import ARCHITECTURES, seeded_feeds  # noqa: E402 (imports NumPy)
from clocks import (  # noqa: E402 (imports NumPy)
    COPY,
    ELEMENTWISE,
    KINDS,
    REST,
    Clock,
    Spent,
    watched_numpy,
)
from exporting import ensure_exports  # noqa: E402 (imports NumPy)
from products import floor_seconds, products  # noqa: E402 (imports NumPy)
from quiet import Quiet, threads  # noqa: E402 (beside the others)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)

TOP: Final = 25
"""Steps shown by ``--steps``."""

_MOVING: Final = frozenset(
    [
        "Transpose",
        "Reshape",
        "Concat",
        "Split",
        "Slice",
        "Pad",
        "Expand",
        "Tile",
        "Gather",
        "GatherElements",
        "GatherND",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Identity",
        "Cast",
        "DepthToSpace",
        "SpaceToDepth",
    ]
)
_ELEMENTWISE: Final = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Neg",
        "Abs",
        "Pow",
        "Sqrt",
        "Reciprocal",
        "Exp",
        "Log",
        "Erf",
        "Tanh",
        "Sigmoid",
        "Gelu",
        "Relu",
        "Clip",
        "Where",
        "HardSwish",
        "HardSigmoid",
        "LeakyRelu",
        "Elu",
        "Silu",
        "Swish",
        "Min",
        "Max",
        "And",
        "Or",
        "Not",
        "Equal",
        "Less",
        "Greater",
        "LessOrEqual",
        "GreaterOrEqual",
        "Sin",
        "Cos",
        "Floor",
        "Ceil",
        "Round",
        "Sign",
    ]
)

Function = Callable[..., Any]


@dataclass
class Observed:
    """A step: what it is called, the nodes in it, and the seconds it takes by kind."""

    label: str
    operators: str
    nodes: tuple[int, ...]
    seconds: float
    parts: Mapping[str, float]
    shapes: str


@dataclass
class Observation:
    """A network: its steps, its whole run in seconds, its floor by node and in operations."""

    name: str
    whole: float
    steps: Sequence[Observed]
    floor: Mapping[int, float]
    operations: int
    disturbed: int


def main() -> None:
    """Observe every network and print the tables."""
    parser = base_parser("Where the time of a run on the NumPy backend goes.", repeat=9)
    parser.add_argument("--models", default=",".join(ARCHITECTURES), help="separated by commas")
    parser.add_argument(
        "--patience", type=float, default=60, help="seconds per network to wait for a quiet machine"
    )
    parser.add_argument("--operators", action="store_true", help="by operator, for each network")
    parser.add_argument("--steps", action="store_true", help=f"the {TOP} longest steps of each")
    arguments = parser.parse_args()
    rows = []
    for name, path in ensure_exports(parser, arguments.models).items():
        print(f"observing {name}", file=sys.stderr)
        seen = _observe(name, str(path), arguments.repeat, Quiet(arguments.patience))
        rows.append(_summary(seen))
        if arguments.operators:
            show(_by_operator(seen), markdown=arguments.markdown)
        if arguments.steps:
            show(_longest(seen), markdown=arguments.markdown)
    columns = ["model", "whole run", *KINDS, "between", "floor", "run / floor", "GFLOP", "GFLOP/s"]
    notes = [
        f"Milliseconds per run, medians of {arguments.repeat} runs, {threads()} threads.",
        "between: what lies between the steps; floor: the matrix products alone.",
        "GFLOP and GFLOP/s: of the floor.",
        "* measured while other processes were busy: says little.",
    ]
    show(Table("Where the time goes", columns, rows, notes), markdown=arguments.markdown)


def _observe(name: str, path: str, repeat: int, quiet: Quiet) -> Observation:
    feeds = seeded_feeds(name)
    with sk.InferenceSession(path, backend="numpy") as session:
        needed = products(session.graph)
        session.run(None, feeds)
        whole = [quiet.measure(lambda: _seconds(session, feeds)) for _ in range(repeat)]
    clock = Clock()
    with watched_numpy(clock), sk.InferenceSession(path, backend="numpy") as session:
        session.run(None, feeds)
        keys = [key for operator in _operators(session) for key in _wrap(clock, operator)]
        runs = [
            quiet.measure(lambda: clock.observed_run(lambda: session.run(None, feeds)))
            for _ in range(repeat)
        ]
    steps = [_observed(key.step, [run[key] for run in runs]) for key in keys]
    floor = floor_seconds(needed, repeat, quiet)
    operations = sum(product.operations for product in needed)
    return Observation(name, statistics.median(whole), steps, floor, operations, quiet.disturbed)


def _operators(session: Any) -> list[Any]:
    operators = [step.operator for step in session.plan.steps]
    strange = {type(one).__name__ for one in operators if not hasattr(one, "_program")}
    if strange:
        raise TypeError(f"no compiled program to be seen in {', '.join(sorted(strange))}")
    return operators


@dataclass(frozen=True)
class _Key:
    """A step, by the operator it is in and its place there."""

    operator: int
    place: int
    step: Any = field(compare=False)


def _wrap(clock: Clock, operator: Any) -> list[_Key]:
    """Put a clock on every kernel of a program, and link the program again."""
    program = operator._program  # noqa: SLF001 (there is no other way to the steps)
    keys = [_Key(id(operator), place, step) for place, step in enumerate(program.steps)]
    for key, step in zip(keys, program.steps, strict=True):
        step.kernel = replace(step.kernel, call=clock.step(key, step.kernel.call))
    operator._function = program.function = program._link()  # noqa: SLF001 (see above)
    return keys


def _observed(step: Any, runs: Sequence[Spent]) -> Observed:
    members = step.nodes
    whole = sum(run.whole for run in runs) or 1.0
    # Shares are those of all runs together: of a few microseconds no single run tells them.
    share = {kind: sum(run.parts.get(kind, 0) for run in runs) / whole for kind in KINDS}
    share[_kind_of(members[0].op_type)] += max(0.0, 1 - sum(share.values()))
    seconds = statistics.median(run.whole for run in runs)
    parts = {kind: part * seconds for kind, part in share.items()}
    operators = "+".join(node.op_type for node in members)
    nodes = tuple(node.id for node in members)
    return Observed(members[0].label, operators, nodes, seconds, parts, runs[-1].shapes)


def _kind_of(op_type: str) -> str:
    if op_type in _MOVING:
        return COPY
    return ELEMENTWISE if op_type in _ELEMENTWISE else REST


def _summary(seen: Observation) -> list[str]:
    least = sum(seen.floor.values())
    kinds = [sum(step.parts[kind] for step in seen.steps) for kind in KINDS]
    between = max(0.0, seen.whole - sum(step.seconds for step in seen.steps))
    return [
        f"{seen.name} *" if seen.disturbed else seen.name,
        *(f"{seconds * 1e3:.1f}" for seconds in (seen.whole, *kinds, between, least)),
        f"{seen.whole / least:.2f}" if least else "-",
        f"{seen.operations / 1e9:.2f}",
        f"{seen.operations / 1e9 / least:.0f}" if least else "-",
    ]


def _by_operator(seen: Observation) -> Table:
    groups: dict[str, list[Observed]] = defaultdict(list)
    for step in seen.steps:
        groups[step.operators].append(step)
    whole = sum(step.seconds for step in seen.steps)
    rows = []
    for operators, members in sorted(
        groups.items(), key=lambda item: -sum(step.seconds for step in item[1])
    ):
        seconds = sum(step.seconds for step in members)
        parts = [sum(step.parts[kind] for step in members) for kind in KINDS]
        least = sum(seen.floor.get(node, 0) for step in members for node in step.nodes)
        rows.append(
            [
                operators,
                str(len(members)),
                milliseconds(seconds, 2),
                f"{seconds / whole:.1%}",
                *(f"{part * 1e3:.2f}" for part in parts),
                f"{least * 1e3:.2f}",
            ]
        )
    columns = ["operator", "steps", "time", "share", *KINDS, "floor"]
    return Table(f"{seen.name} by operator", columns, rows)


def _longest(seen: Observation) -> Table:
    rows = [
        [
            f"{step.operators} {step.label}",
            milliseconds(step.seconds, 2),
            *(f"{step.parts[kind] * 1e3:.2f}" for kind in KINDS),
            f"{sum(seen.floor.get(node, 0) for node in step.nodes) * 1e3:.2f}",
            step.shapes,
        ]
        for step in sorted(seen.steps, key=lambda step: -step.seconds)[:TOP]
    ]
    columns = ["step", "time", *KINDS, "floor", "shapes"]
    return Table(f"The {TOP} longest steps of {seen.name}", columns, rows)


def _seconds(session: Any, feeds: dict[str, Any]) -> float:
    started = time.perf_counter()
    session.run(None, feeds)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
