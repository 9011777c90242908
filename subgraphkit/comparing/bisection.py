"""Bisect a model to the smallest part that a backend computes wrongly, and write it down."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.tolerances import ToleranceOf
from subgraphkit.binding import BoundModel, bind
from subgraphkit.comparing.messages import unwritable
from subgraphkit.comparing.parts import Built, PartSearch, Symptom, Verdict
from subgraphkit.comparing.stored_values import store_npz
from subgraphkit.comparing.verification import bind_both, selection_of, verify_plan
from subgraphkit.errors import CompileError
from subgraphkit.finding.opening import result_tolerances
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.planning import plan
from subgraphkit.texts import count_of, list_texts, printable
from subgraphkit.types import DataType

_SHOWN: Final = 4
_HEADINGS: Final[Mapping[Verdict, str]] = {
    "nothing": "Nothing is wrong, so nothing was cut.",
    "none alone": "Outputs differ, though every subgraph is right on the reference's values: small "
    "differences add up, or the model turns them into large ones.",
    "node": "At fault, alone and on right inputs: {nodes}",
    "together": "At fault together, while fewer of them are right (look at how they are fused, or "
    "at rounding that adds up): {nodes}",
    "whole": "At fault: {subgraph}, but only in the model. Built alone on the same inputs it is "
    "right, so the fault goes away when it is cut out.",
    "unsteady": "Not always wrong: on the same inputs one build was wrong and another right. The "
    "smallest part that was seen to be wrong: {nodes}",
}


@dataclass(frozen=True, eq=False)
class Bisection:
    """The smallest part of a model that was found to be wrong.

    Attributes:
        verdict: What was found.
        subgraph: The subgraph at fault, the first in order; empty if nothing is wrong.
        size: How many nodes it has.
        others: The other subgraphs at fault, in order.
        nodes: Labels of the nodes of the part, in order.
        facts: The fault of the part, with the expected, actual and allowed values.
        builds: How many parts were built.
        model: The part as an ``onnx.ModelProto``; None if nothing is wrong.
        inputs: What the reference has at the inputs of the part, by name.
        reproduces: Whether the part is wrong as a model of its own as well.
        command: The command line that reproduces it. Empty if nothing was written, or if an input
            is no tensor, which the command cannot feed.
    """

    verdict: Verdict
    subgraph: str = ""
    size: int = 0
    others: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    builds: int = 0
    model: Any = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    reproduces: bool = False
    command: str = ""

    @property
    def summary(self) -> str:
        """The finding, in a few lines for people."""
        words = {"nodes": _in_short(self.nodes), "subgraph": self.subgraph}
        lines = [_HEADINGS[self.verdict].format(**words)]
        lines += (f"  {printable(fact)}" for fact in self.facts)
        if self.subgraph:
            whole = count_of(self.size, "node")
            lines.append(f"  In {self.subgraph}, {whole}; parts built: {self.builds}")
        if self.others:
            lines.append(f"  At fault as well, not searched: {list_texts(self.others, _SHOWN)}")
        if self.model is not None and not self.reproduces:
            lines.append("  As a model of its own the part is right.")
        if self.command:
            lines.append(f"Reproduce: {self.command}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Render as ``Bisection('Nothing is wrong, so nothing was cut.')``."""
        return f"Bisection({self.summary.splitlines()[0]!r})"


def _in_short(nodes: Sequence[str]) -> str:
    if len(nodes) <= 2 * _SHOWN:
        return ", ".join(nodes)
    return f"{len(nodes):,} nodes, {nodes[0]} .. {nodes[-1]}"


