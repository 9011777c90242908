"""Open the backends of a bind: find, load, probe, check the options, build, in the order selected.

A backend that you name works or raises. Others, and optional ones, are left out with a line in the
log and a ``FallbackEvent``. If one is broken, you get a warning as well.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any, Final

from subgraphkit import backend as contract
from subgraphkit.backend.contract import Backend, lack_of, set_lack
from subgraphkit.backend.messages import warn_user
from subgraphkit.backend.options import validate_options
from subgraphkit.backend.tolerances import ToleranceOf, tolerances_behind
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.names import BACKENDS_GROUP
from subgraphkit.configuration.selection import AUTO, NONE, BackendChoice, parse_selection
from subgraphkit.errors import (
    CANNOT_BE_USED,
    BackendNotFoundError,
    BackendUnavailableError,
    OptionError,
    SubgraphkitError,
    describe_exception,
)
from subgraphkit.finding import messages
from subgraphkit.finding.catalogue import CATALOGUE, IN_PROCESS, BackendRecord
from subgraphkit.finding.loading import BackendFactory, adopt, build, probe
from subgraphkit.finding.registry import find_record, load_record, probe_record
from subgraphkit.ir import Graph
from subgraphkit.logs import logger_of

_LOGGER: Final = logger_of("registry")


Among = Callable[[Sequence[str]], Iterable[str]]
"""Picks those to open from the names that ``auto`` stands for, each when it is its turn."""


def open_backends(resolved: ResolvedConfig) -> list[Backend]:
    """Build the backends a bind has selected, in order: all that ``open_in_turn`` comes to."""
    *_, opened = open_in_turn(resolved)
    return opened


def open_in_turn(
    resolved: ResolvedConfig,
    *,
    on_skip: "Callable[[contract.FallbackEvent], None] | None" = None,
    dry_run: bool = False,
    among: Among | None = None,
) -> Iterator[list[Backend]]:
    """Build the backends a bind has selected, those that ``auto`` stands for one at a time.

    This yields all open ones, again after each. A caller that has enough stops, so that no library
    is imported in vain. It raises the errors of ``find_record`` and ``probe_record``. It raises
    those of ``validate_options`` even for an optional backend. You are warned of a backend left out
    because of ``on_missing="warn"``, of a broken one left out of ``auto``, and of options nobody
    takes (SGK113).

    ``dry_run``: Whether to open a backend only to plan, if it would raise because it cannot run
    here. ``lack_of`` says what it lacks. Backends that would be left out are left out.

    Thread-safety: may be called from any thread.
    """
    opened: list[Backend] = []
    choices = list(_expand(resolved))
    _warn_of_unused_options(resolved, [choice for choice, _ in choices])
    in_turn = bool(resolved.backends) and resolved.backends[-1].name == AUTO
    handed_out = False
    for choice, automatic in _in_order(choices, among if in_turn else None):
        try:
            opened.append(_open(choice, resolved, automatic=automatic))
        except CANNOT_BE_USED as error:
            if not (choice.optional or automatic or resolved.on_missing == "warn"):
                planner = _planner(choice, resolved, error) if dry_run else None
                if planner is None:
                    raise
                opened.append(planner)
                continue
            _skip(choice, error, on_skip, loud=_is_loud(choice, error, automatic=automatic))
        else:
            if in_turn and automatic:
                handed_out = True
                yield list(opened)
    if not handed_out:  # or the last list would come twice, and with it a whole partition pass
        yield [*opened, *_neighbours(opened, resolved)]


def _neighbours(opened: Sequence[Backend], resolved: ResolvedConfig) -> Iterator[Backend]:
    """Open the backend for the rest of one that was named alone, if it can run here."""
    is_alone = len(opened) == len(resolved.backends) == 1 and lack_of(opened[0]) is None
    if not is_alone or resolved.strict or resolved.sources["fallback"][0] != "default":
        return
    name, wanted = opened[0].name, opened[0].traits.neighbour
    asked = f"what backend {name!r} asks for"
    for choice in parse_selection(wanted, asked) if wanted else ():
        given = {key: (value, "default", choice.origin) for key, value in choice.options.items()}
        sources = resolved.option_sources
        entries = {**sources, choice.name: {**given, **sources.get(choice.name, {})}}
        try:
            made = _open(choice, replace(resolved, option_sources=entries), automatic=True)
        except (*CANNOT_BE_USED, OptionError) as error:
            _LOGGER.info("what %r leaves does not run on %s: %s", name, choice, error.message)
        else:
            _LOGGER.info("what %r leaves runs on %s, which is here", name, choice)
            yield made


def _in_order(
    choices: Sequence[tuple[BackendChoice, bool]], among: Among | None
) -> Iterator[tuple[BackendChoice, bool]]:
    """Yield the choices; those that were found rather than named as they are picked."""
    if among is None:
        yield from choices
        return
    yield from ((choice, automatic) for choice, automatic in choices if not automatic)
    found = {choice.name: choice for choice, automatic in choices if automatic}
    yield from ((found[name], True) for name in among(list(found)))


def load_in_turn(resolved: ResolvedConfig) -> Iterator[tuple[BackendChoice, BackendFactory]]:
    """Load the backends a bind has selected, and the fallback, without opening any."""
    choices = list(_expand(resolved))
    fallback = {resolved.fallback} - {AUTO, NONE} - {choice.name for choice, _ in choices}
    choices += [(BackendChoice(name, optional=True), True) for name in fallback]
    for choice, automatic in choices:
        try:
            yield choice, _looked_up(choice, resolved, automatic=automatic)[1]
        except CANNOT_BE_USED:
            if not (choice.optional or automatic or resolved.on_missing == "warn"):
                raise


def open_fallback(resolved: ResolvedConfig) -> Backend | None:
    """Build the backend that runs the unclaimed nodes, which is never left out silently.

    It is None if the configuration says ``fallback="none"``, or ``"auto"`` where numpy is not
    installed. It raises as ``open_backends``.
    """
    if resolved.fallback in (AUTO, NONE):
        return None
    origin = f"the fallback, {resolved.sources['fallback'][1]}"
    return _open(BackendChoice(resolved.fallback, origin=origin), resolved)


def result_tolerances(names: Iterable[str], graph: Graph, resolved: ResolvedConfig) -> ToleranceOf:
    """Return the tolerances of a graph's results: the usual, or what its backends declare."""
    return tolerances_behind(declared_tolerances(names, resolved), graph, graph.order)


