"""A session beside others: in the same process, in workers beside it, and beside PyTorch.

Usage: ``python benchmarks/backends/bench_neighbours.py [--backends A,B] [--model NAME]``

For every backend the medians of a run alone; taking turns with a session on another backend; of two
workers that run at the same time, with all threads each and with their part of them; and taking
turns with a product of matrices in PyTorch, where it is installed. Every cell is measured in
processes of its own. The last column is the processor time that the process takes in a pause after
a run, which is what spinning costs.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from measuring import THREADS, Table, base_parser, machine, show  # noqa: E402 (see above)

import subgraphkit as sk  # noqa: E402 (after the paths, like its neighbours)
from subgraphkit.testing import light_models as light  # noqa: E402 (see above)

BACKENDS: Final = "onnxruntime,openvino,onednn,tvm,numpy"
PAUSE: Final = 0.1
Run = Callable[[], object]


def main() -> int:
    """Measure every backend beside its neighbours and print the table."""
    parser = base_parser("A session beside others.", repeat=20)
    parser.add_argument("--backends", default=BACKENDS, help=f"default: {BACKENDS}")
    parser.add_argument("--model", default="squeezenet", help="a network of the onnx wheel")
    arguments = parser.parse_args()
    names = arguments.backends.split(",")
    rows = []
    for name in names:
        other = next((one for one in names if one != name), name)

        def measured(
            *jobs: Sequence[str], threads: int = THREADS, by: str = name
        ) -> tuple[str, float]:
            pool = get_context("spawn").Pool(len(jobs) or 1)
            with pool:
                work = [(arguments.model, by, job, threads, arguments.repeat) for job in jobs]
                found = pool.starmap(_measured, work)
            return f"{max(one for one, _ in found) * 1e3:.1f} ms", found[0][1]

        alone, burnt = measured(())
        rows.append(
            [
                name,
                alone,
                measured((other,))[0],
                measured((), ())[0],
                measured((), (), threads=max(1, THREADS // 2))[0],
                measured(("torch",))[0] if find_spec("torch") else "-",
                f"{burnt * 1e3:.1f} ms",
            ]
        )
        print(*rows[-1], file=sys.stderr, flush=True)
    columns = ["backend", "alone", "another session", "two workers", "a part each", "torch"]
    notes = [f"Medians of {arguments.repeat} runs, {THREADS} threads; {machine()}"]
    table = Table("A session beside others", [*columns, "spinning"], rows, notes)
    show(table, markdown=arguments.markdown)
    return 0


def _measured(
    model_name: str, name: str, neighbours: Sequence[str], threads: int, repeat: int
) -> tuple[float, float]:
    """Return the seconds of a run with neighbours in turn, and those burnt in a pause after it."""
    model = light.seeded_model(model_name)
    feeds: Any = light.seeded_feeds(model)
    run = _opened(model, feeds, name, threads)
    others = [
        _torch(threads) if one == "torch" else _opened(model, feeds, one, threads)
        for one in neighbours
    ]
    taken, burnt = [], []
    for number in range(repeat):
        for other in others:
            other()
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
        if number % 4 == 0:
            before = time.process_time()
            time.sleep(PAUSE)
            burnt.append(time.process_time() - before)
    return statistics.median(taken), statistics.median(burnt)


def _opened(model: Any, feeds: Any, name: str, threads: int) -> Run:
    session = sk.InferenceSession(model, backend=name, threads=threads)
    session.run(None, feeds)
    return lambda: session.run(None, feeds)


def _torch(threads: int) -> Run:
    import torch  # noqa: PLC0415 (need not be installed)

    torch.set_num_threads(threads)
    matrix = torch.ones(512, 512)
    return lambda: matrix @ matrix


if __name__ == "__main__":
    sys.exit(main())
