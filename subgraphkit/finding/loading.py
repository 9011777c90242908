"""Turn an entry point into a factory of backends, and survive every fault of the plugin.

A plugin's import may raise, exit, or return something that is no backend. Each of these becomes a
coded error that names the distribution and the entry point. Its cause is the plugin's own
exception. ``KeyboardInterrupt`` alone passes. An import that does not return cannot be stopped from
inside the process; see ``child_probe``. Properties may be added to a backend from outside, before
it is loaded.
"""

import threading
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Final, TypeVar

from subgraphkit import backend as contract
from subgraphkit.backend.contract import Backend, ProbeResult, option_class_of
from subgraphkit.backend.hookspecs import (
    BACKEND_HOOKS,
    EXTENSION_HOOKS,
    defaulted_arguments,
    hook_manager,
    unknown_hooks,
)
from subgraphkit.backend.messages import mark_as_plugin_error, unavailable
from subgraphkit.backend.options import Option, PlainOptions
from subgraphkit.backend.plugin_api import is_compatible, name_problem, parse_api
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.boundary import pass_on
from subgraphkit.configuration.names import BACKENDS_GROUP
from subgraphkit.configuration.selection import strip_number
from subgraphkit.errors import SelectorContractError, SubgraphkitError, describe_exception
from subgraphkit.finding import messages
from subgraphkit.finding.catalogue import BackendRecord, missing_requirements

_Result = TypeVar("_Result")


class HookFactory:
    """A backend given as a namespace with hooks; it is used like a ``Backend`` class.

    Attributes:
        namespace: The module, class or object the entry point refers to.
        options: The options the backend understands, from the manifest, or else from the backend.
        api: The plugin API it uses, from the same place.

    Thread-safety: as far as the plugin's own functions.
    """

    def __init__(self, record: BackendRecord, namespace: object) -> None:
        self.name = record.name
        self.namespace = namespace
        # A manager of its own keeps other plugins out of the call. A failed registration goes with
        # it; pluggy 1.6 leaves a plugin half registered.
        self._hooks = hook_manager()
        self._hooks.register(namespace, name=record.name)
        self.options: tuple[Option, ...] = ()
        self.api = "1.0"
        _check_hooks(self._hooks, record, namespace)
        if record.manifest is not None:
            self.options = record.manifest.options
            self.api = "{}.{}".format(*record.manifest.api)
        else:
            example = self()
            self.options = tuple(example.options)
            self.api = example.api

    def __call__(self, options: Any = None) -> Backend:
        """Build an instance for one bind, by default options; TypeError if it is no backend."""
        if options is None:
            options = PlainOptions(**{one.name: one.default for one in self.options})
        backend = self._hooks.hook.subgraphkit_backend(options=options)
        if not isinstance(backend, Backend):
            raise TypeError(f"subgraphkit_backend returned {backend!r}, expected a Backend")
        return backend

    def probe(self, *, deep: bool = False) -> ProbeResult:
        """Look whether the backend can run here."""
        found: ProbeResult | None = self._hooks.hook.subgraphkit_probe(deep=deep)
        return found if found is not None else type(self()).probe(deep=deep)

    def planner(self, options: Any) -> Backend | None:
        """Make an instance that claims here although it cannot run."""
        return type(self()).planner(options)

    def conformance(self, suite: "contract.Conformance") -> None:
        """Declare known failures to the conformance kit."""
        type(self()).conformance(suite)
        self._hooks.hook.subgraphkit_conformance(suite=suite)


BackendFactory = type[Backend] | HookFactory
"""It builds instances of a backend, probes it, and knows its name and options."""


def _check_hooks(manager: Any, record: BackendRecord, namespace: object) -> None:
    if unknown := unknown_hooks(manager, namespace):
        raise messages.unknown_backend_hook(
            record.name, record.provider, unknown[0], [*BACKEND_HOOKS, *EXTENSION_HOOKS]
        )
    if not manager.hook.subgraphkit_backend.get_hookimpls():
        raise messages.bad_registration(
            record.name,
            f"{_label_of(record)} is neither a Backend subclass nor a namespace with a hookimpl "
            f"subgraphkit_backend, but {type(namespace).__name__} {namespace!r:.60}",
        )
    if defaulted := defaulted_arguments(manager, namespace):
        raise messages.bad_registration(
            record.name,
            f"the hook implementation {defaulted[0]} of {_label_of(record)} declares a default, "
            "which versions of pluggy treat differently",
        )


def _label_of(record: BackendRecord) -> str:
    return f"{record.entry_point} of {record.provider}"


def load(record: BackendRecord, *, raise_errors: bool = False) -> BackendFactory:
    """Import a backend and check its kind.

    This raises BackendLoadError for a failed import (SGK103), for no backend or another name
    (SGK115), and for a misspelt hook (SGK191). It raises BackendIncompatibleError (SGK105) as well.
    """
    entry_point = EntryPoint(record.name, record.entry_point, BACKENDS_GROUP)
    found = _run_plugin(entry_point.load, record, raise_errors=raise_errors, passing=())
    return adopt(record, found, raise_errors=raise_errors)


def adopt(record: BackendRecord, found: object, *, raise_errors: bool = False) -> BackendFactory:
    """Refuse all but a backend of the record's name (as ``load``) and API (SGK105)."""
    factory: BackendFactory
    if isinstance(found, type) and issubclass(found, Backend):
        factory = found
        name = getattr(found, "name", None)
        if name != record.name:
            problem = f"the class {_label_of(record)} calls itself {name!r}"
            raise messages.bad_registration(record.name, problem)
    else:
        factory = _run_plugin(lambda: HookFactory(record, found), record, raise_errors=raise_errors)
    try:
        needed = parse_api(factory.api)
    except ValueError as error:
        raise messages.bad_registration(record.name, f"its api: {error}") from None
    if not is_compatible(needed):
        raise messages.incompatible(record.name, record.provider, needed, imported=True)
    return factory