def declared_tolerances(names: Iterable[str], resolved: ResolvedConfig) -> ToleranceOf:
    """Collect how far shared results may be off; BackendLoadError (SGK115) if unreadable."""
    widest = contract.Conformance()
    for name in names:
        suite = contract.Conformance()
        choice = next((one for one in resolved.backends if one.name == name), BackendChoice(name))
        try:
            _looked_up(choice, resolved)[1].conformance(suite)
        except SubgraphkitError:
            raise
        except Exception as error:
            problem = f"its conformance raised {describe_exception(error)}"
            raise messages.bad_registration(name, problem) from error
        for dtype, (relative, absolute) in suite.tolerances.items():
            known = widest.tolerances.get(dtype, (0.0, 0.0))
            widest.tolerances[dtype] = (max(known[0], relative), max(known[1], absolute))
    return widest.tolerance_for


def _expand(resolved: ResolvedConfig) -> Iterator[tuple[BackendChoice, bool]]:
    """Yield the choices, each with whether it was found rather than named."""
    named = {choice.backend for choice in resolved.backends}
    for choice in resolved.backends:
        if choice.name != AUTO:
            yield choice, False
            continue
        last = {resolved.fallback} - {AUTO, NONE} - named
        ranked = [(-getattr(one.manifest, "priority", 0), one.name) for one in CATALOGUE.records()]
        names = list(dict.fromkeys(name for _, name in sorted(ranked)))
        found = [name for name in names if name not in named | last | resolved.block]
        for name in [*found, *(last & set(names))]:
            yield BackendChoice(name, origin=choice.origin), True


def _open(choice: BackendChoice, resolved: ResolvedConfig, *, automatic: bool = False) -> Backend:
    raise_errors = resolved.raise_plugin_errors
    record, factory = _looked_up(choice, resolved, automatic=automatic)
    if choice.target is None:
        probe_record(record, raise_errors=raise_errors)
    else:
        probe(record, factory, raise_errors=raise_errors)
    if isinstance(choice.target, Backend):
        return choice.target
    opened: Backend = _build_one(choice, record, factory, resolved)
    return opened


