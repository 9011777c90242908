"""The process in which checks of a self-test are made, so that one that crashes is but a finding.

``python -m subgraphkit.cli.selftest_child BACKEND`` reads the number of a check, a line each, and
answers with a finding. Ctrl-C reaches the command alone, which ends this process.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from subgraphkit import InferenceSession
from subgraphkit.backend.events import Check
from subgraphkit.backend.selftest import SelfCheck
from subgraphkit.configuration.config import resolve
from subgraphkit.errors import describe_exception
from subgraphkit.finding.registry import get_backend
from subgraphkit.processes import how_it_ended, run_child
from subgraphkit.processes.answering_child import answering

_BUILD_SECONDS: Final = 600.0
_SHOWN: Final = 400


def main(name: str) -> int:
    """Make checks of a backend until there are no more."""
    with answering() as answer:
        checks, bench = get_backend(name).selftest(), Bench(name)
        for line in sys.stdin:
            answer(attempted(checks[json.loads(line)["check"]], bench))
    return 0


def attempted(check: SelfCheck, bench: "Bench") -> dict[str, Any]:
    """Make one check in this process; whatever it raises, which it should not, is a finding."""
    started = time.monotonic()
    try:
        found = check.attempt(bench)
    except Exception as error:  # noqa: BLE001 (whatever goes wrong is the finding)
        found = Check(check.name, "failure", describe_exception(error))
    return {**asdict(found), "needs": check.needs, "seconds": time.monotonic() - started}


class Bench:
    """Opens sessions on one backend, with the fallback behind it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._fallback = resolve().fallback

    def open(self, model: Any, **options: Any) -> "_Opened":
        """Open a ``ModelProto``."""
        return _Opened(model, self._name, [(self._name, options), self._fallback])

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
            words = ["build", str(file), "--json", "--backend", f"{self._name},{self._fallback}"]
            for name, value in options.items():
                words += ["--option", f"{self._name}.{name}={value}"]
            variables = {"SUBGRAPH_CACHE_DIR": folder}
            ended = run_child("subgraphkit", words, _BUILD_SECONDS, variables)
        if ended.code != 0:
            how = "a limit" if ended.code is None else how_it_ended(ended.code)
            raise RuntimeError(f"a new process ended with {how}: {ended.printed[-_SHOWN:]}")
        rows = json.loads(ended.answer)["subgraphs"]
        return [row["engine"] for row in rows if row["backend"] == self._name]


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

    def elsewhere(self) -> Sequence[str]:
        subgraphs = self._session.partitioning.subgraphs
        others = (one for one in subgraphs if one.backend != self._name)
        return [node.op_type for one in others for node in one.members]

    def close(self) -> None:
        self._session.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
