"""Properties added to a backend from outside, by a call that may come before the backend is loaded.

Source: MXNet's ``MXNET_REGISTER_SUBGRAPH_PROPERTY``, which adds a property to a backend by name.
"""

import threading
from typing import Final, TypeVar

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.plugin_api import name_problem
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.boundary import pass_on
from subgraphkit.configuration.selection import unnumbered
from subgraphkit.errors import SelectorContractError, SubgraphkitError, describe_exception
from subgraphkit.finding import messages

_Property = TypeVar("_Property", bound=type[SubgraphProperty])


_LOCK: Final = threading.Lock()
_ADDED: Final[dict[str, tuple[type[SubgraphProperty], ...]]] = {}
"""The property classes added in this process, by backend."""


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
    """Return new instances of the properties of a backend: those added from outside, then its own.

    Raises:
        SelectorContractError: If the plugin raised, or returned something else (SGK122).
    """
    try:
        properties = [
            *(added() for added in _ADDED.get(unnumbered(backend.name), ())),
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
