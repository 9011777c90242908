"""Models that were spoiled, opened and run on a backend, and judged by two other runtimes."""

import os
import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import subgraphkit as sk
from subgraphkit.backend.differences import first_difference
from subgraphkit_onnxruntime.backend import OnnxRuntimeBackend
from tests.campaign import judges, models
from tests.campaign.mutations import Mutator, messages, mutate, spoiled_bytes
from tests.campaign.trials import Attack, Case, Outcome

_REAL: Final = 0.01
"""The share of mutants that are made of real networks, which take a hundred times as long."""
_BYTES: Final = 0.15
"""The share of which bytes are spoiled, and not what they mean."""
_LIMITS: Final = "max_value_bytes=512MiB"
"""What a server would say that has less memory than the machine, as a child has."""
_LONGEST: Final = 5.0
"""Seconds that a run may take."""
_NOTHING: Final = '<ir_version: 10, opset_import: ["": 21]> g (float x) => (float y) { y = Abs(x) }'


class Mutants(Attack):
    """Spoil an official case or a real network, open it, and feed it."""

    name = "mutants"
    backends = ("numpy", "onnxruntime", "openvino", "onednn", "tvm", "iree")
    share = 10.0
    about = "models spoiled in what they mean or in their bytes, opened, fed and judged"
    settings: ClassVar[dict[str, Any]] = {"on_fallback": "ok", "limits": _LIMITS}

    def load(self) -> None:
        models.official()
        models.real()

    def prepare(self, scratch: Path, backend: str) -> None:
        self._answers = scratch / f"{backend}-answers-{os.getpid()}"
        self._selection = backend if backend == "numpy" else f"{backend},numpy"
        self._place = 0

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        corpus = models.real() if rng.random() < _REAL else models.official()
        drawn = rng.choice(corpus)
        data, feeds = models.model_of(drawn), models.feeds_of(drawn)
        if rng.random() < _BYTES:
            return models.case_of(spoiled_bytes(data, rng), feeds)
        model = onnx.ModelProto.FromString(data)
        strange = onnx.ModelProto.FromString(
            models.model_of(rng.choice(models.official()))
        ).graph.node
        mutator = Mutator(model, feeds, rng, rng.choice(strange) if strange else onnx.NodeProto())
        with np.errstate(all="ignore"):
            mutate(mutator, rng.choice((1, 1, 1, 2, 3, 5)))
        return models.case_of(model.SerializeToString(), mutator.feeds)

    def attempt(self, case: Case, backend: str) -> Outcome:
        feeds = models.feeds_of(case)
        with sk.InferenceSession(
            models.model_of(case), self._selection, cache="off", **self.settings
        ) as session:
            results = session.run(None, feeds, timeout_s=_LONGEST)
        for name, value in models.feeds_of(case).items():
            if first_difference(feeds[name], value):
                return Outcome("wrong", "input changed", name[:80])
        self._place = (self._place + 1) % 64
        path = self._answers.with_name(f"{self._answers.name}-{self._place}")
        path.write_text(text := models.write_values(results))
        return Outcome("ran", answers=str(path) if text else "")

    def judged(self, case: Case, answers: str) -> Outcome | None:
        results = models.read_values(Path(answers).read_text())
        model = onnx.load_from_string(models.model_of(case))
        first = judges.runtime(model, models.feeds_of(case))
        if first is None or (found := judges.differs(results, first)) is None:
            return None if first is None else Outcome("ran", "judged")
        second = _reference(case)
        if second is None or judges.differs(second, first) or judges.differs(first, second):
            return None
        if "nan" in found and self.excuses_nan(model, case, Path(answers).name.partition("-")[0]):
            return None
        return Outcome("wrong", " ".join(sorted(judges.operators(model)))[:80], found)

    def excuses_nan(self, model: onnx.ModelProto, case: Case, backend: str) -> bool:
        """Say whether NaN, or a number in its place, is nothing that anybody promises."""
        operators = judges.operators(model)
        losing = OnnxRuntimeBackend.traits.loses_nan.union(*map(_losing_nan, backend.split(",")))
        if not operators.isdisjoint(losing):
            return True  # one of them makes a number of NaN there, as its page says
        if may_overflow([*models.feeds_of(case).values(), *_stated(model)]):
            return True  # whether what is in between overflows, rounding decides
        # times the zeros of a padding, if they are multiplied
        return "Conv" in operators and _has_infinity(model)

    def smaller(self, case: Case) -> Iterator[Case]:
        data, feeds = models.model_of(case), models.feeds_of(case)
        try:
            for simpler in _simpler(onnx.load_from_string(data)):
                used = {one.name for one in simpler.graph.input}
                rest = {name: value for name, value in feeds.items() if name in used}
                yield models.case_of(simpler.SerializeToString(), rest)
        except Exception:  # noqa: BLE001 (protobuf has several for what it cannot read)
            size = len(data) // 2
            while size:
                for start in range(0, len(data), size):
                    yield models.case_of(data[:start] + data[start + size :], feeds)
                size //= 2


