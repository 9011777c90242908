"""Who claims: the properties of the chosen backends in order, and the fallback backend last."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import index
from types import MappingProxyType
from typing import Any

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.events import FallbackEvent
from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.property import BindContext, SubgraphProperty, no_fallback
from subgraphkit.binding import BoundModel
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.selection import AUTO, BackendChoice, Selection
from subgraphkit.errors import SelectorContractError, describe_exception
from subgraphkit.finding.opening import open_fallback, open_in_turn
from subgraphkit.finding.properties import properties_of
from subgraphkit.ir import Subgraph

__all__ = ["AT_FAULT", "Claim", "choose_claimants"]

AT_FAULT = "This is a fault of the backend; report it to its author."
"""The hint where a backend's own code raised."""

_CONNECTIVITIES = ("connected", "any")


@dataclass(frozen=True, eq=False, slots=True)
class Claim:
    """Who claimed a subgraph, and so who compiles it.

    Attributes:
        backend: The backend.
        context: What the property was told about the bind.
        is_fallback: Whether the backend was not chosen but runs what nobody else claimed.
        property_name: Name of the property in reports: its own, or that of its class.
        property: The property.
    """

    backend: Backend
    context: BindContext
    is_fallback: bool
    property_name: str
    # Last, because it hides the decorator of that name from what follows it.
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
    bound: BoundModel, backends: Selection | None, takes_all: Callable[[Sequence[Claim]], bool]
) -> Iterator[list[Claim]]:
    """Open the backends and list their properties in the order in which they are to claim.

    Args:
        bound: The bound graph; what was configured at bind holds unless ``backends`` is given.
        backends: A selection in any of its forms, or None.
        takes_all: Says whether nobody else would be needed for the graph.

    Yields:
        The claimants; then more of them, for those who have nodes left: one more backend that
        ``auto`` stands for, and at last a fallback that has to be found.

    Raises:
        ConfigError: The selection cannot be read.
        BackendNotFoundError: A backend is not installed or not known.
        BackendError: A backend cannot be loaded or cannot run here.
        SelectorContractError: A property declares something its contract forbids (SGK122).
    """
    resolved = _resolved(bound.settings, backends)
    fallback = None if resolved.strict else open_fallback(resolved)
    find = partial(_found_fallback, bound, resolved, takes_all)
    opened: list[Backend] = []
    for opened in open_in_turn(resolved, on_skip=partial(_tell_skipped, bound)):
        yield _claims(bound, opened, fallback, find)
    if resolved.fallback == AUTO and not resolved.strict:
        found = find()
        yield _claims(bound, opened, found, lambda: found)


def _claims(
    bound: BoundModel,
    opened: Sequence[Backend],
    fallback: Backend | None,
    find: Callable[[], Backend | None],
) -> list[Claim]:
    compile_on_fallback = _compiler(bound, find if fallback is None else lambda: fallback)
    last = [fallback] if fallback is not None else []
    names = {backend.name for backend in opened}
    return [
        _claim(bound, backend, property_, compile_on_fallback, is_fallback=is_fallback)
        for backends, is_fallback in ((opened, False), (last, True))
        for backend in backends
        if not (is_fallback and backend.name in names)
        for property_ in properties_of(backend)
    ]


def _found_fallback(
    bound: BoundModel, resolved: ResolvedConfig, takes_all: Callable[[Sequence[Claim]], bool]
) -> Backend | None:
    """Open the first ready backend that takes every node; None if there is none, or none is due."""
    if resolved.fallback != AUTO or resolved.strict:
        return None
    anybody = replace(resolved, backends=(BackendChoice(AUTO, origin="the fallback"),))
    for opened in open_in_turn(anybody):
        if opened and takes_all(_claims(bound, opened[-1:], None, lambda: None)):
            return opened[-1]
    return None


def _tell_skipped(bound: BoundModel, event: FallbackEvent) -> None:
    bound.extensions.notify("subgraphkit_fallback", event=event)


def _resolved(settings: ResolvedConfig, backends: Selection | None) -> ResolvedConfig:
    if backends is None:
        return settings
    fresh = resolve(backend=backends)
    options = dict(settings.option_sources)
    for name, entries in fresh.option_sources.items():
        options[name] = MappingProxyType({**options.get(name, {}), **entries})
    return replace(
        settings,
        backends=fresh.backends,
        sources=MappingProxyType({**settings.sources, "backend": fresh.sources["backend"]}),
        option_sources=MappingProxyType(options),
    )


def _claim(
    bound: BoundModel,
    backend: Backend,
    property_: SubgraphProperty,
    compile_on_fallback: Callable[[Subgraph], SubgraphOperator],
    *,
    is_fallback: bool,
) -> Claim:
    context = replace(_context(bound, backend), fallback=compile_on_fallback)
    # Its own name is not known to be sound before it was looked at.
    nameless = Claim(backend, context, is_fallback, type(property_).__name__, property_)
    name = _declared(nameless, "name")
    if not isinstance(name, str):
        raise nameless.fault("SGK122", f"name is {name!r}, expected text")
    claim = replace(nameless, property_name=name or nameless.property_name)
    _check_declaration(claim)
    return claim


def _context(bound: BoundModel, backend: Backend) -> BindContext:
    return BindContext(
        backend.name,
        backend.option_values,
        kept_folder=partial(bound.kept_folder, backend.name),
        reshape=bound.reshape,
    )


def _check_declaration(claim: Claim) -> None:
    connectivity = _declared(claim, "connectivity")
    if connectivity not in _CONNECTIVITIES:
        raise claim.fault(
            "SGK122",
            f"connectivity is {connectivity!r}, expected 'connected' or 'any'",
        )
    least = _node_count(claim, "min_nodes")
    most = _declared(claim, "max_nodes")
    if most is not None and least > _node_count(claim, "max_nodes"):
        raise claim.fault(
            "SGK122",
            f"min_nodes is {least} and max_nodes is {most}, so no region can satisfy both",
        )


def _node_count(claim: Claim, name: str) -> int:
    value = _declared(claim, name)
    try:
        count = 0 if isinstance(value, bool) else index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise claim.fault("SGK122", f"{name} is {value!r}, expected a whole number from 1 on")
    return count


def _declared(claim: Claim, name: str) -> Any:
    try:
        return getattr(claim.property, name)
    except Exception as error:
        raise claim.fault(
            "SGK122", f"{name} raised {describe_exception(error)}", AT_FAULT
        ) from error


def _compiler(
    bound: BoundModel, find: Callable[[], Backend | None]
) -> Callable[[Subgraph], SubgraphOperator]:
    def compile_on_fallback(subgraph: Subgraph) -> SubgraphOperator:
        fallback = find()
        if fallback is None or fallback.name == subgraph.backend:
            return no_fallback(subgraph)
        property_ = fallback.properties()[0]
        operator: object = property_.create_operator(subgraph, _context(bound, fallback))
        if not isinstance(operator, SubgraphOperator):
            raise SelectorContractError(
                "SGK122",
                f"create_operator of property {type(property_).__name__!r} returned a "
                f"{type(operator).__name__}, expected a SubgraphOperator",
                backend=fallback.name,
                subgraph=subgraph.id,
            )
        operator.made_by = fallback.name
        return operator

    return compile_on_fallback
