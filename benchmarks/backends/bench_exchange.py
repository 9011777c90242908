"""What it costs to hand one part of a network to another backend, beyond what the part takes there.

Usage: ``python benchmarks/backends/bench_exchange.py [--models A,B] [--backends A,B] [--parts N]``

The node list is cut where exactly one value is alive. The network runs on ONNX Runtime, then with
one part after the other on another backend. The cost is the time of the mixed session, less that of
the whole on ONNX Runtime with the time of the part there taken out and the time of the part on the
other backend put in; both are measured on the part as a model of its own.

That is the sum of three. ONNX Runtime fuses nothing across a cut, and there brings its values into
the plain layout: what the pieces of the network take on ONNX Runtime, each by itself, beyond the
whole is the cut, and none of the other backend's. A piece that runs again and again finds its
weights in the cache and its threads awake. What the pieces take longer where the calling thread
counts down, between two runs of one, the time that the other would take, is the pause: no other
backend runs in it, and no value is handed over. What the mixed session takes beyond these pieces,
each by itself where it runs, with pauses, is the handing over.

Processes, one for each of these, take turns, so that a machine that slows down slows all of them
down, and the threads of one do not disturb another. ``--first`` lets their turns go before all
other programs (in real time, as root): on a machine where others compute, a pool that spins loses
its processor to them, and the whole looks slower than its pieces or the pieces than the whole.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import onnx
from onnx import helper

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "numpy_backend")]
from architectures import ARCHITECTURES, find_export  # noqa: E402 (a script beside this one)
from measuring import THREADS, Table, base_parser, machine, show  # noqa: E402 (see above)

import subgraphkit as sk  # noqa: E402 (after the paths, like its neighbours)
from subgraphkit.partitioning import Constraints  # noqa: E402 (see above)
from subgraphkit.testing import light_models as light  # noqa: E402 (see above)

WHOLE_ON: Final = "onnxruntime"
OTHERS: Final = "openvino,onednn,tvm,numpy"
PAUSE: Final = 0.05
RUNS_PER_TURN: Final = 3
GOAL: Final = 0.03
PIECES: Final = ("before", "part", "behind")
RESTING: Final = ("session.force_spinning_stop=1", "session.intra_op.spin_duration_us=100")
"""What the backend tells ONNX Runtime itself where others share the processors of a session."""


class Part(NamedTuple):
    """Nodes that one value enters and one value leaves: places of the first and the last."""

    first: int
    last: int


class Cost(NamedTuple):
    """What an exchange costs, as fractions of the time of the whole: medians of turns.

    Attributes:
        beyond: What it costs beyond the part, which is the sum of the others but for rounding.
        cut: What the pieces of the network take longer than the whole, on ``WHOLE_ON`` alone.
        pause: What the pieces take longer where each waits for as long as the other runs.
        handing_over: What the mixed session takes longer than its pieces with pauses, where they
            run.
    """

    beyond: float
    cut: float
    pause: float
    handing_over: float


class Job(NamedTuple):
    """Models that run one after the other, the first on backends of which ``other`` has a part.

    Attributes:
        rests: Whether ONNX Runtime is told what the backend tells it itself in a mixed session.
        pause: Seconds that do not count, after the first model.
    """

    models: tuple[str, ...]
    main: str = WHOLE_ON
    other: str | None = None
    part: Part | None = None
    rests: bool = False
    pause: float = 0.0
    threads: int = THREADS
    first: bool = False


def main() -> int:
    """Exchange every part, print what each costs and the distribution.

    Returns:
        Whether nothing could be measured.
    """
    parser = base_parser("What handing a part to another backend costs beyond it.", repeat=5)
    parser.add_argument("--models", help="separated by commas, instead of all that are there")
    parser.add_argument("--backends", default=OTHERS, help=f"default: {OTHERS}")
    parser.add_argument("--parts", type=int, default=10, help="parts of a network at most")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"default: {THREADS}")
    parser.add_argument("--first", action="store_true", help="run before all other programs")
    arguments = parser.parse_args()
    costs: dict[str, list[Cost]] = {name: [] for name in arguments.backends.split(",")}
    rows = []
    for name in arguments.models.split(",") if arguments.models else _networks():
        with tempfile.TemporaryDirectory() as folder:
            model = _model(name)
            onnx.save(model, Path(folder) / "whole.onnx")
            for part in _parts(model, arguments.parts):
                _save_pieces(folder, model, part)
                for other, cost, row in _measured(folder, part, list(costs), arguments):
                    costs[other].append(cost)
                    rows.append([name, f"{part.first}..{part.last}", other, *row])
                    print(*rows[-1], file=sys.stderr, flush=True)
    columns = ["network", "nodes", "part on", "whole", "mixed", "part here", "part there"]
    columns += ["beyond the part", "of it the cut", "the pause", "the handing over"]
    notes = [f"Medians of {arguments.repeat} turns, {arguments.threads} threads; {machine()}"]
    show(Table("Exchanging a part", columns, rows, notes), markdown=arguments.markdown)
    for title, one in (
        ("Cost of an exchange beyond the part itself", "beyond"),
        ("Of it the cut", "cut"),
        ("Of it the pause", "pause"),
        ("Of it the handing over", "handing_over"),
    ):
        seen_ = {name: [getattr(cost, one) for cost in seen] for name, seen in costs.items()}
        show(_distribution(title, seen_), markdown=arguments.markdown)
    return int(not rows)


def _networks() -> Iterator[str]:
    yield from light.LIGHT_MODELS
    for name in ARCHITECTURES:
        with suppress(FileNotFoundError):
            find_export(name)
            yield name


def _model(name: str) -> onnx.ModelProto:
    if name in light.LIGHT_MODELS:
        return light.seeded_model(name)
    return onnx.load(find_export(name))


def _parts(model: onnx.ModelProto, most: int) -> list[Part]:
    """Cut the node list where one value is alive, into parts of a like size, or into none."""
    graph = model.graph
    sizes = {one.name: int(np.prod(one.dims)) for one in graph.initializer}
    outputs = {one.name for one in graph.output}
    last = {name: at for at, node in enumerate(graph.node) for name in node.input}
    alive = {one.name for one in graph.input} - sizes.keys()
    weights = [1000 + sum(sizes.get(name, 0) for name in node.input) for node in graph.node]
    cuts, weight = [-1], 0
    for at, node in enumerate(graph.node):
        made = alive.union(name for name in node.output if name)
        alive = {name for name in made if last.get(name, -1) > at or name in outputs}
        weight += weights[at]
        if len(alive) == 1 and weight > sum(weights) / most:
            cuts.append(at)
            weight = 0
    ends = [*cuts[1:], len(graph.node) - 1]
    parts = [Part(a + 1, b) for a, b in zip(cuts, ends, strict=True) if a < b]
    return parts if len(parts) > 1 else []


def _alone(model: onnx.ModelProto, part: Part) -> onnx.ModelProto:
    """Return the part as a model of its own."""
    graph = model.graph
    nodes = graph.node[part.first : part.last + 1]
    stored = {one.name: one for one in graph.initializer}
    made = {name for node in nodes for name in node.output}
    read = dict.fromkeys(name for node in nodes for name in node.input if name)
    used = {name for node in graph.node[part.last + 1 :] for name in node.input}
    used |= {one.name for one in graph.output}
    types = sk.bind(sk.load(model), backend="numpy").types

    def described(name: str) -> onnx.ValueInfoProto:
        type_: Any = types[name]
        return helper.make_tensor_value_info(name, type_.dtype.value, type_.shape)

    return helper.make_model(
        helper.make_graph(
            nodes,
            "part",
            [described(name) for name in read if name not in made and name not in stored],
            [described(name) for node in nodes for name in node.output if name in used],
            [stored[name] for name in read if name in stored],
        ),
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
    )


def _save_pieces(folder: str, model: onnx.ModelProto, part: Part) -> None:
    """Write the part, and what is before and behind it, as models of their own."""
    ends = Part(0, part.first - 1), part, Part(part.last + 1, len(model.graph.node) - 1)
    for name, piece in zip(PIECES, ends, strict=True):
        path = Path(folder) / f"{name}.onnx"
        path.unlink(missing_ok=True)
        if piece.first <= piece.last:
            onnx.save(_alone(model, piece), path)


def _measured(
    folder: str, part: Part, others: Sequence[str], arguments: Any
) -> Iterator[tuple[str, Cost, list[str]]]:
    """Yield what an exchange costs for each backend that can be opened, and a row of the table."""
    whole, *pieces = (f"{folder}/{name}.onnx" for name in ("whole", *PIECES))
    before, alone, behind = pieces
    with ExitStack() as stack:

        def opened(job: Job) -> _Turns:
            job = job._replace(threads=arguments.threads, first=arguments.first)
            return stack.enter_context(_Turns(job))

        rest = tuple(piece for piece in (before, behind) if Path(piece).exists())
        turns = [opened(one) for one in (Job((whole,)), Job((alone,)), Job(rest, rests=True))]
        mixtures = {}
        for other in others:
            own = Job((alone,), main=other)
            try:
                mixed_, hot = opened(Job((whole,), other=other, part=part)), opened(own)
            except RuntimeError as error:
                print(f"{part} on {other}: {error}", file=sys.stderr)
                continue
            ours, its = turns[2].look(), hot.look()
            paused = opened(Job(rest, rests=True, pause=its)), opened(own._replace(pause=ours))
            mixtures[other] = mixed_, hot, *paused
        everybody = [*turns, *(one for several in mixtures.values() for one in several)]
        for at in range(arguments.repeat):
            for one in (*everybody[at % len(everybody) :], *everybody[: at % len(everybody)]):
                one.take()
    all_, here, apart = (np.array(one.seconds) for one in turns)
    for other, several in mixtures.items():
        mixed, there, apart_paused, there_paused = (np.array(one.seconds) for one in several)
        shares = (
            mixed - all_ + here - there,
            apart + here - all_,
            apart_paused + there_paused - apart - there,
            mixed - apart_paused - there_paused,
        )
        cost = Cost(*(float(np.median(one / all_)) for one in shares))
        times = (f"{np.median(one) * 1e3:.1f} ms" for one in (all_, mixed, here, there))
        yield other, cost, [*times, *(f"{one:+.1%}" for one in cost)]


class _Turns:
    """A job in a process of its own, which runs when told to."""

    def __init__(self, job: Job) -> None:
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        self.seconds: list[float] = []

    def __enter__(self) -> Self:
        self._process.start()
        problem = self._ours.recv()
        if problem:
            raise RuntimeError(problem)
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.send("")
        self._process.join()

    def take(self) -> None:
        """Let threads go to sleep, run once to wake them, then run and note the times."""
        self.seconds.append(self.look())

    def look(self) -> float:
        """Take a turn that is not noted; return its time."""
        self._ours.send("run")
        return float(statistics.median(self._ours.recv()))


def _serve(pipe: Connection, job: Job) -> None:
    try:
        sessions = [_opened(sk.load(path), job) for path in job.models]
        feeds = _feeds(sessions[0])
        _run(sessions, feeds, 0.0)
    except Exception as error:  # noqa: BLE001 (the parent says what it was)
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("")
    while pipe.recv():
        time.sleep(PAUSE)
        if job.first:
            _rank(os.SCHED_RR, 1)
        _run(sessions, feeds, job.pause)
        seconds = [_run(sessions, feeds, job.pause) for _ in range(RUNS_PER_TURN)]
        if job.first:
            _rank(os.SCHED_OTHER, 0)
        pipe.send(seconds)


def _rank(policy: int, priority: int) -> None:
    """Schedule all threads of this process anew."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))


