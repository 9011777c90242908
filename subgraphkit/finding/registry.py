"""The registry: from a name to a backend that is imported, checked and known to run here.

Each backend is loaded at most once; what failed is remembered until ``refresh_backends``. A backend
that hangs while it is imported holds the lock of its own name only.

Thread-safety: all functions may be called from any thread.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from subgraphkit.backend.contract import Backend, ProbeResult
from subgraphkit.backend.plugin_api import name_problem
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.messages import bad_selection
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.configuration.selection import BackendChoice, parse_selection
from subgraphkit.errors import (
    BackendError,
    BackendIncompatibleError,
    BackendUnavailableError,
    SubgraphkitError,
)
from subgraphkit.finding import messages
from subgraphkit.finding.catalogue import (
    CATALOGUE,
    IN_PROCESS,
    BackendRecord,
    State,
    key_of,
    usable_names,
)
from subgraphkit.finding.loading import BackendFactory, adopt, load, probe

_Registered = TypeVar("_Registered")


@dataclass(slots=True)
class _Slot:
    """The state of one backend, and the lock under which it is loaded."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    factory: BackendFactory | None = None
    probed: ProbeResult | None = None
    error: SubgraphkitError | None = None


# By name and distribution; two threads that ask for one at once get the same.
_SLOTS: Final[dict[tuple[str, str], _Slot]] = {}


def refresh_backends() -> None:
    """Forget findings and failures, so that both are tried again when next needed.

    Backends and properties registered by calls stay. A module that was imported stays imported;
    Python cannot take that back.
    """
    CATALOGUE.forget()
    for key, slot in list(_SLOTS.items()):
        _SLOTS[key] = _Slot(factory=slot.factory if IN_PROCESS in key else None)


def register_backend(
    backend: _Registered, name: str | None = None, *, replace: bool = False
) -> _Registered:
    """Register a backend of this process: a ``Backend`` class, or a namespace with hookimpls.

    For notebooks, tests and frozen applications; a package registers by an entry point.

    Args:
        backend: The class or namespace.
        name: Name to use it by; the class's own if not given. Required for a namespace.
        replace: Whether it may take the place of a backend of that name.

    Returns:
        ``backend``, so that this serves as a class decorator.

    Raises:
        BackendLoadError: If it is no backend, or the name is malformed or taken (SGK115).
        BackendIncompatibleError: If it needs another plugin API (SGK105).
    """
    record, factory = _adopt(backend, name)
    taken = CATALOGUE.find(record.name)
    if taken and not replace:
        problem = f"the name is taken by {taken[0].provider.strip('()')}; replace=True takes it"
        raise messages.bad_registration(record.name, problem)
    _put_record(record, factory)
    return backend


def _put_record(record: BackendRecord, factory: BackendFactory | None) -> None:
    _SLOTS[key_of(record)] = _Slot(factory=factory)
    CATALOGUE.add(record)
    CATALOGUE.remember(record, "loaded")


def unregister_backend(name: str) -> None:
    """Take a registration by ``register_backend`` back; an installed backend shows up again.

    Raises:
        BackendNotFoundError: If no backend of that name was registered by a call (SGK102).
    """
    if (record := CATALOGUE.remove(name)) is None:
        found = [one.provider for one in CATALOGUE.find(name)]
        raise messages.unknown_distribution(name, IN_PROCESS, found, "unregister_backend")
    _SLOTS[key_of(record)] = _Slot()


@contextmanager
def registered(
    backend: _Registered, name: str | None = None, *, replace: bool = False
) -> Iterator[_Registered]:
    """Register a backend for a ``with`` block, in all threads; restore its predecessor."""
    record, _ = _adopt(backend, name)
    former = next((one for one in CATALOGUE.find(record.name, IN_PROCESS)), None)
    before = _SLOTS[key_of(former)].factory if former is not None else None
    register_backend(backend, name, replace=replace)
    try:
        yield backend
    finally:
        CATALOGUE.remove(record.name)
        _SLOTS[key_of(record)] = _Slot()
        if former is not None:
            _put_record(former, before)


def _adopt(backend: object, name: str | None) -> tuple[BackendRecord, BackendFactory]:
    is_class = isinstance(backend, type) and issubclass(backend, Backend)
    own_name = getattr(backend, "name", None) if is_class else None
    chosen = name if name is not None else own_name
    if not isinstance(chosen, str):
        raise messages.bad_registration(
            str(chosen), f"{backend!r} has no name; pass one as register_backend(..., name='mine')"
        )
    if problem := name_problem(chosen):
        raise messages.bad_registration(chosen, problem)
    record = BackendRecord(chosen, IN_PROCESS, entry_point=_place(backend))
    if isinstance(backend, type) and is_class and own_name != chosen:
        # the name is part of subgraph identifiers and cache keys, so the class must bear it
        backend = type(backend.__name__, (backend,), {"name": chosen})
    return record, adopt(record, backend)


