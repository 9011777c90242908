"""Claimants: the properties of the chosen backends in order, and the fallback backend last."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import index
from typing import Any

from subgraphkit import backend as contract
from subgraphkit.backend.contract import Backend
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.property import BindContext, SubgraphProperty
from subgraphkit.binding import BoundModel
from subgraphkit.binding.model_process import ProcessEnded, backend_recipe, with_last_words
from subgraphkit.boundary import pass_on
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.selection import AUTO, BackendChoice
from subgraphkit.errors import BackendError, ConfigError, SelectorContractError, describe_exception
from subgraphkit.finding.loading import properties_of
from subgraphkit.finding.opening import Among, open_fallback, open_in_turn

AT_FAULT = "This is a fault of the backend; report it to its author."
"""The hint where a backend's own code raised."""

# Codes of backends that are not there, or have nothing to run on.
_ABSENT = frozenset({"SGK101", "SGK102", "SGK104", "SGK117"})

_CONNECTIVITIES = ("connected", "any")


@dataclass(frozen=True, eq=False, slots=True)
class Claim:
    """The property and the backend that claimed a subgraph and compile it.

    Attributes:
        backend: The backend.
        context: What the property knew about the bind.
        fallback: The backend that compiles what the property hands on; None if there is none.
        is_fallback: Whether the backend was not chosen but runs unclaimed nodes.
        property_name: Name of the property in reports: its own, or that of its class.
        property: The property.
    """

    backend: Backend
    context: BindContext
    fallback: "Claim | None"
    is_fallback: bool
    property_name: str
    # Last, because it hides the decorator of that name from later code.
    property: SubgraphProperty

    def fault(self, code: str, problem: str, hint: str = "") -> SelectorContractError:
        """Build the error for a broken contract of the selector (SGK121) or property (SGK122)."""
        return SelectorContractError(
            code,
            f"property {self.property_name!r} of backend {self.backend.name!r}: {problem}",
            backend=self.backend.name,
            hint=hint,
            property=self.property_name,
        )


def choose_claimants(
    bound: BoundModel,
    resolved: ResolvedConfig,
    takes_all: Callable[[Sequence[Claim]], bool],
    *,
    named: dict[str, str] | None = None,
    among: Among | None = None,
    dry_run: bool = False,
) -> Iterator[list[Claim]]:
    """Open the backends and list their properties in the order in which they are to claim.

    After the first list of claimants come longer ones, for as long as you ask. Each adds a backend
    that ``auto`` stands for; the last adds a fallback that had to be found.

    ``takes_all``: Says whether nobody else would be needed for the graph.
    ``named``: Gets the named backends in order, each with the reason why it was left out, or an
    empty text.
    ``among``, ``dry_run``: See ``open_in_turn``, whose errors are raised. SelectorContractError
    (SGK122) is for a property that breaks its contract.
    """
    named = {} if named is None else named
    named.update((one.name, "") for one in resolved.backends if one.name != AUTO)
    fallback = None if resolved.strict else open_fallback(resolved)
    find = resolved.fallback == AUTO and not resolved.strict
    chosen: list[tuple[Backend, Sequence[SubgraphProperty]]] = []
    on_skip = partial(tell_skipped, bound, named)
    for opened in open_in_turn(resolved, on_skip=on_skip, among=among, dry_run=dry_run):
        chosen = [(backend, properties_of(backend)) for backend in opened]
        creating = [type(one).create_operator for _, several in chosen for one in several]
        if find and SubgraphProperty.create_operator in creating:
            fallback, find = _found_fallback(bound, resolved, takes_all), False
        yield _claims(bound, chosen, fallback)
    if find and (fallback := _found_fallback(bound, resolved, takes_all)) is not None:
        yield _claims(bound, chosen, fallback)


def choose_again(
    bound: BoundModel, claims: Sequence[Claim], alone: str | None = None
) -> list[Claim]:
    """List the properties of backends, or one ``alone``, that are open anew, for another pass."""
    by_name = {claim.backend.name: claim.backend for claim in claims if not claim.is_fallback}
    fallback = next((claim.backend for claim in claims if claim.is_fallback), None)
    named = next((claim.fallback.backend for claim in claims if claim.fallback is not None), None)
    wanted = [backend for name, backend in by_name.items() if alone in (None, name)]
    chosen = [(backend, properties_of(backend)) for backend in wanted]
    return _claims(bound, chosen, fallback or named)


