"""Extensions: observers and commands that plug into the road, each kept apart from the others.

They register in the entry-point group ``subgraphkit.plugins``, or by ``register_extension``, and
implement hooks of ``ExtensionHooks``. One that raises is switched off with a warning; the others,
and the work, go on.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from importlib.metadata import EntryPoint
from itertools import chain, count
from typing import Any, Final, NamedTuple, get_args

from subgraphkit.backend.hookspecs import (
    BACKEND_HOOKS,
    EXTENSION_HOOKS,
    defaulted_arguments,
    hook_manager,
    unknown_hooks,
)
from subgraphkit.backend.messages import mark_as_plugin_error, warn_user
from subgraphkit.backend.progress import Progress
from subgraphkit.boundary import pass_on
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.names import BACKEND_NAMES, EXTENSIONS_GROUP
from subgraphkit.errors import BackendError, InternalError, InvalidModelError, describe_exception
from subgraphkit.finding import messages
from subgraphkit.ir import Graph, Node
from subgraphkit.types import DataType, TensorType, ValueType


class _Source(NamedTuple):
    """An extension that may be loaded: where it comes from and how to get it."""

    name: str
    label: str
    get: Callable[[], object]
    entry_point: EntryPoint | None = None


_Callers = dict[str, tuple[tuple[_Source, Any], ...]]


_LOCK: Final = threading.Lock()
# The extensions registered by calls, in order.
_REGISTERED: Final[dict[str, _Source]] = {}


def register_extension(extension: object, name: str | None = None) -> None:
    """Register an extension of this process; later binds will call it.

    Args:
        extension: A module, class or object with hookimpls.
        name: Name by which it can be blocked and unregistered; its own if not given. An extension
            of the same name is replaced.
    """
    chosen = name or str(getattr(extension, "__name__", type(extension).__name__))
    source = _Source(chosen, f"{chosen!r} (this process)", lambda: extension)
    with _LOCK:
        _REGISTERED[chosen] = source


def unregister_extension(name: str) -> None:
    """Take a registration by ``register_extension`` back.

    Raises:
        KeyError: If there is none of that name.
    """
    with _LOCK:
        del _REGISTERED[name]


def _sources() -> Iterator[_Source]:
    installed = BACKEND_NAMES.entry_points(EXTENSIONS_GROUP)
    for entry_point in sorted(installed, key=lambda one: (one.name, one.value)):
        yield _Source(entry_point.name, _label(entry_point), entry_point.load, entry_point)
    with _LOCK:
        yield from list(_REGISTERED.values())


def _label(entry_point: EntryPoint) -> str:
    provider = f"{entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist else "?"
    return f"{entry_point.name!r} ({provider}, {entry_point.value})"


_SESSIONS: Final = count(1)


def _wrong(extension: str, node: Node, problem: str) -> BackendError:
    return messages.wrong_types(extension, node.label, f"{node.domain}::{node.op_type}", problem)


def _problem_of(answer: object, declared: Sequence[ValueType | None]) -> str:
    """Return the fault of an answer of ``subgraphkit_types``; empty if it has none."""
    if not isinstance(answer, list | tuple) or len(answer) != len(declared):
        return f"returned {answer!r:.200}, expected {len(declared)} types or None"
    for type_, other in zip(answer, declared, strict=True):
        if type_ is not None and not isinstance(type_, get_args(ValueType)):
            return f"returned {type_!r:.200}, expected a type such as TensorType"
        if isinstance(type_, TensorType) and not _is_sound(type_):
            return f"returned {type_!r:.200}, which is no type of a tensor"
        if type_ is not None and other is not None and not agree(type_, other):
            return f"returned {type_}, where the model declares {other}"
    return ""


def _is_sound(type_: TensorType) -> bool:
    dtype: object = type_.dtype
    shape: object = type_.shape
    if not isinstance(dtype, DataType) or not isinstance(shape, tuple | None):
        return False
    sizes = [dim for dim in shape or () if not isinstance(dim, str | None)]
    return all(isinstance(dim, int) and not isinstance(dim, bool) and dim >= 0 for dim in sizes)


def agree(type_: ValueType, declared: ValueType) -> bool:
    """Say whether two types are of one kind, element type and rank, as far as these are known."""
    if not isinstance(type_, TensorType) or not isinstance(declared, TensorType):
        return type(type_) is type(declared)
    kinds = {type_.dtype, declared.dtype} - {DataType.UNDEFINED}
    return len(kinds) <= 1 and len({type_.rank, declared.rank} - {None}) <= 1


class ExtensionManager:
    """The extensions of one bind or one command.

    Extensions are imported by the first question about a hook. Where none implements a hook,
    ``implements`` is a dictionary look-up, so that callers need not even build the event.

    Attributes:
        model: Name of the model of their events.
        session: Number of the session of their events, given out here.

    Thread-safety: all methods may be called from any thread.
    """

    def __init__(self, resolved: ResolvedConfig, model: str = "") -> None:
        self.model = model
        self._resolved = resolved
        self.session = next(_SESSIONS)
        self._numbers = chain((self.session,), _SESSIONS)
        self._lock = threading.RLock()
        self._callers: _Callers | None = None
        self._typed: dict[str, tuple[str, Node]] = {}

    def number_session(self) -> int:
        """Return the number of a new session: that of the bind for the first, then others."""
        return next(self._numbers)

    def with_extension(self, extension: object, name: str) -> "ExtensionManager":
        """Return a manager of the same extensions and one more, which is not registered."""
        joined = copy(self)
        added = self._with(self._load(), _Source(name, repr(name), lambda: extension))
        joined._callers = added  # noqa: SLF001 (a copy of ours)
        return joined

    def implements(self, hook_name: str) -> bool:
        """Say whether any extension listens to a hook; InternalError for no such hook."""
        return bool(self._listeners(hook_name))

    def notify(self, hook_name: str, **arguments: Any) -> list[Any]:
        """Call a hook on every extension that implements it; return answers by name, without None.

        An iterator is used up here, so that an error in it is caught here as well. An extension
        that raises is switched off with a warning (SGK190); InternalError is for no such hook.
        """
        results = []
        for source, caller in self._listeners(hook_name):
            try:
                found = caller(**arguments)
                results += [list(one) if isinstance(one, Iterator) else one for one in found]
            except BaseException as error:  # noqa: BLE001 (others' errors are passed on)
                pass_on(error)
                self._switch_off(source, hook_name, error)
        return results

    def each(self, hook_name: str) -> Iterator[tuple[str, Callable[..., list[Any]]]]:
        """Yield the extensions that implement a hook, by name, each to be called by itself."""
        for source, caller in self._listeners(hook_name):
            yield source.name, caller

    def types_of(
        self, node: Node, inputs: Sequence[ValueType | None], declared: Sequence[ValueType | None]
    ) -> Sequence[ValueType | None] | None:
        """Return the output types of somebody's own operator, beside those declared.

        Raises BackendError (SGK223) if an extension fails, or its answer cannot be true.
        """
        for name, ask in self.each("subgraphkit_types"):
            try:
                answers = ask(node=node, inputs=inputs)
            except BaseException as error:
                pass_on(error)
                problem = f"raised {describe_exception(error)}"
                raise _wrong(name, node, problem) from error
            for answer in answers:  # one, or none where it is not of this extension
                if problem := _problem_of(answer, declared):
                    raise _wrong(name, node, problem)
                self._typed.update(dict.fromkeys(node.outputs, (name, node)))
                return tuple(answer)
        return None

    def typing_fault(self, error: InvalidModelError, graph: Graph) -> BackendError | None:
        """Blame the extension on whose types a contradiction rests; None if there is none."""
        seen, waiting = set(), [error.context.get("node")]
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            for name in graph.read_by(node):
                if name in self._typed:
                    problem = f"contradicts what is behind it: {error.message}"
                    return _wrong(*self._typed[name], problem)
                waiting.append(graph.producers.get(name))
        return None

    def hearing(self, progress: Progress | None) -> Progress:
        """Return a progress whose events name the model and are reported to the extensions as well.

        One whose events name a model already reports them already, and is returned as it is.
        """
        progress = Progress() if progress is None else progress
        if "model" in progress.facts:
            return progress
        hook = "subgraphkit_progress"
        tell = (lambda event: self.notify(hook, event=event)) if self.implements(hook) else None
        return Progress(tell, progress, model=self.model, session=self.session)

    def _listeners(self, hook_name: str) -> tuple[tuple[_Source, Any], ...]:
        if (callers := self._callers) is None:
            callers = self._load()
        if hook_name not in EXTENSION_HOOKS:
            raise InternalError(f"{hook_name!r} is not a hook of extensions")
        return callers.get(hook_name, ())

    def _load(self) -> _Callers:
        with self._lock:
            if self._callers is None:
                callers: _Callers = {}
                allowed, blocked = self._resolved.plugins, self._resolved.block
                for source in _sources():
                    if source.name not in blocked and (allowed is None or source.name in allowed):
                        callers = self._with(callers, source)
                self._callers = callers
            return self._callers

    def _with(self, callers: _Callers, source: _Source) -> _Callers:
        added = {hook: (*callers.get(hook, ()), (source, c)) for hook, c in self._load_one(source)}
        return callers | added

    def _load_one(self, source: _Source) -> list[tuple[str, Any]]:
        """Import one extension and return its hooks; an extension that fails has none."""
        if self._is_harmful(source):
            return []
        manager = hook_manager()  # of its own, so that a failure leaves nothing behind
        try:
            extension = source.get()
            manager.register(extension, name=source.name)
        except BaseException as error:  # noqa: BLE001 (the same)
            pass_on(error)
            self._report(source, "import", error)
            return []
        for hook_name in unknown_hooks(manager, extension):
            known = [*EXTENSION_HOOKS, *BACKEND_HOOKS]
            warn_user(messages.unknown_hook(source.label, hook_name, known))
        if defaulted := defaulted_arguments(manager, extension):
            problem = f"the hook implementation {defaulted[0]} declares a default"
            self._report(source, "import", TypeError(problem))
            return []
        callers = [(name, getattr(manager.hook, name)) for name in EXTENSION_HOOKS]
        return [(name, caller) for name, caller in callers if caller.get_hookimpls()]

    def _is_harmful(self, source: _Source) -> bool:
        """Have an installed extension that nobody named tried in a process of its own first."""
        plugin = source.entry_point
        if plugin is None or self._resolved.plugins is not None or plugin.dist is None:
            return False
        from subgraphkit.finding.child_probe import harm_of  # noqa: PLC0415 (few have extensions)

        harm = harm_of(plugin, plugin.dist.name, plugin.dist.version, self._resolved)
        if harm is not None and harm.is_news:
            warn_user(messages.extension_harmful(source.label, source.name, harm.code, harm.text))
        return harm is not None

    def _switch_off(self, source: _Source, hook_name: str, error: BaseException) -> None:
        self._report(source, hook_name, error)
        with self._lock:
            self._callers = {
                name: tuple(pair for pair in pairs if pair[0] is not source)
                for name, pairs in (self._callers or {}).items()
            }

    def _report(self, source: _Source, where: str, error: BaseException) -> None:
        if self._resolved.raise_plugin_errors:
            mark_as_plugin_error(error, f"extension {source.label}")
            raise error
        problem = describe_exception(error)
        warn_user(messages.extension_failed(source.label, where, problem))
