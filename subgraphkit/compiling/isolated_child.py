"""The isolated side: the process in which backends of one bound model compile and run.

``python -m subgraphkit.compiling.isolated_child FOLDER IN OUT LINE`` opens the model in a folder as
it was bound, then carries out requests, a line of JSON each. Values are in the memory behind the
descriptors ``IN`` and ``OUT``; the process ends with whoever holds the other end of ``LINE``.
"""

import fcntl
import json
import math
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from importlib import import_module
from operator import is_
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, cast

import numpy as np

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.progress import Progress, ProgressEvent
from subgraphkit.binding import BoundModel, bind
from subgraphkit.binding.model_process import MODEL, plain_error
from subgraphkit.compiling.compilation import Means, obtained
from subgraphkit.configuration.handing import plain_value
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.finding.child_probe import answering
from subgraphkit.ir import Initializer, Subgraph
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io import load_read
from subgraphkit.partitioning import Claim, Partitioning
from subgraphkit.partitioning.claiming.claimants import choose_claimants
from subgraphkit.partitioning.claiming.constraints import ResolvedConstraints
from subgraphkit.partitioning.claiming.turns import Turns
from subgraphkit.partitioning.division import claimed
from subgraphkit.processes.shared_area import Kind, SharedArea
from subgraphkit.types import DataType, TensorType

_WORTH_A_PLACE: Final = 1 << 16
"""Bytes of outputs from which on an operator is given the memory to write them into."""

_Answer = Callable[[Mapping[str, Any]], None]


class _Workshop:
    """All that lives in the process, and one method for each request."""

    def __init__(
        self, folder: Path, inward: SharedArea, outward: SharedArea, answer: _Answer
    ) -> None:
        self._folder, self._inward, self._outward, self._answer = folder, inward, outward, answer
        self._graph: BoundModel
        self._claims: dict[str, list[Claim]] = {}
        self._prepared: set[Claim] = set()
        self._operators: dict[int, SubgraphOperator] = {}
        self._kinds: dict[int, tuple[Kind, ...] | None] = {}
        self._locked = threading.Lock()

    def open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Bind the model as it was bound."""
        job = request["open"]
        path = self._folder / MODEL
        bound = bind(
            load_read(path.read_bytes(), path),
            {key: _shape(value) for key, value in job["shapes"].items()},
            backend="none",
            options=job["options"],
            fold=False,
            isolate="none",
            plugins="none",
            **job["settings"],
        )
        _bound_memory(bound.settings.limits)
        self._graph = replace(
            bound,
            name=job["name"],
            inputs=tuple(job["inputs"]),
            outputs=tuple(job["outputs"]),
            order=job["order"],
            left_out=dict(job["left_out"]),
        )
        return {}

    def create(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Compile a subgraph, or restore it from the cache."""
        recipe = request["create"]
        *weights, engine = [*self._given(request), None][: len(request["names"]) + 1]
        subgraph = self._subgraph(recipe, dict(zip(request["names"], weights, strict=True)))
        claims = self._claims_of(recipe["backend"])
        claim = next(one for one in claims if one.property_name == recipe["property"])
        if claim not in self._prepared:
            self._prepared.add(claim)
            claim.property.prepare(self._graph, claim.context)
        partitioning = self._partitioning(subgraph, claim, recipe)
        progress = Progress(self._tell)
        means = Means.of(partitioning, progress, shares_processors=recipe["shares"])
        if not recipe["cached"]:
            means = means._replace(cache=None)
        restored = engine is not None
        with _bounded_time(self._graph.settings.limits):
            if engine is not None:
                context = replace(claim.context, shares_processors=recipe["shares"])
                operator = claim.backend.restore(engine.tobytes(), subgraph, context)
            else:
                operator, restored = obtained(partitioning, subgraph, claim, means.on(subgraph))
        number = len(self._kinds) + 1
        self._operators[number], self._kinds[number] = (operator, _kinds(subgraph, operator))
        kept = means.cache is not None and subgraph.id in means.cache.kept
        return {"number": number, "made_by": operator.made_by, "restored": restored, "kept": kept}

    def rehearse(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask backends what they will be asked, to see whether one takes the process down."""
        tell = Progress(self._tell)
        # which comes up again, where they are asked in earnest
        with suppress(Exception), _bounded_time(self._graph.settings.limits):
            claims = self._chosen(request["rehearse"])
            claimed(self._graph, claims, told=lambda one: tell("asking", 0, None, one.backend.name))
        return {}

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run an operator."""
        number = request["run"]
        kinds = self._kinds[number]
        places = None if kinds is None else self._outward.places(kinds)
        results = self._operators[number].run(self._inward.restore(request["values"]), places)
        values = [_on_host(one) for one in results]
        if places is not None and not all(map(is_, values, places)):
            # one may be where another is to be written
            values = [
                deepcopy(one) if any(np.may_share_memory(one, place) for place in places) else one
                for one in values
            ]
        return {"values": self._outward.store(values)}

    def update(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Hand new weights to an operator."""
        return {
            "taken": self._operators[request["update"]].update_weights(
                dict(zip(request["names"], self._given(request), strict=True))
            )
        }

    def call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask an operator something about itself, or close it."""
        number, what = request["of"], request["call"]
        operator = self._operators.pop(number) if what == "close" else self._operators[number]
        result = getattr(operator, what)()
        if isinstance(result, bytes | bytearray | memoryview):
            result = self._outward.store([np.frombuffer(result, np.uint8)])
        return {"result": plain_value(result)}

    # -- inside ------------------------------------------------------------------------------

    def _tell(self, event: ProgressEvent) -> None:
        with self._locked:
            self._answer({"event": [event.phase, event.done, event.total, event.message]})

    def _given(self, request: Mapping[str, Any]) -> list[Any]:
        return [np.array(one) for one in self._inward.restore(request["values"])]

    def _subgraph(self, recipe: Mapping[str, Any], changed: Mapping[str, Any]) -> Subgraph:
        constants = {name: self._graph.constants[name] for name in recipe["constants"]}
        for name, array in changed.items():
            array.flags.writeable = False
            type_, version = constants[name].type, constants[name].version + 1
            constants[name] = Initializer(name, type_, partial(_itself, array), version)
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in recipe["subgraph"].items()
        }
        return Subgraph(graph=self._graph, constants=constants, **fields)

    def _claims_of(self, backend: Mapping[str, Any]) -> list[Claim]:
        key = json.dumps(backend)
        if key not in self._claims:
            self._claims[key] = self._chosen([backend])
        return [one for one in self._claims[key] if one.backend.name == backend["name"]]

    def _chosen(self, backends: Sequence[Mapping[str, Any]]) -> list[Claim]:
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
            turns=Turns((claim,), (None,), (None,)),
            claimed_by=(0,),
            constraints=ResolvedConstraints(dict(recipe["pinned"]), excluded),
        )