def _found_fallback(
    bound: BoundModel, resolved: ResolvedConfig, takes_all: Callable[[Sequence[Claim]], bool]
) -> Backend | None:
    """Open the first ready backend that takes every node; None if there is none."""
    anybody = replace(resolved, backends=(BackendChoice(AUTO, origin="the fallback"),))
    for opened in open_in_turn(anybody):
        if opened and takes_all(_claims(bound, [(opened[-1], properties_of(opened[-1]))], None)):
            return opened[-1]
    return None


def choose_claimants_within(bound: BoundModel, among: object, divider: Claim | str) -> list[Claim]:
    """List properties that are to claim in a subgraph, and the fallback backend's after them.

    While it compiles, a backend is not its own fallback: nobody takes the nodes that its properties
    leave. ConfigError (SGK123) is for no list of properties. SelectorContractError (SGK122) is for
    a property that breaks its contract, or would divide its own claim.

    ``divider``: Who claimed the subgraph, or the name of the backend that did.
    """
    properties = _check_properties(among)
    if isinstance(divider, str):
        settings = bound.settings
        backend: Backend = type(divider, (_PropertiesAlone,), {"name": divider})()
        fallback = None if settings.strict else open_fallback(settings)
        return _claims(bound, [(backend, properties)], fallback, is_behind=True)
    if any(one is divider.property for one in properties):
        raise divider.fault("SGK122", "is to divide what it claimed itself, which would never end")
    fallback = divider.fallback.backend if divider.fallback is not None else None
    return _claims(bound, [(divider.backend, properties)], fallback)


def _check_properties(among: object) -> list[SubgraphProperty]:
    given = among if isinstance(among, list | tuple) else (among,)
    properties = [one for one in given if isinstance(one, SubgraphProperty)]
    if len(properties) < len(given) or given is not among:
        raise ConfigError(
            "SGK123",
            f"a subgraph is to be divided among {among!r}, expected a list of SubgraphProperty",
            hint="Backends by name divide whole models; give properties, such as [MyProperty()].",
        )
    return properties


class _PropertiesAlone(Backend):
    """Stands for the backend whose subgraph is divided by properties from outside."""

    def properties(self) -> Sequence[SubgraphProperty]:
        return ()


def _claims(
    bound: BoundModel,
    chosen: Sequence[tuple[Backend, Sequence[SubgraphProperty]]],
    fallback: Backend | None,
    *,
    is_behind: bool = False,
) -> list[Claim]:
    """List claims; ``is_behind`` has the fallback come last even if one of its name was chosen."""
    last = None
    if fallback is not None:
        compiles = next(iter(fallback.properties()), None)
        last = _claim(bound, fallback, compiles, None, is_fallback=True) if compiles else None
    claims = [
        _claim(bound, backend, property_, last, is_fallback=False)
        for backend, properties in chosen
        for property_ in properties
    ]
    named = {backend.name for backend, _ in chosen}
    if fallback is not None and (is_behind or fallback.name not in named):
        claims += [
            _claim(bound, fallback, property_, last, is_fallback=True)
            for property_ in properties_of(fallback)
        ]
    return claims


def tell_skipped(bound: BoundModel, named: dict[str, str], event: "contract.FallbackEvent") -> None:
    """Report that a backend is left out, and note it of one that is expected to be there."""
    optional = {one.name for one in bound.settings.backends if one.optional}
    if event.backend in optional and event.code in _ABSENT:
        named.pop(event.backend, None)
    elif event.backend in named:
        named[event.backend] = event.reason
    told = bound.extensions
    event = replace(event, model=told.model, session=told.session)
    told.notify("subgraphkit_fallback", event=event)