def _build_one(
    choice: BackendChoice,
    record: BackendRecord,
    factory: BackendFactory,
    resolved: ResolvedConfig,
    **how: bool,
) -> Any:
    """Build a backend with its options; one that was chosen again has a name with a number."""
    given = resolved.options_for(choice.name, factory.options)
    foreign = getattr(factory, "foreign_option", None)
    values = validate_options(record.name, tuple(factory.options), given, foreign)
    made = build(record, factory, values, raise_errors=resolved.raise_plugin_errors, **how)
    if made is not None and choice.name != choice.backend:
        vars(made)["name"] = choice.name
    return made


def _planner(
    choice: BackendChoice, resolved: ResolvedConfig, error: SubgraphkitError
) -> Backend | None:
    """Build an instance that only claims, if the backend lacks something here; None if it cannot.

    A given instance stays as it is: its options are not those of the bind.
    """
    if not isinstance(error, BackendUnavailableError) or error.code != "SGK104":
        return None
    if isinstance(choice.target, Backend):
        return None
    made: Backend | None = _build_one(choice, *_looked_up(choice, resolved), resolved, to_plan=True)
    if made is not None:
        set_lack(made, error.with_traceback(None))
    return made


def _looked_up(
    choice: BackendChoice, resolved: ResolvedConfig, *, automatic: bool = False
) -> tuple[BackendRecord, BackendFactory]:
    """Load a backend by its name, or take the class or instance that was given in its place."""
    if (target := choice.target) is None:
        record = find_record(choice, resolved)
        if automatic:
            _require_harmless(record, resolved)
        return record, load_record(record, raise_errors=resolved.raise_plugin_errors)
    if choice.backend in resolved.block:
        raise messages.blocked_backend(choice.backend, choice.origin, resolved.sources["block"][1])
    cls = target if isinstance(target, type) else type(target)
    record = BackendRecord(
        choice.backend, IN_PROCESS, entry_point=f"{cls.__module__}:{cls.__qualname__}"
    )
    if not issubclass(cls, Backend):
        problem = f"{target!r} is neither a Backend class nor an instance of one"
        raise messages.bad_registration(choice.name, problem)
    return record, adopt(record, cls)


def _require_harmless(record: BackendRecord, resolved: ResolvedConfig) -> None:
    """Have a backend that nobody named tried elsewhere, unless it is ours or is here already."""
    if record.ships_with_us or record.distribution == IN_PROCESS or record.state != "registered":
        return
    from subgraphkit.finding.child_probe import harm_of  # noqa: PLC0415 (few have such backends)

    plugin = EntryPoint(record.name, record.entry_point, BACKENDS_GROUP)
    harm = harm_of(plugin, record.distribution, record.version, resolved)
    if harm is not None:
        error = messages.harmful(record.name, harm.code, harm.text)
        if harm.is_news:
            warn_user(error)
        raise error


def _is_loud(choice: BackendChoice, error: SubgraphkitError, *, automatic: bool) -> bool:
    """Say whether leaving a backend out deserves a warning.

    "Optional" and "auto" allow for an absent backend or device. A broken backend, or a name that
    looks misspelt, is worth a warning.
    """
    if not (choice.optional or automatic) or error.context.get("is_likely_typo"):
        return True
    return not isinstance(error, BackendNotFoundError | BackendUnavailableError)


def _skip(
    choice: BackendChoice,
    error: SubgraphkitError,
    on_skip: "Callable[[contract.FallbackEvent], None] | None",
    *,
    loud: bool,
) -> None:
    _LOGGER.info("backend %r is left out: %s", choice.name, error.message)
    if loud:
        warn_user(error)
    if on_skip is not None:
        reason = error.context.get("problem", error.message)
        on_skip(contract.FallbackEvent("selection", choice.name, "", error.code, reason))


def _warn_of_unused_options(resolved: ResolvedConfig, choices: Sequence[BackendChoice]) -> None:
    by_name = {choice.name: choice for choice in choices}
    selected = [*by_name, *({resolved.fallback} - {AUTO, NONE} - by_name.keys())]
    for name in resolved.option_sources:
        target = by_name[name].target if name in by_name else None
        if name in selected and (target is None or isinstance(target, type)):
            continue
        given = [(key, origin) for key, (_, origin) in resolved.options_for(name).items()]
        warn_user(messages.unused_options(name, given, selected))