def _place(backend: object) -> str:
    module = getattr(backend, "__module__", None) or getattr(backend, "__name__", "")
    name = getattr(backend, "__qualname__", "")
    return f"{module}:{name}" if name else str(module)


def get_backend(name: str) -> BackendFactory:
    """Load a backend by name, or by ``name@distribution``, and return its factory.

    Whether it can run here is not asked.

    Returns:
        The ``Backend`` class. For a namespace with hookimpls it is a factory with the same
        attributes ``name``, ``options``, ``api`` and ``probe``. You call it with the options in the
        same way.

    Raises:
        BackendNotFoundError: If it is not installed (SGK101) or unknown (SGK102).
        BackendLoadError: If it could not be loaded (SGK103, SGK115, SGK116, SGK191).
        BackendUnavailableError: If it is blocked (SGK117).
        BackendIncompatibleError: If it needs another plugin API (SGK105).
        BackendConflictError: If several distributions provide the name (SGK106).
        ConfigError: If the name or the configuration cannot be read.
    """
    origin = f"get_backend({name!r})"
    choices = parse_selection(name, origin)
    if len(choices) != 1 or choices[0].options or name_problem(choices[0].name):
        raise bad_selection(origin, "expected the name of one backend")
    resolved = resolve()
    record = find_record(choices[0], resolved)
    return load_record(record, raise_errors=resolved.raise_plugin_errors)


def find_record(choice: BackendChoice, resolved: ResolvedConfig) -> BackendRecord:
    """Find the one record a choice means.

    This raises BackendNotFoundError (SGK101, SGK102), or BackendUnavailableError if it is blocked
    (SGK117). If there are several, and none ships with us, it raises BackendConflictError (SGK106).
    """
    name = choice.backend
    if name in resolved.block:
        raise messages.blocked_backend(name, choice.origin, resolved.sources["block"][1])
    records = CATALOGUE.find(name)
    if not records and name in KNOWN_BACKENDS:
        raise messages.missing(name, choice.origin, KNOWN_BACKENDS[name], usable_names())
    if not records:
        raise messages.unknown(name, choice.origin, usable_names(), KNOWN_BACKENDS)
    if choice.distribution:
        providers = [record.distribution for record in records]
        records = CATALOGUE.find(name, choice.distribution)
        if not records:
            raise messages.unknown_distribution(name, choice.distribution, providers, choice.origin)
    ours = [record for record in records if record.ships_with_us]
    if len(records) > 1 and not ours:
        raise messages.conflict(name, [(r.provider, r.entry_point) for r in records])
    return [*ours, *records][0]


def forbid(name: str, error: BackendError) -> None:
    """Raise an error for every backend of a name from now on, whatever its state.

    For a forked child: it waits for no lock that another thread of the parent may have held.
    """
    for record in CATALOGUE.find(name):
        _SLOTS[key_of(record)] = _Slot(error=error)
        CATALOGUE.remember(record, "unavailable", error)


def load_record(record: BackendRecord, *, raise_errors: bool = False) -> BackendFactory:
    """Load a backend, once, as ``load``; a failure is remembered and raised again."""
    slot = _SLOTS.setdefault(key_of(record), _Slot())
    with slot.lock:
        if slot.factory is not None:
            return slot.factory
        _raise_remembered(slot.error)
        if record.state in {"broken", "incompatible"}:
            _raise_remembered(record.error)
        slot.factory = _remembering(record, slot, lambda: load(record, raise_errors=raise_errors))
        CATALOGUE.remember(record, "loaded")
        return slot.factory


def probe_record(
    record: BackendRecord, *, deep: bool = False, raise_errors: bool = False
) -> ProbeResult:
    """Load a backend and ask it, once, whether it can run here; else SGK104.

    ``deep``: Whether to let it compile and run a small model; never remembered.
    """
    slot = _SLOTS.setdefault(key_of(record), _Slot())
    with slot.lock:
        factory = load_record(record, raise_errors=raise_errors)
        if deep:
            return probe(record, factory, deep=True, raise_errors=raise_errors)
        if slot.probed is not None:
            return slot.probed
        _raise_remembered(slot.error)
        slot.probed = _remembering(
            record, slot, lambda: probe(record, factory, raise_errors=raise_errors)
        )
        CATALOGUE.remember(record, "build_only" if slot.probed.builds_only else "ready")
        return slot.probed


def _remembering(record: BackendRecord, slot: _Slot, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BackendError as error:
        slot.error = error
        CATALOGUE.remember(record, _failed_state(error), error)
        raise


def _failed_state(error: BackendError) -> State:
    if isinstance(error, BackendUnavailableError):
        return "unavailable"
    return "incompatible" if isinstance(error, BackendIncompatibleError) else "broken"


def _raise_remembered(error: SubgraphkitError | None) -> None:
    if error is not None:
        # the traceback would otherwise grow with every attempt
        raise error.with_traceback(None)
