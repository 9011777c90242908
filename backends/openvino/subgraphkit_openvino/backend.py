"""The backend: one property that takes the nodes which the device says it runs, and gets right."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

import subgraphkit as sk
from subgraphkit.backend import (
    BindContext,
    Conformance,
    Connectivity,
    Footprint,
    NodeSelector,
    attention_scores,
    constant_bytes,
    is_elementwise,
    peak_of_values,
    scaled_weights,
)
from subgraphkit.errors import CompileError
from subgraphkit.ir import BoundGraph, body_graphs
from subgraphkit_openvino import library
from subgraphkit_openvino.backend_options import Options
from subgraphkit_openvino.compiling import compile_subgraph, configuration, integers_in, restore
from subgraphkit_openvino.operator import OpenVINOOperator
from subgraphkit_openvino.questions import Questions
from subgraphkit_openvino.rules import LOSES_NAN, refusals

_SHORTER: Final = {"BF16": "bf16", "FP16": "f16"}
"""Abilities of the processor, with the precision that each lets it compute in natively."""

_CODE_OF_A_NODE: Final = 80 << 10
"""Bytes of a layer beside its weights, most of them code that is generated for its shapes."""
_CONVERTING: Final = 6 << 20
"""Bytes that the importer and the compiler of the device work in and give back."""
_LIBRARY: Final = 14 << 20
"""Bytes of code and of threads that OpenVINO touches with the first model of some size."""


class OpenVINOProperty(sk.SubgraphProperty):
    """The nodes that OpenVINO takes, less those known to be computed in other numbers."""

    name: ClassVar[str] = "query_model"
    connectivity: Connectivity = "any"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._refusals: Mapping[int, sk.Refusal] = MappingProxyType({})
        self._questions: Questions | None = None

    def prepare(self, graph: BoundGraph, context: BindContext) -> None:
        """Ask OpenVINO about the graph."""
        ruled_out = refusals(graph, integers_in(graph, self._options))
        asked = [n for n in graph.order if n not in ruled_out and not graph.is_constant_node(n)]
        device = self._options.device
        self._questions = questions = Questions(graph, device, configuration(self._options))
        self._refusals = ruled_out | questions.refusals(asked) | self._inside(graph, ruled_out)

    def _inside(self, graph: BoundGraph, ruled_out: Collection[int]) -> dict[int, sk.Refusal]:
        """Ask about what is in bodies, of which the device only looks at the node around them."""
        found: dict[int, sk.Refusal] = {}
        for node in set(graph.table.bodies).difference(ruled_out):
            for body in body_graphs(graph.nodes[node]):
                questions = Questions(body, self._options.device, configuration(self._options))
                inner = [one for one in body.order if not body.is_constant_node(one)]
                refused = questions.refusals(inner) | self._inside(body, ())
                for one, refusal in refused.items():
                    text = f"in a body, {body.nodes[one].label}: {refusal.text}"
                    found[node] = sk.Refusal(refusal.code, text)
        return found

    def create_selector(self, graph: BoundGraph) -> sk.SubgraphSelector:
        """Make the selector."""
        return NodeSelector(lambda node: self._refusals.get(node.id, True))

    def create_operator(self, subgraph: sk.Subgraph, context: BindContext) -> OpenVINOOperator:
        """Compile a region; Unsupported if the device does not run a node."""
        imported = self._questions.take_model(subgraph) if self._questions is not None else None
        try:
            return compile_subgraph(subgraph, self._options, context, imported)
        except CompileError as error:
            device, properties = self._options.device, configuration(self._options)
            questions = Questions(subgraph.graph, device, properties, asks=True)
            refused = questions.refusals(node.id for node in subgraph.members)
            if refused.keys() <= self._refusals.keys():  # which is known, and no reason
                raise
            reason = next(iter(refused.values()))
            raise sk.Unsupported(reason.text, nodes=refused, code=reason.code) from error


class OpenVINOBackend(sk.Backend[Options]):
    """Runs on the devices that OpenVINO knows: processors, graphics and NPUs of Intel."""

    name: ClassVar[str] = "openvino"
    api: ClassVar[str] = "1.0"
    traits = sk.Traits(pool="sleeps", evidence="asked", maps_engines=True, loses_nan=LOSES_NAN)

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        """Return the one property; OptionError (SGK112) if there is no such device."""
        library.check_device(self.option_values.device)
        return (OpenVINOProperty(self.option_values),)

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        """Look for OpenVINO; with ``deep``, for its devices as well."""
        versions = library.versions()
        if not library.is_installed():
            return _unusable("OpenVINO is not installed", "pip install openvino", versions)
        if not deep:
            return sk.ProbeResult(available=True, devices=("CPU",), versions=versions)
        try:
            devices = library.devices()
            able = library.core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        except Exception as error:  # noqa: BLE001 (whatever is wrong, a probe tells it)
            problem = f"OpenVINO cannot be used: {library.words(error)}"
            return _unusable(problem, "pip install --force-reinstall openvino", versions)
        short = tuple(word for name, word in _SHORTER.items() if name in able)
        return sk.ProbeResult(available=True, devices=devices, versions=versions, precisions=short)

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        """Declare what is left to others."""
        # No xfail, because a processor without shorter floats has no precision to lose.
        suite.skip(
            "L6/nets/deep_recurrent",
            "OpenVINO's import forgets the precision it was told to compute in where recurrent "
            "layers stand on one another; such engines are not kept (SGK155)",
        )
        suite.lacks("open_zeros", "products with -1 or another number make 0 of -0 there")

    def fingerprint(self) -> str:
        """Return the build of OpenVINO, and name and abilities of the device."""
        device = self.option_values.device
        core = library.core()
        build = core.get_versions(device)[device.partition(".")[0]].build_number
        full_name = core.get_property(device, "FULL_DEVICE_NAME")
        abilities = ",".join(sorted(core.get_property(device, "OPTIMIZATION_CAPABILITIES")))
        return f"openvino;{build};{device};{full_name};{abilities}"

    def footprint(self, subgraph: sk.Subgraph) -> Footprint:
        """Count a packed copy of what layers multiply by, their code, and the values of a run.

        What is only looked up, as embeddings are, is read where it is. On another device than the
        processor nobody can say, and this is what the host may need meanwhile.
        """
        values = peak_of_values(
            subgraph, overwrites=is_elementwise, hidden=attention_scores(subgraph)
        )
        scaled = scaled_weights(subgraph)
        held = constant_bytes(subgraph, lambda node, place: node.inputs[place] in scaled)
        held += constant_bytes(subgraph, lambda node, at: at != 0 or node.op_type != "Gather")
        held += len(subgraph.members) * _CODE_OF_A_NODE
        return Footprint(held, _CONVERTING, values, values.bytes, keeps_work=True, library=_LIBRARY)

    def deserialize(
        self, blob: bytes | memoryview, subgraph: sk.Subgraph, context: BindContext
    ) -> OpenVINOOperator:
        """Restore a compiled region; CompileError (SGK130) if it is not of here, or damaged."""
        return restore(blob, subgraph, self.option_values, context)


def _unusable(problem: str, hint: str, versions: Mapping[str, str]) -> sk.ProbeResult:
    return sk.ProbeResult(available=False, versions=versions, problems=(problem,), hint=hint)
