"""The isolated side: the objects in the process in which backends of one bound model run.

``Workshop`` opens the model in a folder as it was bound; its methods are called from the other
process. Values are in memory that both share.
"""

import json
import math
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from subgraphkit.backend.operator import SubgraphOperator, maker_of
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel, bind
from subgraphkit.binding.model_process import MODEL
from subgraphkit.compiling.compilation import Setup
from subgraphkit.compiling.proving import Proofs, ProofStep
from subgraphkit.configuration.config import plain_value
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.ir import Initializer, Subgraph
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io import load_read
from subgraphkit.partitioning import Claim, Partitioning
from subgraphkit.partitioning.claiming.claim import Passes
from subgraphkit.partitioning.claims import choose_claimants
from subgraphkit.partitioning.constraints import ResolvedConstraints
from subgraphkit.partitioning.division import claim_regions
from subgraphkit.processes.shared_area import SharedArea

_Tell = Callable[[Any], None]


class Workshop:
    """All that lives in the process: a model, bound as it was bound, and operators by number.

    ``folder``: Where the model is. ``inward``, ``outward``: Descriptors of the memory for values.
    """

    def __init__(self, tell: _Tell, folder: str, inward: int, outward: int, job: Any) -> None:
        self._own = os.getpid()
        self._inward, self._outward = SharedArea(inward), SharedArea(outward)
        self._tell = tell
        self._graph = _bind_model(Path(folder) / MODEL, job)
        self._claims: dict[str, list[Claim]] = {}
        self._prepared: set[Claim] = set()
        self._operators: dict[int, SubgraphOperator] = {}
        self._unproven: dict[int, tuple[Proofs, Subgraph]] = {}
        self._count = 0

    def create(
        self, tell: _Tell, recipe: Mapping[str, Any], names: Sequence[str], values: str
    ) -> dict[str, Any]:
        """Compile a subgraph, or restore it from the cache."""
        *weights, engine = [*self._restore_values(values), None][: len(names) + 1]
        subgraph = self._subgraph(recipe, dict(zip(names, weights, strict=True)))
        claims = self._claims_of(recipe["backend"])
        claim = next(one for one in claims if one.property_name == recipe["property"])
        if claim not in self._prepared:
            self._prepared.add(claim)
            claim.property.prepare(self._graph, claim.context)
        partitioning = self._partitioning(subgraph, claim, recipe)
        progress = _progress(tell)
        setup = Setup.of(partitioning, progress)._replace(shares_processors=recipe["shares"])
        if not recipe["cached"]:
            setup = setup._replace(cache=None)
        restored = engine is not None
        with _bounded_time(self._graph.settings.limits):
            if engine is not None:
                context = replace(claim.context, shares_processors=recipe["shares"])
                operator = claim.backend.deserialize(engine.tobytes(), subgraph, context)
            else:
                operator, restored = setup.on(subgraph).obtain(subgraph, claim)
        self._count = number = self._count + 1
        self._operators[number] = operator
        became = ""
        if setup.cache is not None and setup.cache.proofs.waiting:
            self._unproven[number] = setup.cache.proofs, subgraph
            became = "unproven"
        elif setup.cache is not None and subgraph.id in setup.cache.kept:
            became = "kept"
        facts = {"maker": maker_of(operator), "restored": restored, "engine": became}
        return {"number": number, **facts}

    def prove(self, number: int, given: str) -> str:
        """Prove the engine of an operator on inputs, and keep it if nothing speaks against it."""
        proofs, subgraph = self._unproven.pop(number)
        proofs.told.add(subgraph.backend)  # where it was asked
        values = dict(zip(subgraph.inputs, self._restore_values(given), strict=True))
        proofs.settle([ProofStep(subgraph, self._operators[number])], values)
        return "; ".join(one.context["problem"] for one in proofs.refused.values())

    def rehearse(self, tell: _Tell, backends: Sequence[Mapping[str, Any]]) -> None:
        """Ask backends the questions of a partition pass, to see whether one ends the process."""
        progress = _progress(tell)
        # which comes up again, where they are asked in earnest
        with suppress(Exception), _bounded_time(self._graph.settings.limits):
            claims = self._choose_claims(backends)
            claim_regions(
                self._graph, claims, told=lambda one: progress("asking", 0, None, one.backend.name)
            )

    def run(self, number: int, given: str) -> str:
        """Run an operator; see ``SharedArea.store`` for arguments and result."""
        results = self._operators[number].run(self._inward.restore(given))
        if os.getpid() != self._own:
            os._exit(1)  # a copy that a plugin has made would store over the answer to a later run
        return self._outward.store([_on_host(one) for one in results])

    def update(self, number: int, names: Sequence[str], values: str) -> bool:
        """Hand new weights to an operator."""
        new = dict(zip(names, self._restore_values(values), strict=True))
        return self._operators[number].update_weights(new)

    def ask(self, number: int, what: str) -> Any:
        """Ask an operator something about itself, or close it."""
        operator = self._operators[number]
        if what == "close":
            del self._operators[number]
            if number in self._unproven:
                self._unproven.pop(number)[0].drop([operator])
        result = getattr(operator, what)()
        if isinstance(result, bytes | bytearray | memoryview):
            result = self._outward.store([np.frombuffer(result, np.uint8)])
        return plain_value(result)

    # -- inside ------------------------------------------------------------------------------

    def _restore_values(self, values: str) -> list[Any]:
        return [np.array(one) for one in self._inward.restore(values)]

    def _subgraph(self, recipe: Mapping[str, Any], changed: Mapping[str, Any]) -> Subgraph:
        constants = {name: self._graph.constants[name] for name in recipe["constants"]}
        for name, array in changed.items():
            array.flags.writeable = False
            type_, version = constants[name].type, constants[name].version + 1
            constants[name] = Initializer(name, type_, partial(np.asarray, array), version)
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in recipe["subgraph"].items()
        }
        return Subgraph(graph=self._graph, constants=constants, **fields)

    def _claims_of(self, backend: Mapping[str, Any]) -> list[Claim]:
        key = json.dumps(backend)
        if key not in self._claims:
            self._claims[key] = self._choose_claims([backend])
        return [one for one in self._claims[key] if one.backend.name == backend["name"]]

    def _choose_claims(self, backends: Sequence[Mapping[str, Any]]) -> list[Claim]:
        """List the properties of backends, and of the fallback after them."""
        settings = self._graph.settings.selecting(tuple(map(_choice, backends)), "call", "isolate")
        graph = replace(self._graph, settings=settings)
        return next(choose_claimants(graph, settings, lambda _: False))

    def _partitioning(
        self, subgraph: Subgraph, claim: Claim, recipe: Mapping[str, Any]
    ) -> Partitioning:
        excluded = {name: frozenset(nodes) for name, nodes in recipe["excluded"].items()}
        return Partitioning(
            graph=self._graph,
            subgraphs=(subgraph,),
            passes=Passes((claim,), (None,), (None,)),
            claimed_by=(0,),
            constraints=ResolvedConstraints(dict(recipe["pinned"]), excluded),
        )


