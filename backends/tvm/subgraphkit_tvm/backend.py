"""The backend: one property that takes every node TVM imports rightly."""

from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import subgraphkit as sk
from subgraphkit.backend import BindContext, Connectivity, installed_versions
from subgraphkit.ir import BoundGraph, make_subgraph
from subgraphkit_tvm.backend_options import Options
from subgraphkit_tvm.building import Engine, build, lower
from subgraphkit_tvm.claims import TvmSelector
from subgraphkit_tvm.importing import import_region, weight_names
from subgraphkit_tvm.library import MODULE, host_target, identity, raise_here, tvm, words_of
from subgraphkit_tvm.operator import TvmOperator
from subgraphkit_tvm.shared_library import load_library, unpack
from subgraphkit_tvm.tuning import make_tuner, require_tunable


class TvmProperty(sk.SubgraphProperty):
    """Whatever TVM compiles, in as few regions as possible."""

    name: ClassVar[str] = "relax"
    connectivity: Connectivity = "any"

    def __init__(self) -> None:
        self._folder: Path | None = None

    def prepare(self, graph: BoundGraph, context: BindContext[Options]) -> None:
        """Find out where answers are kept."""
        self._folder = context.kept_folder()

    def create_selector(self, graph: BoundGraph) -> sk.SubgraphSelector:
        return TvmSelector(graph, self._folder)

    def create_operator(
        self, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Compile a region; Unsupported names the nodes that do not compile by themselves, if any.

        Tuning that cannot be done here is a BackendUnavailableError (SGK104).
        """
        tune = make_tuner(context)
        with context.progress.stopping(raise_here(KeyboardInterrupt)):
            try:
                lowered = lower(import_region(subgraph))
            except Exception as error:
                context.progress.check()  # that it was stopped is no refusal
                raise _refusal_of(subgraph, error) from error
            if tune is not None:
                lowered = tune(lowered, host_target())
            context.progress.check()
            try:
                engine = build(lowered)
            except Exception as error:
                context.progress.check()
                raise _refusal_of(subgraph, error) from error
        return _operator(engine, subgraph, context.threads)


class TvmBackend(sk.Backend[Options]):
    """Compiles subgraphs of static shape to native code with Apache TVM."""

    name: ClassVar[str] = "tvm"
    api: ClassVar[str] = "1.0"
    traits = sk.Traits(
        pool="sleeps",
        evidence="asked",
        loses_nan=frozenset(
            {"Clip", "Elu", "GlobalMaxPool", "HardSigmoid", "Hardmax", "LRN", "LayerNormalization"}
            | {"MaxPool", "Relu", "Selu", "Sign", "TopK"}
        ),
    )

    def __init__(self, options: Options | None = None) -> None:
        """Take the options.

        Raises:
            BackendUnavailableError: Libraries that tuning needs are missing (SGK104).
            OptionError: Tuning is asked for without a directory (SGK112).
        """
        super().__init__(options)
        require_tunable(self.name, self.option_values)

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        return (TvmProperty(),)

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        """Say which TVM is installed; only ``deep`` imports it, which takes seconds."""
        versions = installed_versions("apache-tvm", "apache-tvm-ffi", "subgraphkit-tvm")
        device = "cpu"
        problem = "" if find_spec(MODULE) is not None else f"module {MODULE!r} is not installed"
        if deep and not problem:
            try:
                tvm("relax.frontend.onnx")
                device = f"cpu ({host_target().attrs['mcpu']})"
            except Exception as error:  # noqa: BLE001 (a probe never raises)
                problem = f"module {MODULE!r} cannot be used: {words_of(error)}"
        if problem:
            hint = "pip install 'apache-tvm>=0.27,<0.28'"
            return sk.ProbeResult(
                available=False, versions=versions, problems=(problem,), hint=hint
            )
        return sk.ProbeResult(available=True, devices=(device,), versions=versions)

    def fingerprint(self) -> str:
        """Return the identity of TVM, its LLVM and the processor compiled for."""
        return f"{self.name};{identity()}"

    def separate_weights(self, subgraph: sk.Subgraph) -> Collection[str]:
        """Name the constants that are parameters of the code."""
        return weight_names(subgraph)

    def deserialize(
        self, blob: bytes, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Load code and prepare the weights for it; ValueError if damaged or another's."""
        library = unpack(blob)
        return _operator(Engine(load_library(library), library), subgraph, context.threads)


def _operator(engine: Engine, subgraph: sk.Subgraph, threads: int | None) -> TvmOperator:
    return TvmOperator(engine, subgraph, _facts(engine, subgraph), threads)


def _refusal_of(subgraph: sk.Subgraph, error: Exception) -> sk.Unsupported:
    members = [node.id for node in subgraph.members]
    nodes = _find_blamed(subgraph, members) if len(members) > 1 else []
    return sk.Unsupported(f"TVM: {words_of(error)}", nodes=nodes)


def _find_blamed(subgraph: sk.Subgraph, nodes: Sequence[int]) -> Sequence[int]:
    """Compile halves of what fails, and halves of those that do, to tell who stands in the way."""
    if len(nodes) == 1:
        return nodes
    halves = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    return [n for half in halves if _fails(subgraph, half) for n in _find_blamed(subgraph, half)]


def _fails(subgraph: sk.Subgraph, nodes: Sequence[int]) -> bool:
    part = make_subgraph(subgraph.graph, nodes, subgraph.backend)
    try:
        if part.outputs:
            build(lower(import_region(part)))
    except Exception:  # noqa: BLE001 (which is what is asked)
        return True
    return False


def _facts(engine: Engine, subgraph: sk.Subgraph) -> Mapping[str, Any]:
    stored = (subgraph.constants[name].type.nbytes or 0 for name in weight_names(subgraph))
    return {
        "library": f"tvm {tvm().__version__}",
        "target": str(host_target()),
        "nodes": len(subgraph.members),
        "weight_bytes": sum(stored),
        "code_bytes": None if engine.library is None else len(engine.library),
        "storable": engine.library is not None,
    }