def _run(sessions: Sequence[sk.Session], feeds: Mapping[str, Any], pause: float) -> float:
    """Return the seconds of a run, without those of the pause after its first model."""
    values, seconds = dict(feeds), 0.0
    for session in sessions:
        read = {one.name: values[one.name] for one in session.get_inputs()}
        started = time.perf_counter()
        made = session.run(None, read)
        ended = time.perf_counter()
        seconds += ended - started
        values |= {one.name: value for one, value in zip(session.get_outputs(), made, strict=True)}
        while session is sessions[0] and time.perf_counter() < ended + pause:
            pass
    return seconds


def _opened(model: Any, job: Job) -> sk.Session:
    names = [one for one in (job.other, job.main, "numpy") if one]
    options = {WHOLE_ON: {"session_config": list(RESTING)}} if job.rests else None
    settings: dict[str, Any] = {"options": options, "threads": job.threads}
    bound = sk.bind(model, backend=list(dict.fromkeys(names)), **settings)
    constraints = None
    if job.other is not None and job.part is not None:
        nodes = [node.id for node in bound.nodes if not bound.is_constant_node(node.id)]
        inside = [node for node in nodes if job.part.first <= node <= job.part.last]
        outside = [node for node in nodes if not job.part.first <= node <= job.part.last]
        constraints = Constraints(exclusions={job.other: outside, job.main: inside})
    partitioning = sk.partition(bound, constraints=constraints)
    return sk.Session(sk.plan(partitioning, sk.compile_subgraphs(partitioning)))


def _feeds(session: sk.Session) -> Mapping[str, Any]:
    rng = np.random.default_rng(0)
    feeds = {}
    for one in session.get_inputs():
        drawn = rng.standard_normal(one.shape)
        feeds[one.name] = (drawn > 0 if "int" in one.type else drawn).astype(
            np.int64 if "int64" in one.type else np.int32 if "int" in one.type else np.float32
        )
    return feeds


def _distribution(title: str, costs: Mapping[str, Sequence[float]]) -> Table:
    rows = []
    for other, seen in costs.items():
        if len(seen) > 1:
            low, middle, high = statistics.quantiles(seen, n=4)
            within = sum(cost <= GOAL for cost in seen)
            figures = [min(seen), low, middle, high, max(seen)]
            shown = [f"{figure:+.1%}" for figure in figures]
            rows.append([other, str(len(seen)), *shown, f"{within} of {len(seen)}"])
    columns = ["part on", "parts", "least", "quartile", "median", "quartile", "most"]
    notes = ["Of the time of the whole; less than nothing is noise, or a cut that suits."]
    return Table(title, [*columns, f"up to {GOAL:.0%}"], rows, notes)


if __name__ == "__main__":
    sys.exit(main())
