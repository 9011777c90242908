"""Level 1, the contract: what the classes of a backend promise, held against what they do."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from subgraphkit.backend.contract import ProbeResult
from subgraphkit.backend.options import Option, validate_options
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.binding import BoundModel
from subgraphkit.errors import InvalidModelError, OptionError
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.onnx_io import load
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.small_models import small_models
from subgraphkit.testing.subject import Subject, shared
from subgraphkit.testing.visiting import visit
from subgraphkit.testing.workbench import Workbench, workbench

__all__ = ["cases"]

_LEVEL: Final = 1
_PASSED: Final = Finding(Outcome.PASSED)
_GARBAGE: Final = 77
_CHILD_SECONDS: Final = 45.0


def cases(subject: Subject) -> Iterator[Case]:
    """List the checks."""
    del subject
    for check in (
        _probe_again,
        _deep_probe,
        _options,
        _fingerprint,
        _pool,
        _keeps_to_one_thread,
        _properties,
        _instances_apart,
        _answers,
        _stateless,
        _works_after_a_failed_bind,
        _leaves_the_process_alone,
    ):
        yield Case(f"L1/{check.__name__[1:]}", _LEVEL, check, offers=False)
    for of_operator in (
        _results,
        _repeated_runs,
        _inputs_left_alone,
        _read_only_inputs,
        _strided_inputs,
        _no_shared_memory,
        _results_are_given_away,
        _buffers,
        _information,
        _times_inside,
        _new_weights,
        _closing_twice,
    ):
        yield Case(
            f"L1/operator/{of_operator.__name__[1:]}",
            _LEVEL,
            _on_workbench(of_operator),
            offers=False,
        )


def _on_workbench(check: Callable[[Workbench], Finding]) -> Callable[[Subject], Finding]:
    def run(subject: Subject) -> Finding:
        with workbench(subject) as bench:
            return check(bench)

    return run


def _broken(text: str) -> Finding:
    return Finding(Outcome.FAIL_CONTRACT, text)


# -- the backend ---------------------------------------------------------------------------------


def _probe_again(subject: Subject) -> Finding:
    """A probe finds the same again."""
    first, second = subject.backend_class.probe(), subject.backend_class.probe()
    return _PASSED if first == second else _broken(f"probe() found {first}, and then {second}")


def _deep_probe(subject: Subject) -> Finding:
    """A deep probe does not raise, and finds that the backend can run."""
    found = subject.backend_class.probe(deep=True)
    if not isinstance(found, ProbeResult):
        return _broken(f"probe(deep=True) returned {found!r:.80}, expected a ProbeResult")
    if not found.available:
        return Finding(Outcome.FAIL_PROBE, f"probe(deep=True): {'; '.join(found.problems)}")
    return _PASSED


def _options(subject: Subject) -> Finding:
    """Options are declared as such, explained, and refuse what they cannot take."""
    schema: Sequence[Any] = tuple(subject.backend_class.options)
    wrong = [one for one in schema if not isinstance(one, Option)]
    if wrong:
        return _broken(f"options holds {wrong[0]!r:.80}, expected an Option")
    names = [option.name for option in schema]
    if len(set(names)) < len(names):
        return _broken(f"two options have one name: {', '.join(names)}")
    unexplained = [option.name for option in schema if not option.help.strip()]
    if unexplained:
        return _broken(f"option {unexplained[0]!r} has no help")
    for option in schema:
        if option.default is not None:
            given = {option.name: (option.default, "the conformance kit")}
            values = validate_options(subject.name, schema, given)
            if values[option.name] != option.default:
                return _broken(f"option {option.name!r} reads its default as another value")
    return _refusing(subject, schema)


def _refusing(subject: Subject, schema: Sequence[Option]) -> Finding:
    try:
        validate_options(subject.name, schema, {"no_such_option": (1, "the conformance kit")})
    except OptionError:
        return _PASSED
    return _broken("an option that does not exist is accepted")


def _fingerprint(subject: Subject) -> Finding:
    """Two instances have the same fingerprint, a text that is not empty."""
    first, second = subject.built().fingerprint(), subject.built().fingerprint()
    if not isinstance(first, str) or not first:
        return _broken(f"fingerprint() returned {first!r}, expected a text")
    return _PASSED if first == second else _broken(f"fingerprint() is {first!r}, then {second!r}")


def _pool(subject: Subject) -> Finding:
    """What it says about its threads is one of the words for it."""
    pool, words = subject.backend_class.pool, ("none", "sleeps", "spins", "unknown")
    return _PASSED if pool in words else _broken(f"pool is {pool!r}, expected one of {words}")


def _keeps_to_one_thread(subject: Subject) -> Finding:
    """A session that may use one thread starts two at most, and beside others they rest."""
    return visit(subject, _CHILD_SECONDS, "threads")


def _properties(subject: Subject) -> Finding:
    """It has properties, new ones each time it is asked."""
    backend = subject.built()
    first, second = backend.properties(), backend.properties()
    if not first:
        return _broken("properties() is empty")
    wrong = [one for one in first if not isinstance(one, SubgraphProperty)]
    if wrong:
        return _broken(f"properties() holds {wrong[0]!r:.80}, expected a SubgraphProperty")
    if {id(one) for one in first} & {id(one) for one in second}:
        return _broken("properties() returns the same instance twice; they keep state for a bind")
    return _PASSED


def _instances_apart(subject: Subject) -> Finding:
    """Two instances share no state, and both can be written for people."""
    first, second = subject.built(), subject.built()
    if first is second:
        return _broken("building it twice gives one instance")
    owned, others = first.properties(), second.properties()
    if {id(one) for one in owned} & {id(one) for one in others}:
        return _broken("two instances share a property")
    texts = [repr(first), *map(repr, owned)]
    return _PASSED if all(texts) else _broken("repr() is empty")


# -- the selector --------------------------------------------------------------------------------


def _graphs(subject: Subject) -> Iterator[BoundModel]:
    for model in small_models():
        yield subject.bound(model.proto)


def _asked(subject: Subject) -> Iterator[tuple[SubgraphProperty, BoundGraph, list[Node]]]:
    """Yield each property with each small model and the nodes it may be asked about."""
    for graph in _graphs(subject):
        claims = subject.partitioned(graph).turns.claims
        for claim in claims:
            if claim.backend.name != subject.name:
                continue
            nodes = [node for node in graph.nodes if not graph.is_constant_node(node.id)]
            yield claim.property, graph, nodes


def _answers(subject: Subject) -> Finding:
    """A selector answers yes, no or a refusal, and twice the same."""
    for owner, graph, nodes in _asked(subject):
        selector: Any = owner.create_selector(graph)
        if not isinstance(selector, SubgraphSelector):
            return Finding(
                Outcome.FAIL_SELECT,
                f"create_selector of {type(owner).__name__} returned {selector!r:.80}",
            )
        for node in nodes:
            answers: list[Any] = []
            for _ in range(2):
                selector.reset()
                answers.append(selector.select(node))
            if not isinstance(answers[0], bool | np.bool_ | Refusal):
                text = f"select({node.label}) returned {answers[0]!r:.80}"
                return Finding(Outcome.FAIL_SELECT, text)
            if answers[0] != answers[1]:
                text = f"select({node.label}) returned {answers[0]!r}, and then {answers[1]!r}"
                return Finding(Outcome.FAIL_SELECT, text)
    return _PASSED


def _stateless(subject: Subject) -> Finding:
    """A selector that calls itself stateless asks the node alone."""
    for owner, graph, nodes in _asked(subject):
        selector = owner.create_selector(graph)
        if not selector.stateless:
            continue
        other = owner.create_selector(graph)
        forth = [selector.select(node) for node in nodes]
        back = [other.select(node) for node in reversed(nodes)][::-1]
        along = [selector.select_input(nodes[0], node) for node in nodes]
        if not forth == back == along:
            text = f"the selector of {type(owner).__name__} is stateless and answers by order"
            return Finding(Outcome.FAIL_SELECT, text)
        if list(selector.filter(nodes)) != nodes:
            text = f"the selector of {type(owner).__name__} is stateless and filters"
            return Finding(Outcome.FAIL_SELECT, text)
    return _PASSED


def _works_after_a_failed_bind(subject: Subject) -> Finding:
    """A bind that fails leaves nothing behind."""
    with suppress(InvalidModelError):
        load(b"no model at all")
    model = small_models()[0]
    bad = {name: value[..., :1] for name, value in model.feeds().items()}
    with subject.session(model.proto) as session, suppress(ValueError):
        session.run(None, bad)
    feeds = model.feeds()
    found = subject.check_model(model.proto, [(feeds, model.expected(feeds))])
    return found if found.is_wrong else _PASSED


def _leaves_the_process_alone(subject: Subject) -> Finding:
    """Binding and running change nothing that all share, and the process ends well afterwards."""
    return visit(subject, _CHILD_SECONDS)


# -- the operator --------------------------------------------------------------------------------


def _results(bench: Workbench) -> Finding:
    """It computes what the nodes of its subgraph say."""
    bench.require_right(bench.run(bench.inputs()))
    return _PASSED


def _repeated_runs(bench: Workbench) -> Finding:
    """What was run before makes no difference."""
    for seed in (0, 1, 0):
        bench.require_right(bench.run(bench.inputs(seed)), seed, f"run {seed}")
    return _PASSED


def _inputs_left_alone(bench: Workbench) -> Finding:
    """It does not write to its inputs."""
    inputs = bench.inputs()
    before = [array.copy() for array in inputs]
    bench.run(inputs)
    for name, now, then in zip(bench.subgraph.inputs, inputs, before, strict=True):
        if now.tobytes() != then.tobytes():
            return Finding(Outcome.FAIL_ALIAS, f"the operator wrote to its input {name!r}")
    return _PASSED


def _read_only_inputs(bench: Workbench) -> Finding:
    """It takes arrays that must not be written to."""
    inputs = bench.inputs()
    for array in inputs:
        array.setflags(write=False)
    bench.require_right(bench.run(inputs), remark="read-only inputs")
    return _PASSED


def _strided_inputs(bench: Workbench) -> Finding:
    """It takes arrays that are not contiguous."""
    strided = []
    for array in bench.inputs():
        spread = np.full((*array.shape[:-1], array.shape[-1] * 2), _GARBAGE, array.dtype)
        spread[..., ::2] = array
        strided.append(spread[..., ::2])
    bench.require_right(bench.run(strided), remark="inputs that are not contiguous")
    bench.require_right(
        bench.run([np.asfortranarray(array) for array in bench.inputs()]),
        remark="inputs in Fortran's order",
    )
    return _PASSED


def _no_shared_memory(bench: Workbench) -> Finding:
    """What it returns shares no memory with inputs, constants or one another."""
    inputs = bench.inputs()
    constants = {
        f"constant {name}": stored.array() for name, stored in bench.subgraph.constants.items()
    }
    feeds = dict(zip(bench.subgraph.inputs, inputs, strict=True))
    return shared({**feeds, **constants}, bench.run(inputs)) or _PASSED


def _results_are_given_away(bench: Workbench) -> Finding:
    """It neither writes to what it has returned, nor reads it."""
    kept = bench.run(bench.inputs())
    copies = [array.copy() for array in kept]
    bench.run(bench.inputs(1))
    for now, then in zip(kept, copies, strict=True):
        if now.tobytes() != then.tobytes():
            return Finding(Outcome.FAIL_ALIAS, "a second run changed what the first had returned")
    for array in kept:
        if array.flags.writeable:
            array[...] = _GARBAGE
    found = bench.subject.difference(bench.expected(2), bench.run(bench.inputs(2)))
    if found is not None:
        text = f"writing to a result changed later ones: {found.detail}"
        return Finding(Outcome.FAIL_ALIAS, text)
    return _PASSED


def _buffers(bench: Workbench) -> Finding:
    """It may be given buffers for its results, and uses them or does not."""
    expected = bench.expected()
    buffers = [np.full_like(array, _GARBAGE) for array in expected]
    bench.require_right(bench.run(bench.inputs(), buffers), remark="with buffers for the results")
    bench.require_right(
        bench.run(bench.inputs(), [None] * len(expected)), remark="with None for buffers"
    )
    return _PASSED


def _information(bench: Workbench) -> Finding:
    """What it says of itself can be written as JSON."""
    try:
        json.dumps(dict(bench.operator.info()), allow_nan=False)
    except (TypeError, ValueError) as error:
        return _broken(f"info() is not JSON-able: {error}")
    return _PASSED if repr(bench.operator) else _broken("repr() of the operator is empty")


def _times_inside(bench: Workbench) -> Finding:
    """What it is profiled by computes the same, and names nodes it has."""
    found = bench.times_inside()
    if found is None:
        return Finding(Outcome.SKIP, "it takes no times inside")
    for one in found:
        if one.seconds < 0 or not set(one.nodes) <= set(bench.subgraph.nodes):
            return _broken(f"profiled() recorded {one!r}, expected nodes {bench.subgraph.nodes}")
    return _PASSED if found else _broken("profiled() recorded nothing of a run")


def _new_weights(bench: Workbench) -> Finding:
    """It takes new weights and computes with them, or says that it cannot."""
    floats = {
        name: stored.array()
        for name, stored in bench.subgraph.constants.items()
        if stored.array().dtype.kind == "f"
    }
    if not floats:
        return Finding(Outcome.SKIP, f"model {bench.model.name!r} has no weights")
    doubled = {name: (array * 2).astype(array.dtype) for name, array in floats.items()}
    answer: Any = bench.operator.update_weights(doubled)
    if not isinstance(answer, bool):
        return _broken(f"update_weights() returned {answer!r:.80}, expected True or False")
    results = bench.run(bench.inputs())
    if not answer:
        return _PASSED
    unchanged = bench.subject.difference(bench.expected(), results) is None
    if unchanged:
        return Finding(Outcome.FAIL_VALUE, "update_weights() said True, and changed nothing")
    bench.with_weights(doubled).require_right(results, remark="with new weights")
    if not bench.operator.update_weights(floats):
        return _broken("update_weights() took new weights once, and then no more")
    bench.require_right(bench.run(bench.inputs()), remark="after the old weights were put back")
    return _PASSED


def _closing_twice(bench: Workbench) -> Finding:
    """It may be closed more than once, and leaves others alone."""
    with workbench(bench.subject) as other:
        bench.operator.close()
        bench.operator.close()
        other.require_right(other.run(other.inputs()), remark="after another operator was closed")
    return _PASSED