def bisect(  # noqa: PLR0913 (what verify takes, and what is written)
    source: ModelSource | Model,
    feeds: Mapping[str, Any],
    backend: Any,
    reference: Any = "numpy",
    *,
    folder: str | Path | None = None,
    tolerance: ToleranceOf | None = None,
    words: Sequence[str] = (),
    progress: Progress | None = None,
    **settings: Any,
) -> Bisection:
    """Find the smallest part of a model that a backend computes wrongly, or fails on.

    The first subgraph that is wrong on the reference's values is cut in halves, each built alone,
    until one node is left. For n nodes that takes at most ``ceil(log2(n)) + 2`` builds, the last as
    a model of its own. If that node is right alone, more builds search for nodes that are wrong
    only together. Memory: that of ``verify``, then the values at the inputs of the subgraph, and
    those of one part while it runs.

    Args:
        source: The model, as for ``InferenceSession``.
        feeds: Arrays by input name.
        backend: The backends under test, as for ``verify``.
        reference: The backends that are believed.
        folder: Where ``model.onnx``, ``inputs.npz`` and ``summary.txt`` are written, if anywhere;
            made if it is missing.
        tolerance: As for ``verify``.
        words: What else the command that reproduces it says, such as ``("--atol", "0.1")``.
        progress: Told before every build; stops the search.
        **settings: What else ``bind`` takes, for both.

    Raises:
        CallerError: The folder cannot be written (SGK324).
        SubgraphkitError: As ``verify``, except for failures of the backends under test to compile.
    """
    tested, trusted = bind_both(source, backend, reference, inlined=True, **settings)
    partitioning, symptoms, tolerance = _symptoms_of(tested, trusted, feeds, tolerance)
    if not symptoms:
        return Bisection("nothing")
    if "" in symptoms:
        return Bisection("none alone")
    first, *others = symptoms
    search = PartSearch(
        partitioning=partitioning,
        guilty=partitioning.subgraph(first),
        symptom=symptoms[first],
        trusted=trusted,
        feeds=feeds,
        tolerance=tolerance,
        progress=tested.extensions.hearing(progress),
    )
    verdict = search.search(lambda: first in _symptoms_of(tested, trusted, feeds, tolerance)[1])
    part = search.part(search.smallest)
    found = Bisection(
        verdict,
        subgraph=first,
        size=len(partitioning.subgraph(first).nodes),
        others=tuple(others),
        nodes=tuple(node.label for node in part.members),
        facts=_facts(search.result_of(part.nodes), tolerance),
        model=part.to_model(),
        inputs=search.inputs_of(part),
    )
    alone = _bound_alone(found, search.graph), _bound_alone(found, trusted)
    reproduces = search.compare(*alone, found.inputs).shows(symptoms[first])
    found = replace(found, builds=search.builds, reproduces=reproduces)
    if folder is None:
        return found
    claimant = partitioning.claim_of(partitioning.subgraph(first)).backend
    return _write_part(found, Path(folder), (*_both_words(claimant, trusted), *words))


def _symptoms_of(
    tested: BoundModel, trusted: BoundModel, feeds: Mapping[str, Any], tolerance: ToleranceOf | None
) -> tuple[Partitioning, dict[str, Symptom], ToleranceOf]:
    """Return the partitioning, and the faults by subgraph that is wrong on right inputs.

    If outputs differ and no subgraph is wrong, the fault has an empty name.
    """
    partitioning = partition(tested)
    if tolerance is None:
        tolerance = result_tolerances(partitioning.backends, tested, tested.settings)
    try:
        compiled = plan(partitioning)
    except CompileError as error:
        failed = error.subgraph or ""
        if not any(one.id == failed for one in partitioning.subgraphs):
            raise  # a part of a subgraph whose other nodes were given back
        return partitioning, {failed: "compile"}, tolerance
    found = verify_plan(compiled, trusted, feeds, per_subgraph=True, tolerance=tolerance)
    wrong: dict[str, Symptom] = {o.subgraph: "run" if o.error else "value" for o in found.at_fault}
    if not wrong and found.outcome == "differs":
        wrong[""] = "value"
    return compiled.partitioning, wrong, tolerance


def _facts(built: Built | None, tolerance: ToleranceOf) -> tuple[str, ...]:
    if built is None or built.compared is None or built.compared.error:
        error = "" if built is None else built.error or (built.compared and built.compared.error)
        return tuple((error or "").splitlines())
    wrong = [one for one in built.compared.outputs if not one.agrees]
    facts = [f"{one.text}; signal {one.rms:.3g} (RMS)" for one in wrong[:_SHOWN]]
    kinds = {dtype.label: dtype for dtype in DataType if dtype is not DataType.UNDEFINED}
    labels = dict.fromkeys(one.dtype for one in wrong if one.dtype in kinds)
    facts += [f"allowed for {label}: {tolerance(kinds[label]).text}" for label in labels]
    return tuple(facts)


def _bound_alone(found: Bisection, like: BoundModel) -> BoundModel:
    """Load and bind a part from its files alone."""
    bound = bind(found.model, backend="none")
    return replace(bound, settings=like.settings, extensions=like.extensions)


def _both_words(backend: Backend, trusted: BoundModel) -> list[str]:
    """Name both sides on a command line, with the options that are not as they are by default."""
    settings = trusted.settings
    choice, apart = backend.name, []
    for option in backend.options:
        value = getattr(backend.option_values, option.name)
        text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
        if value == option.default:
            continue
        if {",", ":"}.isdisjoint(text):
            choice += f":{option.name}={text}"
        else:
            apart += ["--option", f"{backend.name}.{option.name}={text}"]
    for one in settings.backends:
        options = settings.options_for(one.name) if one.name != backend.name else {}
        for key in options.keys() - one.options.keys():
            apart += ["--option", f"{one.name}.{key}={options[key][0]}"]
    return ["--backend", choice, "--reference", selection_of(trusted), *apart]


def _write_part(found: Bisection, folder: Path, words: Sequence[str]) -> Bisection:
    model, inputs = folder / "model.onnx", folder / "inputs.npz"
    if all(isinstance(value, np.ndarray) for value in found.inputs.values()):
        command = ["subgraphkit", "verify", str(model), "--input", str(inputs), *words]
        found = replace(found, command=shlex.join(command))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model.write_bytes(found.model.SerializeToString())
        store_npz(found.inputs, inputs)
        (folder / "summary.txt").write_text(f"{found.summary}\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from error
    return found
