"""Level 1, the contract: promises of a backend's classes, compared with their behaviour."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from subgraphkit.backend.contract import ProbeResult
from subgraphkit.backend.options import Option, validate_options
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.errors import InvalidModelError, OptionError
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.onnx_io import load
from subgraphkit.testing.cases import PASSED, Case, Finding, Outcome, Stopped, breach
from subgraphkit.testing.claimed import model_taken, models_taken, usual_models
from subgraphkit.testing.operator_checks import OPERATOR_CHECKS, Workbench, workbench
from subgraphkit.testing.process_checks import changes_left, check_in_subprocess, threads_kept
from subgraphkit.testing.subject import Subject

_CHILD_SECONDS: Final = 45.0
_MOST_ASKED: Final = 8


def cases(_: Subject) -> Iterator[Case]:
    """List the checks."""
    for check in (
        _probe_again, _deep_probe, _options, _fingerprint, _pool, _keeps_to_one_thread,
        _properties, _instances_apart, _answers, _stateless, _works_after_a_failed_bind,
        _leaves_the_process_alone,
    ):  # fmt: skip
        needs = ("bounded_threads",) if check is _keeps_to_one_thread else ()
        yield Case(f"L1/{check.__name__[1:]}", check, needs=needs, offers=False)
    for of_operator in OPERATOR_CHECKS:
        run = partial(_on_workbenches, of_operator)
        yield Case(f"L1/operator/{of_operator.__name__}", run)


def _on_workbenches(check: Callable[[Workbench], Finding], subject: Subject) -> Finding:
    """Check operators of different kinds; the finding on one is right, unless another is wrong."""
    found = []
    for model in models_taken(subject):
        with workbench(subject, model) as bench:
            taken = tuple(dict.fromkeys(node.op_type for node in bench.subgraph.members))
            try:
                one = check(bench)
            except Stopped as stop:
                one = stop.finding
        if one.is_wrong:
            return replace(one.about(f"model {model.name!r}"), taken=taken)
        held = one.outcome is Outcome.PASSED
        found.append(replace(one, outcome=Outcome.RIGHT, taken=taken) if held else one)
    return min(found, key=lambda one: one.outcome is not Outcome.RIGHT)


# -- the backend ---------------------------------------------------------------------------------


def _probe_again(subject: Subject) -> Finding:
    """A probe finds the same again."""
    first, second = subject.backend_class.probe(), subject.backend_class.probe()
    return PASSED if first == second else breach(f"probe() found {first}, and then {second}")


def _deep_probe(subject: Subject) -> Finding:
    """A deep probe does not raise, and finds that the backend can run."""
    found = subject.backend_class.probe(deep=True)
    if not isinstance(found, ProbeResult):
        return breach(f"probe(deep=True) returned {found!r:.80}, expected a ProbeResult")
    if not found.available:
        return Finding(Outcome.FAIL_PROBE, f"probe(deep=True): {'; '.join(found.problems)}")
    return PASSED


def _options(subject: Subject) -> Finding:
    """Options are declared as such, explained, and refuse wrong values."""
    schema: Sequence[Any] = tuple(subject.backend_class.options)
    if wrong := [one for one in schema if not isinstance(one, Option)]:
        return breach(f"options holds {wrong[0]!r:.80}, expected an Option")
    names = [option.name for option in schema]
    if len(set(names)) < len(names):
        return breach(f"two options have one name: {', '.join(names)}")
    unexplained = [option.name for option in schema if not option.help.strip()]
    if unexplained:
        return breach(f"option {unexplained[0]!r} has no help")
    for option in schema:
        if option.default is not None:
            given = {option.name: (option.default, "the conformance kit")}
            values = validate_options(subject.name, schema, given)
            if values[option.name] != option.default:
                return breach(f"option {option.name!r} reads its default as another value")
    with suppress(OptionError):
        validate_options(subject.name, schema, {"no_such_option": (1, "the conformance kit")})
        return breach("an option that does not exist is accepted")
    return PASSED


def _fingerprint(subject: Subject) -> Finding:
    """Two instances have the same fingerprint, a text that is not empty."""
    first, second = subject.build().fingerprint(), subject.build().fingerprint()
    if not isinstance(first, str) or not first:
        return breach(f"fingerprint() returned {first!r}, expected a text")
    return PASSED if first == second else breach(f"fingerprint() is {first!r}, then {second!r}")


def _pool(subject: Subject) -> Finding:
    """Its trait on threads is one of the words for it."""
    pool, words = subject.backend_class.traits.pool, ("none", "sleeps", "spins", "unknown")
    return PASSED if pool in words else breach(f"pool is {pool!r}, expected one of {words}")


def _keeps_to_one_thread(subject: Subject) -> Finding:
    """A session that may use one thread starts two at most, and beside others they rest."""
    return check_in_subprocess(threads_kept, subject, _CHILD_SECONDS, what="runs a model on it")


def _properties(subject: Subject) -> Finding:
    """It has properties, new ones each time it is asked."""
    backend = subject.build()
    first, second = backend.properties(), backend.properties()
    if not first:
        return breach("properties() is empty")
    if wrong := [one for one in first if not isinstance(one, SubgraphProperty)]:
        return breach(f"properties() holds {wrong[0]!r:.80}, expected a SubgraphProperty")
    if _have_in_common(first, second):
        return breach("properties() returns the same instance twice; they keep state for a bind")
    return PASSED


def _have_in_common(first: Iterable[object], second: Iterable[object]) -> bool:
    return not {id(one) for one in first}.isdisjoint(map(id, second))


def _instances_apart(subject: Subject) -> Finding:
    """Two instances share no state, and both can be written for people."""
    first, second = subject.build(), subject.build()
    if first is second:
        return breach("building it twice gives one instance")
    owned = first.properties()
    if _have_in_common(owned, second.properties()):
        return breach("two instances share a property")
    return PASSED if all(map(repr, (first, *owned))) else breach("repr() is empty")


# -- the selector --------------------------------------------------------------------------------


def _nodes_to_ask(subject: Subject) -> Iterator[tuple[SubgraphProperty, BoundGraph, list[Node]]]:
    """Yield each property with each small model and the nodes it may be asked about."""
    heavy = [probe for probe in subject.claims if probe.variant.is_heavy]
    for probe in dict.fromkeys((*usual_models(), *heavy[:_MOST_ASKED])):
        graph = subject.bind(probe.model().proto)
        nodes = [node for node in graph.nodes if not graph.is_constant_node(node.id)]
        for claim in subject.partition(graph).passes.claims:
            if claim.backend.name == subject.name:
                yield claim.property, graph, nodes


def _answers(subject: Subject) -> Finding:
    """A selector answers yes, no or a refusal, and twice the same."""
    for owner, graph, nodes in _nodes_to_ask(subject):
        selector: Any = owner.create_selector(graph)
        if not isinstance(selector, SubgraphSelector):
            text = f"create_selector of {type(owner).__name__} returned {selector!r:.80}"
            return Finding(Outcome.FAIL_SELECT, text)
        for node in nodes:
            answers: list[Any] = []
            for _ in range(2):
                selector.reset()
                answers.append(selector.select(node))
            (first, second), text = answers, f"select({node.label}) returned"
            if not isinstance(first, bool | np.bool_ | Refusal):
                return Finding(Outcome.FAIL_SELECT, f"{text} {first!r:.80}")
            if first != second:
                return Finding(Outcome.FAIL_SELECT, f"{text} {first!r}, and then {second!r}")
    return PASSED


def _stateless(subject: Subject) -> Finding:
    """A selector that calls itself stateless asks the node alone."""
    for owner, graph, nodes in _nodes_to_ask(subject):
        selector = owner.create_selector(graph)
        if not selector.stateless:
            continue
        other = owner.create_selector(graph)
        forth = [selector.select(node) for node in nodes]
        back = [other.select(node) for node in reversed(nodes)][::-1]
        along = [selector.select_input(nodes[0], node) for node in nodes]
        fault = "" if forth == back == along else "answers by order"
        if fault or list(selector.filter(nodes)) != nodes:
            text = f"the selector of {type(owner).__name__} is stateless and {fault or 'filters'}"
            return Finding(Outcome.FAIL_SELECT, text)
    return PASSED


def _works_after_a_failed_bind(subject: Subject) -> Finding:
    """A bind that fails leaves nothing behind."""
    with suppress(InvalidModelError):
        load(b"no model at all")
    model = model_taken(subject)
    bad = {name: value[..., :1] for name, value in model.feeds().items()}
    with subject.session(model.proto) as session, suppress(ValueError):
        session.run(None, bad)
    feeds = model.feeds()
    found = subject.check_model(model.proto, [(feeds, model.expected_outputs(feeds))])
    return PASSED if found.outcome is Outcome.RIGHT else found


def _leaves_the_process_alone(subject: Subject) -> Finding:
    """Binding and running change nothing that all share, and the process ends well afterwards."""
    return check_in_subprocess(changes_left, subject, _CHILD_SECONDS, what="runs a model on it")