def probe(
    record: BackendRecord,
    factory: BackendFactory,
    *,
    deep: bool = False,
    raise_errors: bool = False,
) -> ProbeResult:
    """Ask a backend whether it can run here; else BackendUnavailableError (SGK104)."""
    try:
        found: object = factory.probe(deep=deep)
    except BaseException as error:
        pass_on(error)
        if raise_errors:
            mark_as_plugin_error(error, f"backend {record.name!r} ({record.provider})")
            raise
        problem = f"its probe raised {describe_exception(error)}"
        raise unavailable(record.name, [problem]) from error
    if not isinstance(found, ProbeResult):
        problem = f"its probe returned {found!r:.60}, expected a ProbeResult"
        raise messages.bad_registration(record.name, problem)
    if not found.available:
        raise unavailable(record.name, found.problems, found.hint)
    return found


def build(
    record: BackendRecord,
    factory: BackendFactory,
    options: Mapping[str, Any],
    *,
    to_plan: bool = False,
    raise_errors: bool = False,
) -> Backend | None:
    """Build an instance with validated options, which it gets as attributes.

    ``to_plan``: Whether to build one that claims here although it cannot run. It is then None if
    the backend cannot claim without the missing part.
    """
    values = (option_class_of(factory) if isinstance(factory, type) else PlainOptions)(**options)
    make: Callable[[Any], Any] = factory.planner if to_plan else factory
    made: object = _run_plugin(lambda: make(values), record, raise_errors=raise_errors)
    if isinstance(made, Backend) or (made is None and to_plan):
        return made
    problem = f"its {'planner' if to_plan else 'class'} returned {made!r:.60}, expected a Backend"
    raise messages.bad_registration(record.name, problem)


def _run_plugin(
    call: Callable[[], _Result],
    record: BackendRecord,
    *,
    raise_errors: bool,
    passing: tuple[type[Exception], ...] = (SubgraphkitError,),
) -> _Result:
    """Call the plugin; errors in ``passing`` already say enough for a user."""
    try:
        return call()
    except passing:
        raise
    except BaseException as error:
        pass_on(error)
        if raise_errors:
            mark_as_plugin_error(error, f"backend {record.name!r} ({record.provider})")
            raise
        install = (
            missing_requirements(record.manifest.requires, libraries=False)
            if record.manifest is not None
            else []
        )
        raise messages.load_failed(
            record.name,
            record.provider,
            f"{BACKENDS_GROUP}: {record.name} = {record.entry_point}",
            describe_exception(error),
            install,
        ) from error


_Property = TypeVar("_Property", bound=type[SubgraphProperty])


_LOCK: Final = threading.Lock()
# The property classes added in this process, by backend.
_ADDED: Final[dict[str, tuple[type[SubgraphProperty], ...]]] = {}


def register_property(backend_name: str, property_cls: _Property) -> _Property:
    """Add a property to a backend, before those it has; MXNet's registration macro.

    Before them, because a backend's own properties often take everything they can.

    The backend need not be loaded, nor installed, yet. A class of the same module and name takes
    the place of the former one.

    Args:
        backend_name: Name of the backend.
        property_cls: Class whose instances are made without arguments, new for every bind.

    Returns:
        ``property_cls``, so that ``partial(register_property, "numpy")`` is a class decorator.

    Raises:
        BackendLoadError: If the name is malformed or the class is no property (SGK115).

    Thread-safety: may be called from any thread; binds under way are not affected.
    """
    problem = name_problem(backend_name)
    given: object = property_cls  # whatever the annotation says
    if not isinstance(given, type) or not issubclass(given, SubgraphProperty):
        problem = f"{property_cls!r} is not a subclass of SubgraphProperty"
    if problem:
        raise messages.bad_registration(backend_name, problem)
    with _LOCK:
        present = _ADDED.get(backend_name, ())
        # a cell of a notebook that is run again defines the same class anew
        place = property_cls.__module__, property_cls.__qualname__
        kept = tuple(
            property_cls if (one.__module__, one.__qualname__) == place else one for one in present
        )
        _ADDED[backend_name] = kept if property_cls in kept else (*kept, property_cls)
    return property_cls


def unregister_property(backend_name: str, property_cls: type[SubgraphProperty]) -> None:
    """Take a registration by ``register_property`` back.

    Raises:
        BackendLoadError: If there is no such registration (SGK115).
    """
    with _LOCK:
        present = _ADDED.get(backend_name, ())
        _ADDED[backend_name] = tuple(one for one in present if one is not property_cls)
    if property_cls not in present:
        problem = f"{property_cls!r} was not registered as a property"
        raise messages.bad_registration(backend_name, problem)


def properties_of(backend: Backend) -> list[SubgraphProperty]:
    """Return new properties of a backend: those added from outside, then its own."""
    try:
        properties = [
            *(added() for added in _ADDED.get(strip_number(backend.name), ())),
            *backend.properties(),
        ]
    except SubgraphkitError:
        raise
    except BaseException as error:
        pass_on(error)
        raise _wrong(backend, f"could not be made: {describe_exception(error)}") from error
    returned: list[object] = [*properties]  # whatever the annotation says
    for one in returned:
        if not isinstance(one, SubgraphProperty):
            raise _wrong(backend, f"have {one!r}, expected instances of SubgraphProperty")
    return properties


def _wrong(backend: Backend, problem: str) -> SelectorContractError:
    text = f"the properties of backend {backend.name!r} {problem}"
    return SelectorContractError("SGK122", text, backend=backend.name)