def _claim(
    bound: BoundModel,
    backend: Backend,
    property_: SubgraphProperty,
    fallback: Claim | None,
    *,
    is_fallback: bool,
) -> Claim:
    context = BindContext(
        backend.option_values,
        kept_folder=partial(bound.kept_folder, backend.name),
        reshape=bound.reshape,
        threads=bound.settings.threads,
        limits=bound.settings.limits.within(bound.settings.max_memory),
    )
    # Its own name is not known to be sound before it was looked at.
    nameless = Claim(backend, context, fallback, is_fallback, type(property_).__name__, property_)
    (name,) = _read_fields(nameless, "name")
    if not isinstance(name, str):
        raise nameless.fault("SGK122", f"name is {name!r}, expected text")
    claim = replace(nameless, property_name=name or nameless.property_name)
    _check_declaration(claim)
    return claim


def _check_declaration(claim: Claim) -> None:
    connectivity, least, most = _read_fields(claim, "connectivity", "min_nodes", "max_nodes")
    if connectivity not in _CONNECTIVITIES:
        text = f"connectivity is {connectivity!r}, expected 'connected' or 'any'"
        raise claim.fault("SGK122", text)
    counts = {"min_nodes": least} | ({} if most is None else {"max_nodes": most})
    for name, value in counts.items():
        if (whole_number(value) or 0) < 1:
            text = f"{name} is {value!r}, expected a whole number from 1 on"
            raise claim.fault("SGK122", text)
    if most is not None and least > most:
        text = f"min_nodes is {least} and max_nodes is {most}, so no region can satisfy both"
        raise claim.fault("SGK122", text)


def whole_number(value: Any) -> int | None:
    """Return an index of Python that is no truth value; None for anything else."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def _read_fields(claim: Claim, *names: str) -> list[Any]:
    values = []
    for name in names:
        try:
            values.append(getattr(claim.property, name))
        except BaseException as error:
            pass_on(error)
            text = f"{name} raised {describe_exception(error)}"
            raise claim.fault("SGK122", text, AT_FAULT) from error
    return values


# -- rehearsal of isolated backends ----------------------------------------------------------------


def survivors(bound: BoundModel, claims: Sequence[Claim], named: dict[str, str]) -> list[Claim]:
    """Return the claims of backends that survive the questions of a partition pass.

    Nothing is rehearsed unless an isolated backend among them asks its library. It raises
    BackendError if one does not survive and ``on_compile_error`` makes that an error (SGK136). It
    also does so if one cannot be opened in another process (SGK137).

    ``named``: Gets the reasons why named backends were left out.
    """
    claims, isolates = list(claims), bound.settings.isolates
    while bound.settings.isolate and any(
        isolates(one.backend.name) and one.backend.traits.evidence == "asked" for one in claims
    ):
        try:
            _rehearse(bound, claims)
        except BackendError as error:
            left = [claim for claim in claims if claim.backend.name != error.backend]
            lost = len(left) == len(claims) or all(claim.is_fallback for claim in claims)
            if lost or bound.settings.on_compile_error != "fallback":
                raise
            event = contract.FallbackEvent(
                "selection", error.backend, "", error.code, error.message
            )
            tell_skipped(bound, named, event)
            claims = left
        else:
            break
    return claims


def _rehearse(bound: BoundModel, claims: Sequence[Claim]) -> None:
    backends = {claim.backend.name: claim.backend for claim in claims if not claim.is_fallback}
    chosen = []
    for name, backend in backends.items():
        with nullcontext() if bound.settings.isolates(name) else suppress(BackendError):
            chosen.append(backend_recipe(bound, backend))
    heard: list[str] = []
    process = bound.process
    with process.lock:
        try:
            process.ready()
            progress = Progress(lambda event: heard.append(event.message))
            process.ask(".rehearse", chosen, progress=progress, tells=True)
        except ProcessEnded as ended:
            name = heard[-1] if heard else next(iter(backends))
            error = BackendError(
                "SGK136",
                f"the process in which backend {name!r} was asked about the nodes of the model "
                f"ended with {ended.how}",
                backend=name,
                hint="This process goes on. Leave the backend out of the list, or set "
                "on_compile_error='fallback', which does so where it does not survive.",
            )
            raise with_last_words(error, ended) from None