def _choice(backend: Mapping[str, Any]) -> BackendChoice:
    module, _, attribute = backend["place"].partition(":")
    target = getattr(import_module(module), attribute) if module else None
    options = MappingProxyType(backend["options"])
    return BackendChoice(backend["name"], options=options, target=target, origin="isolate")


def _itself(array: Any) -> Any:
    return array


def _shape(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _kinds(subgraph: Subgraph, operator: SubgraphOperator) -> tuple[Kind, ...] | None:
    """Return the kinds of the outputs if all are known and large; None if not."""
    types = [type_ for type_ in subgraph.output_types if isinstance(type_, TensorType)]
    if len(types) < len(subgraph.outputs) or operator.device != "cpu":
        return None
    sizes = [0 if one.dtype is DataType.STRING else one.nbytes or 0 for one in types]
    if not all(sizes) or sum(sizes) < _WORTH_A_PLACE:
        return None
    return tuple((one.dtype.numpy, cast("tuple[int, ...]", one.shape)) for one in types)


def _on_host(value: Any) -> Any:
    return value if value is None or isinstance(value, list | dict) else np.asarray(value)


def _bound_memory(limits: LoadLimits) -> None:
    """Have memory refused beyond the limit: that which is written to, not what is reserved."""
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


def _requests() -> IO[str]:
    """Keep standard input for requests; to plugins, and what they start, it is empty."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests


def _end_with_parent(line: int) -> None:
    """Have the system end this process, and what it forked, when the other end of a pipe is closed.

    It needs no thread of Python's, which a library that never returns would keep from running.
    """
    fcntl.fcntl(line, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(line, fcntl.F_GETFL)
    fcntl.fcntl(line, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    try:
        gone = not os.read(line, 1)
    except BlockingIOError:
        gone = False
    if gone:
        os._exit(1)


def main(arguments: Sequence[str]) -> int:
    """Carry out requests until there are no more."""
    folder, inward, outward, line = arguments
    _end_with_parent(int(line))
    with answering() as answer:
        areas = SharedArea(int(inward)), SharedArea(int(outward))
        workshop = _Workshop(Path(folder), *areas, answer)
        own, requests = os.getpid(), _requests()
        for text in requests:
            request = json.loads(text)
            try:
                answered = getattr(workshop, next(iter(request)))(request)
            except BaseException as error:  # noqa: BLE001 (raised where it was asked)
                answered = {"failed": plain_error(error)}
            if os.getpid() != own:
                os._exit(1)  # a copy that a plugin has made and that is not to answer as well
            answer(answered)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
