"""The bench on which checks of a self-test are made: sessions on one backend."""

import ast
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

from subgraphkit import InferenceSession
from subgraphkit.backend import Conformance, SelfCheck
from subgraphkit.backend.events import Check
from subgraphkit.binding import bind
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.configuration.config import resolve
from subgraphkit.errors import describe_exception
from subgraphkit.finding.registry import get_backend
from subgraphkit.loading import load
from subgraphkit.partitioning import partition
from subgraphkit.processes import NoAnswer, call, how_it_ended
from subgraphkit.testing.light_models import seeded_model

_BUILD_SECONDS: Final = 600.0
_SHOWN: Final = 400


def checks_of(name: str) -> Sequence[SelfCheck]:
    """Return the checks that a backend declares of its device."""
    suite = Conformance()
    get_backend(name).conformance(suite)
    return suite.checks


class Bench:
    """Opens sessions on one backend, with the fallback behind it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._fallback = resolve().fallback
        self._checks = checks_of(name)

    def attempt(self, place: int) -> dict[str, Any]:
        """Make one check; whatever it raises, which it should not, is a finding."""
        started, check = time.monotonic(), self._checks[place]
        try:
            found = check.attempt(self)
        except Exception as error:  # noqa: BLE001 (whatever goes wrong is the finding)
            found = Check(check.name, "failure", describe_exception(error))
        return {**asdict(found), "needs": check.needs, "seconds": time.monotonic() - started}

    def open(self, model: Any, **options: Any) -> "_Opened":
        """Open a ``ModelProto``."""
        return _Opened(model, self._name, [(self._name, options), self._fallback])

    def network(self, name: str) -> Any:
        """Return a light network of the onnx wheel, with weights."""
        return seeded_model(name)

    def expected(self, model: Any, feeds: Mapping[str, Any]) -> Sequence[Any]:
        """Compute all outputs on the fallback backend alone."""
        with InferenceSession(model, backend=self._fallback, build="now", require={}) as session:
            results: list[Any] = session.run(None, feeds)
            return results

    def engines(self, model: Any, folder: str, **options: Any) -> Sequence[str]:
        """Open a model in a new process; by engine ``"built"`` or ``"found"``."""
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "model.onnx")
            file.write_bytes(model.SerializeToString())
            given = str(file), self._name, self._fallback, repr(options)
            variables = {"SUBGRAPH_CACHE_DIR": folder}
            try:
                found = call(compile_engines, *given, timeout=_BUILD_SECONDS, variables=variables)
            except NoAnswer as ended:
                how = "a limit" if ended.code is None else how_it_ended(ended.code)
                printed = ended.printed[-_SHOWN:]
                raise RuntimeError(f"a new process ended with {how}: {printed}") from ended
        return cast("Sequence[str]", found)


def compile_engines(file: str, name: str, fallback: str, options: str) -> Sequence[str]:
    """Compile a model; say of each subgraph of a backend whether its engine was kept before.

    Options are Python, since JSON does not tell a range, which is a tuple, from a list of them.
    """
    bound = bind(load(file), backend=[(name, ast.literal_eval(options)), fallback])
    compiled = compile_subgraphs(partition(bound))
    mine = [one.id for one in compiled.partitioning.subgraphs if one.backend == name]
    states = {**dict.fromkeys(compiled.kept, "built"), **dict.fromkeys(compiled.restored, "found")}
    compiled.close()
    return [states.get(one, "not kept") for one in mine]


class _Opened:
    def __init__(self, model: Any, name: str, backends: Sequence[Any]) -> None:
        self._name = name
        self._session = InferenceSession(
            model, backend=backends, on_fallback="ok", build="now", require={}
        )

    def run(self, feeds: Mapping[str, Any]) -> Sequence[Any]:
        results: list[Any] = self._session.run(None, feeds)
        return results

    def run_bound(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Sequence[Any]:
        binding = self._session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, array)
        for name, place in outputs.items():
            binding.bind_output(name, place)
        self._session.run_with_iobinding(binding)
        results: list[Any] = binding.get_outputs()
        return results

    def update_weights(self, weights: Mapping[str, Any]) -> Mapping[str, str]:
        outcome: Mapping[str, str] = self._session.update_weights(weights)
        return outcome

    def operators(self) -> Sequence[Mapping[str, Any]]:
        steps = self._session.plan.steps
        return [one.operator.info() for one in steps if one.subgraph.backend == self._name]

    def bare_engines(self) -> Sequence[bytes]:
        mine = (one for one in self._session.plan.steps if one.subgraph.backend == self._name)
        return [engine for one in mine if (engine := one.operator.bare_engine()) is not None]

    def elsewhere(self) -> Sequence[str]:
        subgraphs = self._session.partitioning.subgraphs
        others = (one for one in subgraphs if one.backend != self._name)
        return [node.op_type for one in others for node in one.members]

    def close(self) -> None:
        self._session.close()