class Isolated(Mutants):
    """The same with libraries in processes of their own: there they may crash."""

    name = "isolated"
    backends, share = ("onnxruntime", "openvino", "onednn"), 4.0
    about = 'the same with `isolate="process"`: a library that crashes is an error with a code'
    settings: ClassVar[dict[str, Any]] = {**Mutants.settings, "isolate": "process"}


def _simpler(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Yield the model without one thing that it holds."""
    yield from _bypassed(model)
    for place, message in enumerate(messages(model)):
        for field, _ in message.ListFields():
            if field.is_repeated:
                yield from _without(
                    model, lambda m, p=place, f=field.name: getattr([*messages(m)][p], f)
                )
            else:
                copy = onnx.ModelProto.FromString(model.SerializeToString())
                [*messages(copy)][place].ClearField(field.name)
                yield copy


def _bypassed(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Yield the model up to a node, and the model with what goes into a node in its place."""
    for place, node in enumerate(model.graph.node[:-1]):
        copy = onnx.ModelProto.FromString(model.SerializeToString())
        del copy.graph.node[place + 1 :]
        del copy.graph.output[:]
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
        yield copy
    for place, node in enumerate(model.graph.node):
        if node.input and node.output:
            copy = onnx.ModelProto.FromString(model.SerializeToString())
            del copy.graph.node[place]
            for one in copy.graph.node:
                one.input[:] = [node.input[0] if n == node.output[0] else n for n in one.input]
            yield copy


def _without(model: onnx.ModelProto, items: Any) -> Iterator[onnx.ModelProto]:
    """Yield the model without some of the items of a list in it, half of them at first."""
    count = len(items(model))
    size = (count + 1) // 2
    while size:
        for start in range(0, count, size):
            copy = onnx.ModelProto.FromString(model.SerializeToString())
            try:
                del items(copy)[start : start + size]
            except IndexError:
                continue
            yield copy
        size //= 2


def _reference(case: Case) -> list[Any] | None:
    try:
        with np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(onnx.load_from_string(models.model_of(case)))
            return list(evaluator.run(None, models.feeds_of(case)))
    except Exception:  # noqa: BLE001 (a judge that cannot answer says nothing)
        return None


@cache
def _losing_nan(backend: str) -> frozenset[str]:
    bound = sk.bind(sk.load(onnx.parser.parse_model(_NOTHING)), backend=backend)
    claims = sk.partition(bound, dry_run=True).passes.claims
    return frozenset[str]().union(*(one.backend.traits.loses_nan for one in claims))


def may_overflow(values: Sequence[Any]) -> bool:
    """Say whether there is a finite number whose square is none."""
    finite = (np.abs(one[np.isfinite(one)]) for one in values if _is_real(one))
    return any(one.size and one.max() > np.sqrt(np.finfo(one.dtype).max) for one in finite)


def _stated(model: onnx.ModelProto) -> Iterator[Any]:
    """Yield the numbers that attributes of a model state."""
    for one in messages(model):
        if isinstance(one, onnx.AttributeProto):
            yield np.array([one.f, *one.floats], np.float32)


def _has_infinity(model: onnx.ModelProto) -> bool:
    stored = (one for one in messages(model) if isinstance(one, onnx.TensorProto))
    return any(_is_real(x := numpy_helper.to_array(one)) and np.isinf(x).any() for one in stored)


def _is_real(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"
