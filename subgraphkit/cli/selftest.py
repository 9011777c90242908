"""The self-test of a backend: on this machine, the checks that only its device can make."""

import ast
import json
import platform
import tempfile
import time
from argparse import Namespace
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

from subgraphkit import __version__
from subgraphkit.backend.checks import Check
from subgraphkit.backend.conformance import Conformance, SelfCheck
from subgraphkit.backend.messages import did_you_mean, unavailable
from subgraphkit.binding import bind
from subgraphkit.cli.commands.doctor import MARKS
from subgraphkit.cli.reporting import CommandReport, ExitCode, usage_error
from subgraphkit.cli.tables import table
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.configuration.config import resolve
from subgraphkit.errors import describe_exception
from subgraphkit.finding.registry import get_backend
from subgraphkit.partitioning import partition
from subgraphkit.placing import InferenceSession
from subgraphkit.processes import Child, NoAnswer, call, how_it_ended
from subgraphkit.storing.files import write_whole
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
        """Make one check; an error, which should not come, is a finding."""
        started, check = time.monotonic(), self._checks[place]
        try:
            found = check.attempt(self)
        except Exception as error:  # noqa: BLE001 (any failure is the finding)
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
            return session.run(None, feeds)

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
    bound = bind(file, backend=[(name, ast.literal_eval(options)), fallback])
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
        return self._session.run(None, feeds)

    def run_bound(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Sequence[Any]:
        binding = self._session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, array)
        for name, place in outputs.items():
            binding.bind_output(name, place)
        self._session.run_with_iobinding(binding)
        return binding.get_outputs()

    def update_weights(self, weights: Mapping[str, Any]) -> Mapping[str, str]:
        return self._session.update_weights(weights)

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


_PATIENCE: Final = 5.0
_STARTING_SECONDS: Final = 60.0


def run_selftest(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Make the checks of the one backend named; ``doctor --selftest`` says how.

    Raises CallerError (SGK301) for another name, BackendUnavailableError (SGK104) if none ran.
    """
    if len(arguments.names) != 1:
        raise usage_error("--selftest takes one backend", hint="doctor NAME --selftest")
    (name,) = arguments.names
    backend = get_backend(name)
    checks = _choose(name, checks_of(name), arguments.only)
    found = backend.probe()
    rows: list[dict[str, Any]] = []
    report.data = {
        "backend": name,
        "subgraphkit": __version__,
        "platform": platform.platform(),
        "devices": list(found.devices),
        "versions": dict(found.versions),
        "checks": rows,
        "complete": False,
    }
    attempt = _attempt_here if arguments.here else _attempt_in_children
    with closing(attempt(name, checks)) as findings:
        for row in findings:
            rows.append(row)
            report.note(f"{MARKS[row['status']]:4}  {row['name']}: {row['text']}")
            _keep(arguments.output, report.data)
    report.data["complete"] = True
    _keep(arguments.output, report.data)
    failed = [row for row in rows if row["status"] == "failure"]
    marked = [{**row, "result": MARKS[row["status"]]} for row in rows]
    report.show(table("result check=name needs seconds:.1f finding=text", marked))
    untried = [row for row in rows if row["status"] == "warning"]
    ok = len(rows) - len(failed) - len(untried)
    text = f"{len(rows)} checks: {ok} ok, {len(failed)} failed, {len(untried)} not tried"
    report.show(text if ok > len(untried) else f"{text}; too few to say that it works")
    if all(row["status"] == "warning" for row in rows):
        raise unavailable(name, found.problems, found.hint)
    return ExitCode.OK if ok > len(untried) and not failed else ExitCode.CHECK_FAILED


def _choose(
    backend: str, checks: Sequence[SelfCheck], only: Sequence[str]
) -> list[tuple[int, SelfCheck]]:
    names = [check.name for check in checks]
    if not names:
        hint = f"Hold it against the contract: subgraphkit author test {backend}"
        raise usage_error(f"backend {backend!r} has no self-test", hint=hint)
    for name in only:
        if name not in names:
            problem = f"backend {backend!r} has no check {name!r}{did_you_mean(name, names)}"
            raise usage_error(problem, hint=f"It has: {', '.join(names)}.")
    return [(at, one) for at, one in enumerate(checks) if not only or one.name in only]


def _attempt_here(name: str, checks: Sequence[tuple[int, SelfCheck]]) -> Generator[dict[str, Any]]:
    """Make checks in this process, for a debugger; none has a limit."""
    bench = Bench(name)
    for place, _ in checks:
        yield bench.attempt(place)


def _attempt_in_children(
    name: str, checks: Sequence[tuple[int, SelfCheck]]
) -> Generator[dict[str, Any]]:
    """Make checks in a process that is replaced after a failure, which a GPU may not survive."""
    child: Child | None = None
    try:
        for place, check in checks:
            try:
                if child is None:
                    child = Child()
                    child.call(Bench, name, timeout=_STARTING_SECONDS)
                row = child.call(Bench.attempt, place, timeout=check.seconds)
            except NoAnswer as ended:
                row = _row_of_unanswered(check, ended)
            yield row
            if row["status"] == "failure" and child is not None:
                child.stop()
                child = None
    finally:
        if child is not None:
            child.stop(_PATIENCE)


def _row_of_unanswered(check: SelfCheck, ended: NoAnswer) -> dict[str, Any]:
    how, seconds = f"took more than {check.seconds:.0f} s", check.seconds
    if ended.code is not None:
        how, seconds = f"ended with {how_it_ended(ended.code)}", 0.0
    printed = " ".join(ended.printed[-_SHOWN:].split())
    text = f"its process {how}{': ' * bool(printed)}{printed}"
    found = Check(check.name, "failure", text)
    return {**asdict(found), "needs": check.needs, "seconds": seconds}


def _keep(file: Path | None, data: Mapping[str, Any]) -> None:
    """Write the present findings, so that a report is left whatever happens next."""
    if file is not None:
        text = json.dumps(data, indent=2) + "\n"
        write_whole(file.absolute(), text.encode(), mode=0o666, durable=False)
