"""Decoders with a cache of keys and values, step by step, beside ONNX Runtime and OpenVINO.

Usage: ``python benchmarks/backends/bench_decoders.py FILE...``

Each file is a decoder as optimum exports it: ``past_key_values.*`` among its inputs, ``present.*``
among its outputs. Every way writes the same number of tokens, always the best one, and all ways
take turns. What is compared: runs with arrays, bindings that hand a result on as the next input,
our states, and OpenVINO with the cache as a state of its own. Weights may be drawn at random: each
way has to write the same tokens as ONNX Runtime, or the table says after how many it differs.
"""

import resource
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measuring import THREADS, Table, base_parser, limit_threads, show

limit_threads()
import numpy as np  # noqa: E402 (reads the number of threads when imported)
import onnxruntime  # noqa: E402 (imports NumPy)

import subgraphkit as sk  # noqa: E402 (imports NumPy when used)
from subgraphkit.compat import onnxruntime as door  # noqa: E402 (imports NumPy)

PROMPT: Final = 4
TOKENS: Final = 128
Step = Callable[[dict[str, Any]], Any]
Way = Callable[[Path], Callable[[], Step]]
DTYPES: Final = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}


def main() -> None:
    """Measure every decoder and print a table for each."""
    parser = base_parser(__doc__, repeat=5)
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    for path in arguments.files:
        show(_measured(path, arguments.repeat), markdown=arguments.markdown)


def _measured(path: Path, repeat: int) -> Table:
    opened = {}
    for name, way in WAYS.items():
        try:
            opened[name] = way(path)
        except RuntimeError as error:
            print(f"{path}: {name} refuses it: {str(error).splitlines()[-1]}", file=sys.stderr)
    inputs = _plain(path).get_inputs()
    seconds: dict[str, list[float]] = {name: [] for name in opened}
    grown: dict[str, int] = dict.fromkeys(opened, 0)
    texts: dict[str, list[int]] = {}
    for turn in range(repeat + 1):  # the first warms up
        for name, begin in opened.items():
            before = _resident()
            took, texts[name] = _written(begin(), inputs)
            if turn:
                seconds[name].append(took)
                grown[name] += _resident() - before
    first = next(iter(opened))
    rows = []
    for name, spent in seconds.items():
        base = seconds.get("OpenVINO" if "openvino" in name.lower() else first, spent)
        ratio = statistics.median(one / other for one, other in zip(spent, base, strict=True))
        speed = TOKENS / statistics.median(spent)
        rows.append(
            [
                name,
                f"{speed:,.0f}",
                f"{ratio:.2f}",
                f"{grown[name] >> 10}",
                _same(texts, name, first),
            ]
        )
    return Table(
        f"{path.parent.name}/{path.name}, {TOKENS} tokens, {THREADS} threads",
        ["way", "tokens/s", "time / its library's run", "MiB grown", "tokens"],
        rows,
    )


def _same(texts: dict[str, list[int]], name: str, first: str) -> str:
    pairs = zip(texts[name], texts[first], strict=True)
    at = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
    return "the same" if at is None else f"others after {at}"


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _written(step: Step, inputs: list[Any]) -> tuple[float, list[int]]:
    """Read a prompt, write tokens, and return the seconds of all steps but the first."""
    ids, total = np.arange(1, PROMPT + 1)[None], 0
    feeds = _fixed(inputs)
    text: list[int] = []
    marks = []
    for _ in range(TOKENS + 1):
        count = ids.shape[1]
        total += count
        told = {
            "input_ids": ids,
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(total - count, total)[None],
            "use_cache_branch": np.array([total > PROMPT]),
        }
        feeds |= {name: one for name, one in told.items() if name in feeds}
        scores = step(feeds)
        ids = scores[:, -1].argmax(-1)[None]
        text.append(int(ids[0, 0]))
        marks.append(time.perf_counter())
    return sum(after - before for before, after in pairwise(marks)), text


def _fixed(inputs: list[Any]) -> dict[str, Any]:
    """Return what every step is fed: an encoder's result, and names that a step fills."""
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    for one in inputs:
        if one.name.startswith("past_key_values"):
            continue
        shape = [dim if isinstance(dim, int) else 1 for dim in one.shape]
        if one.name == "encoder_hidden_states":
            shape = [1, 20, shape[2]]
            feeds[one.name] = rng.standard_normal(shape, np.float32)
        elif one.name == "encoder_attention_mask":
            feeds[one.name] = np.ones((1, 20), np.int64)
        else:
            feeds[one.name] = np.zeros(shape, DTYPES[one.type])
    return feeds


def _empty(inputs: list[Any]) -> dict[str, Any]:
    """Return caches that hold nothing yet: one sequence, no steps."""
    shapes = {
        one.name: [1, one.shape[1], 0, one.shape[3]]
        for one in inputs
        if one.name.startswith("past_key_values")
    }
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def _caches(session: Any) -> dict[str, str]:
    """Return for each output that is handed on the input that reads it."""
    return {
        one.name: one.name.replace("present", "past_key_values")
        for one in session.get_outputs()
        if one.name.startswith("present")
    }


