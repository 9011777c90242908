"""Valid graphs of every operator, run on a backend and held against two judges."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, helper

from subgraphkit.errors import SubgraphkitError
from subgraphkit.storing.files import write_whole
from tests.campaign import judges, models
from tests.campaign.bodies import grow
from tests.campaign.growing import grown, is_float
from tests.campaign.mutants import Mutants
from tests.campaign.trials import Case, Outcome

_SOURCES: Final = judges.named(
    "growing drawing recipes movements layers pictures bodies judges graphs"
)
_RETRIES: Final = 1_000_003
_NOBODY: Final = "nobody"


class Graphs(Mutants):
    """Grow a valid graph and run it; the seed says which."""

    name = "graphs"
    backends = (
        *("numpy", "onnxruntime", "openvino", "onednn", "openvino,onednn", "onednn,onnxruntime"),
        *("tvm", "iree"),
    )
    about = "valid graphs of every operator, from opset 7 to 25; a refusal is a failure as well"

    def load(self) -> None:
        """Make nothing: graphs are kept as they are grown."""

    def case(self, seed: int) -> Case:
        path = models.KEPT / f"graphs-{_version()}" / f"{seed // 1000}" / f"{seed}.json"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(_drawn(seed)).encode())
        found: Case = json.loads(path.read_text())
        return found

    def attempt(self, case: Case, backend: str) -> Outcome:
        try:
            return super().attempt(case, backend)
        except SubgraphkitError as error:
            # a library that finds nothing when running may say so
            is_empty = error.code == "SGK131" and _is_fed_nothing(case)
            if _expected(case)[1] and not is_empty:
                operators = _operators(onnx.load_from_string(models.model_of(case)))
                text = " ".join(str(error).split())[:400]
                return Outcome("wrong", f"{error.code} {operators}"[:80], text)
            raise

    def judged(self, case: Case, answers: str) -> Outcome | None:
        who, expected = _expected(case)
        if not expected:
            return None
        results = models.read_values(Path(answers).read_text())
        if (found := judges.differs(results, expected)) is None:
            return Outcome("ran", "judged")
        model = onnx.load_from_string(models.model_of(case))
        operators, tried = _operators(model), Path(answers).name.partition("-")[0]
        # some libraries begin a maximum with the least finite number, as their pages say
        begins_finite = "MaxPool" in operators and "-inf" in found and "-3.40282347e+38" in found
        if begins_finite or (_meets_nan(case, found) and self.excuses_nan(model, case, tried)):
            return None
        return Outcome("wrong", operators[:80], f"{who}: {found}")

    def smaller(self, case: Case) -> Iterator[Case]:
        model, feeds = onnx.load_from_string(models.model_of(case)), models.feeds_of(case)
        values = judges.intermediates(model, feeds)
        nodes = list(range(len(model.graph.node)))
        size = len(nodes) // 2
        while size:
            parts = [nodes[start : start + size] for start in range(0, len(nodes), size)]
            for part in [*parts, *([n for n in nodes if n not in part] for part in parts)]:
                if 0 < len(part) < len(nodes) and (found := _part(model, values, part)):
                    yield models.case_of(*found)
            size //= 2
        for changed in _plainer(model):
            yield models.case_of(changed.SerializeToString(), feeds)


def _is_fed_nothing(case: Case) -> bool:
    fed = models.feeds_of(case).values()
    return any(isinstance(one, np.ndarray) and not one.size for one in fed)


def _meets_nan(case: Case, found: str) -> bool:
    fed = [one for one in models.feeds_of(case).values() if is_float(one)]
    return "nan" in found or any(np.isnan(one.astype(np.float64)).any() for one in fed)


def _drawn(seed: int) -> Case:
    """Grow a graph of a seed, or of the first after it that gives one, with what is expected."""
    while (found := grown(seed, grow)) is None:
        seed += _RETRIES
    model, feeds = found
    case = models.case_of(model.SerializeToString(), feeds)
    who, expected = _expected(case)
    return {**case, "who": who, "expected": models.write_values(expected)}


@cache
def _version() -> str:
    """Return a digest of what draws graphs."""
    here = Path(__file__).parent
    sources = b"".join((here / f"{name}.py").read_bytes() for name in _SOURCES)
    return hashlib.sha256(sources + onnx.__version__.encode()).hexdigest()[:10]


def _expected(case: Case) -> tuple[str, Sequence[Any]]:
    """Return what is expected and who says so; nobody, or somebody else otherwise, at times."""
    if "who" in case:
        return case["who"], models.read_values(case["expected"])
    model, feeds = onnx.load_from_string(models.model_of(case)), models.feeds_of(case)
    first, second = judges.reference(model, feeds), judges.runtime(model, feeds)
    if first is None:
        first = judges.node_by_node(model, feeds)
    if first is not None and second is not None:
        return (_NOBODY, []) if judges.differs(first, second) else ("both", first)
    if first is not None and judges.has_few_bits(model):
        return "onnx.reference", first
    return _NOBODY, []


def _operators(model: ModelProto) -> str:
    return " ".join(sorted(judges.operators(model)))


def _part(model: ModelProto, values: Any, places: Sequence[int]) -> tuple[bytes, Any] | None:
    """Return a part of a graph, fed what the rest computes, that makes what the rest reads."""
    graph = model.graph
    nodes = [graph.node[place] for place in places]
    made = {name for node in nodes for name in node.output if name}
    read = {name for node in nodes for name in judges.read_names(node)}
    stored = [one for one in graph.initializer if one.name in read]
    fed = sorted(read - made - {one.name for one in stored})
    kinds = {one.name: one.type for one in graph.input} | values.kinds
    if any(name not in values.now for name in [*fed, *made]):
        return None
    ends = [name for name in made if name not in read]
    if any(values.kinds[name].HasField("optional_type") for name in ends):
        return None  # the reference returns a list of one
    outputs = [helper.make_value_info(name, values.kinds[name]) for name in sorted(ends)]
    inputs = [helper.make_value_info(name, kinds[name]) for name in fed]
    part = ModelProto()
    part.CopyFrom(model)
    part.graph.CopyFrom(helper.make_graph(nodes, graph.name, inputs, outputs, stored))
    return part.SerializeToString(), {name: values.now[name] for name in fed}


def _plainer(model: ModelProto) -> Iterator[ModelProto]:
    """Yield the model with an attribute less, an output less, or its sizes fixed."""
    for place, node in enumerate(model.graph.node):
        for number in range(len(node.attribute)):
            copy = ModelProto.FromString(model.SerializeToString())
            del copy.graph.node[place].attribute[number]
            if judges.is_valid(copy):
                yield copy
    for number in range(len(model.graph.output) if len(model.graph.output) > 1 else 0):
        copy = ModelProto.FromString(model.SerializeToString())
        del copy.graph.output[number]
        yield copy