def _bind_model(path: Path, job: Mapping[str, Any]) -> BoundModel:
    """Bind the model as it was bound."""
    bound = bind(
        load_read(path.read_bytes(), path),
        {key: tuple(v) if isinstance(v, list) else v for key, v in job["shapes"].items()},
        backend="none",
        options=job["options"],
        fold=False,
        isolate="none",
        plugins="none",
        **job["settings"],
    )
    _bound_memory(bound.settings.limits)
    return replace(
        bound,
        name=job["name"],
        inputs=tuple(job["inputs"]),
        outputs=tuple(job["outputs"]),
        order=job["order"],
        left_out=dict(job["left_out"]),
    )


def _progress(tell: _Tell) -> Progress:
    return Progress(lambda event: tell([event.phase, event.done, event.total, event.message]))


def _choice(backend: Mapping[str, Any]) -> BackendChoice:
    module, _, attribute = backend["place"].partition(":")
    target = getattr(import_module(module), attribute) if module else None
    options = MappingProxyType(backend["options"])
    return BackendChoice(backend["name"], options=options, target=target, origin="isolate")


def _on_host(value: Any) -> Any:
    return value if value is None or isinstance(value, list | dict) else np.asarray(value)


def _bound_memory(limits: LoadLimits) -> None:
    """Have memory refused beyond the limit; only written memory counts, not reserved."""
    if limits.compile_bytes:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_at_most(limits.compile_bytes, most), most))


@contextmanager
def _bounded_time(limits: LoadLimits) -> Iterator[None]:
    """Have the system end this process when work takes more processor time than it may."""
    before = resource.getrlimit(resource.RLIMIT_CPU)
    if limits.max_compile_seconds:
        end = math.ceil(time.process_time()) + limits.max_compile_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (_at_most(end, before[1]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)


def _at_most(wanted: int, most: int) -> int:
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)