def _waiting(options: Any) -> Any:
    """Set threads that wait without spinning: several pools are in one process."""
    options.intra_op_num_threads = THREADS
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _plain(path: Path) -> Any:
    options = _waiting(onnxruntime.SessionOptions())
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _ours(backend: str) -> Callable[[Path], Any]:
    def opened(path: Path) -> Any:
        options = _waiting(door.SessionOptions())
        with sk.config.set(backend=backend):
            return door.InferenceSession(str(path), options)

    return opened


def _by_runs(opened: Callable[[Path], Any]) -> Way:
    def way(path: Path) -> Callable[[], Step]:
        session = opened(path)
        caches = _caches(session)
        names = ["logits", *caches]

        def begin() -> Step:
            held = _empty(session.get_inputs())

            def step(feeds: dict[str, Any]) -> Any:
                scores, *made = session.run(names, {**feeds, **held})
                _keep(held, caches, made)
                return scores

            return step

        return begin

    return way


def _keep(held: dict[str, Any], caches: dict[str, str], made: list[Any]) -> None:
    """Hand results on, but for those of an encoder's keys, which a later step makes empty."""
    found = zip(caches.values(), made, strict=True)
    held |= {name: one for name, one in found if len(one)}


def _by_binding(opened: Callable[[Path], Any], value: Any) -> Way:
    def way(path: Path) -> Callable[[], Step]:
        session = opened(path)
        caches = _caches(session)

        def begin() -> Step:
            held = {
                name: value.ortvalue_from_numpy(array)
                for name, array in _empty(session.get_inputs()).items()
            }
            binding = session.io_binding()

            def step(feeds: dict[str, Any]) -> Any:
                for name, array in feeds.items():
                    binding.bind_cpu_input(name, array)
                for name, one in held.items():
                    binding.bind_ortvalue_input(name, one)
                for name in ("logits", *caches):
                    binding.bind_output(name)
                session.run_with_iobinding(binding)
                scores, *made = binding.get_outputs()
                found = zip(caches.values(), made, strict=True)
                held.update((name, one) for name, one in found if one.shape()[0])
                return scores.numpy()

            return step

        return begin

    return way


def _by_state(opened: Callable[[Path], Any]) -> Way:
    def way(path: Path) -> Callable[[], Step]:
        session = opened(path).inner

        def begin() -> Step:
            state = sk.State(session, once="*.encoder.*")

            def step(feeds: dict[str, Any]) -> Any:
                return state.run(["logits"], feeds)[0]

            return step

        return begin

    return way


def _openvino(*, stateful: bool) -> Way:
    def way(path: Path) -> Callable[[], Step]:
        import openvino  # noqa: PLC0415 (only where it is compared)
        from openvino._offline_transformations import (  # noqa: PLC0415 (its own tools do)
            apply_make_stateful_transformation,
        )

        session = _plain(path)
        caches = _caches(session)
        core = openvino.Core()
        model = core.read_model(str(path))
        if stateful:  # a state begins empty along one axis only
            shapes = {one.any_name: one.partial_shape for one in model.inputs}
            for shape in shapes.values():
                shape[0] = 1
            model.reshape(shapes)
            apply_make_stateful_transformation(
                model, {past: present for present, past in caches.items()}
            )
        settings = {"INFERENCE_NUM_THREADS": THREADS, "EXECUTION_MODE_HINT": "ACCURACY"}
        compiled = core.compile_model(model, "CPU", settings)

        def begin() -> Step:
            request = compiled.create_infer_request()
            request.reset_state()
            held = {} if stateful else _empty(session.get_inputs())

            def step(feeds: dict[str, Any]) -> Any:
                made = request.infer({**feeds, **held}, share_inputs=True)
                if not stateful:
                    _keep(held, caches, [made[name].copy() for name in caches])
                return made["logits"]

            return step

        return begin

    return way


WAYS: Final[dict[str, Way]] = {
    "ONNX Runtime": _by_runs(_plain),
    "ONNX Runtime, bound": _by_binding(_plain, onnxruntime.OrtValue),
    "onnxruntime": _by_runs(_ours("onnxruntime")),
    "onnxruntime, bound": _by_binding(_ours("onnxruntime"), door.OrtValue),
    "onnxruntime, state": _by_state(_ours("onnxruntime")),
    "OpenVINO": _openvino(stateful=False),
    "OpenVINO, stateful": _openvino(stateful=True),
    "openvino": _by_runs(_ours("openvino")),
    "openvino, bound": _by_binding(_ours("openvino"), door.OrtValue),
    "openvino, state": _by_state(_ours("openvino")),
}

if __name__ == "__main__":
    main()
