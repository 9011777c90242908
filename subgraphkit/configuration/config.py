"""The configuration: layers from call to default, and where each value came from.

Call argument > ``with config(...)`` > ``config.set(...)`` > environment > project file > user
file > default. ``backend`` replaces as a whole, ``options`` merge option by option, ``block`` adds
up. Everything outside the process is read when ``resolve`` is called and never at import.

Threads: ``with config(...)`` holds for the current context. asyncio tasks inherit it; a plain
thread does not (before Python 3.14), so call its function with ``contextvars.copy_context().run``.
``config.set`` holds for all threads.
"""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Unpack

from subgraphkit.backend.options import Option
from subgraphkit.configuration.demands import EVERYBODY, Pin
from subgraphkit.configuration.files import read_config_files, require_trust, untrusted_setting
from subgraphkit.configuration.layers import Layer, default_layer, make_layer, read_environment
from subgraphkit.configuration.names import BACKEND_NAMES
from subgraphkit.configuration.selection import AUTO, BackendChoice, strip_number
from subgraphkit.configuration.settings import SETTINGS, SettingValues
from subgraphkit.limits import LoadLimits

_USUAL_FALLBACK: Final = "numpy"
_context_layers: ContextVar[tuple[Layer, ...]] = ContextVar("subgraphkit_config", default=())


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The settings of one bind; every value knows its origin.

    Attributes:
        backends: The backends to use, in the order of claiming; empty for ``none``.
        strict: Whether every node must be claimed by one of them.
        on_missing: What to do if one of them cannot be used.
        fallback: Name of the backend that runs unclaimed nodes, or ``"none"``. It is ``"auto"`` if
            none was given and numpy is not installed.
        on_fallback: The reaction if a named backend gets little or was left out, or work goes to a
            fallback that you did not name.
        require: By backend, the least share of a model's work that it must take, 0 to 1.
        pin: Nodes that a backend must take, each with the backend.
        keep_off: Nodes that a backend must not take, each with the backend.
        on_unsupported: What to do if a backend gives nodes back while compiling.
        on_compile_error: What to do if a backend fails to compile a subgraph.
        on_run_error: What to do if a subgraph fails while running.
        checked: Whether dtype and shape of operators' results are checked.
        nan_policy: What to do where a backend makes a number of NaN.
        fold: Whether nodes that are known at bind are computed then, and copies leave.
        outputs: The values that are returned in place of the model's outputs; empty for these.
        block: Backends and extensions never to use.
        plugins: The only extensions to load, or None for all.
        cache: Whether compiled engines are kept.
        cache_dir: Where they are kept, or None if nobody said.
        cache_size: How many bytes of engines are kept at most.
        threads: How many threads a run computes with, on every backend; None leaves it to each.
        max_memory: How many bytes a session may take in memory; None for no limit.
        limits: What a model may ask for while it is opened, and how large its values may be.
        tune: Whether and when a session on ``auto`` measures for the best backends.
        tune_seconds: About how long to measure.
        max_error: The relative L2 error that outputs may have where shorter floats are quicker; 0
            keeps float32.
        build: Whether a session is built before it answers.
        timeout_s: How many seconds compiling a model may take; None for as long as it takes. How
            long a run may take is an argument of ``run``.
        isolate: Backends in a child process; ``"process"`` stands for all.
        progress: How a session that opens shows how far it is.
        data_roots: Folders in or below which a model may have external data, beside its own.
        model_root: The folder in which the models of specs are looked for; None if nobody said.
        trusted_folders: Folders in or below which a file may name code and widen trust.
        trust_specs: Whether specs that came as JSON may name code and widen trust.
        verbose: How much to log to standard error: 1 warnings, 2 events as well, 3 everything.
        raise_plugin_errors: Whether errors of plugins are raised at once, as they are.
        sources: By setting, the layer and the location of its value.
        option_sources: By backend and option, the value as written, its layer and location.
        unvouched: The folder of the project's file, if nobody vouches for it; see ``trust``.
        unheeding: Backends with subgraphs in the session that do not promise to obey ``threads``;
            known from a session on.
    """

    backends: tuple[BackendChoice, ...]
    strict: bool
    on_missing: Literal["error", "warn"]
    fallback: str
    on_fallback: Literal["warn", "ok", "error"]
    require: Mapping[str, float]
    pin: tuple[Pin, ...]
    keep_off: tuple[Pin, ...]
    on_unsupported: Literal["repartition", "raise"]
    on_compile_error: Literal["raise", "fallback"]
    on_run_error: Literal["raise", "fallback"]
    checked: bool
    nan_policy: Literal["warn", "ignore", "propagate", "error"]
    fold: bool
    outputs: tuple[str, ...]
    block: frozenset[str]
    plugins: frozenset[str] | None
    cache: bool
    cache_dir: Path | None
    cache_size: int
    threads: int | None
    max_memory: int | None
    limits: LoadLimits
    tune: Literal["off", "first", "background"]
    tune_seconds: float
    max_error: float
    build: Literal["now", "background"]
    timeout_s: float | None
    isolate: frozenset[str]
    progress: Literal["none", "auto", "log"]
    data_roots: tuple[Path, ...]
    model_root: Path | None
    trusted_folders: tuple[Path, ...]
    trust_specs: bool
    verbose: int
    raise_plugin_errors: bool
    sources: Mapping[str, tuple[str, str]]
    option_sources: Mapping[str, Mapping[str, tuple[Any, str, str]]]
    unheeding: tuple[str, ...] = ()
    unvouched: Path | None = None

    def options_for(
        self, name: str, schema: Iterable[Option] = ()
    ) -> Mapping[str, tuple[Any, str]]:
        """Return the option values given for a backend, as written, each with its source.

        ``schema``: Its options; a file nobody vouches for must give none of those that need trust
        (ConfigError, SGK126).
        """
        entries = self.option_sources.get(name, {})
        for option in schema:
            given = entries.get(option.name) if option.needs_trust else None
            if given and given[1] == "file" and self.unvouched is not None:
                raise untrusted_setting(given[2], self.unvouched)
        return {key: (value, location) for key, (value, _, location) in entries.items()}

    @property
    def auto(self) -> BackendChoice | None:
        """The choice ``auto``, with a plan or without, where it is all of the selection."""
        names = [one.name for one in self.backends]
        return self.backends[0] if names == [AUTO] else None

    def isolates(self, backend: str) -> bool:
        """Say whether a backend compiles and runs in a child process."""
        names = {backend, strip_number(backend), EVERYBODY} if self.isolate else ()
        return not self.isolate.isdisjoint(names)

    def selecting(
        self, choices: tuple[BackendChoice, ...], layer: str, location: str
    ) -> "ResolvedConfig":
        """Return the settings with other backends; the options chosen with them win."""
        options: dict[str, Mapping[str, tuple[Any, str, str]]] = dict(self.option_sources)
        if self.unvouched is not None and self.sources["backend"][0] == "file":
            layer = "file"  # files that it refers to are as trusted as itself
        for one in choices:
            given = {key: (value, layer, one.origin) for key, value in one.options.items()}
            everywhere = self.option_sources.get(one.backend, {}) if one.backend != one.name else {}
            if given or everywhere:
                before = options.get(one.name, {})
                options[one.name] = MappingProxyType({**everywhere, **before, **given})
        return replace(
            self,
            backends=choices,
            sources=MappingProxyType({**self.sources, "backend": (layer, location)}),
            option_sources=MappingProxyType(options),
        )

    def items(self) -> Iterator[tuple[str, Any, str, str]]:
        """Yield (key, value, layer, location) for every setting and every option given."""
        for key, (layer, location) in self.sources.items():
            value = self.backends if key == "backend" else getattr(self, key)
            yield key, value, layer, location
        for backend in sorted(self.option_sources):
            for key, (value, layer, location) in self.option_sources[backend].items():
                yield f"options.{backend}.{key}", value, layer, location
        for backend in self.unheeding:
            why = f"backend {backend!r} does not say that it obeys"
            yield f"threads.{backend}", "as it likes", "backend", why

    def as_table(self) -> list[tuple[str, str, str, str]]:
        """Return ``items`` as text, for people."""
        return [(key, _text(value), layer, where) for key, value, layer, where in self.items()]


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        value = tuple(f"{key}={one}" for key, one in value.items())
    if isinstance(value, tuple | frozenset):
        listed = sorted(value) if isinstance(value, frozenset) else map(str, value)
        return ",".join(listed) or "none"
    return "" if value is None else str(value)


def resolve(**settings: Unpack[SettingValues]) -> ResolvedConfig:
    """Find the settings of one bind, from the call down to the defaults.

    Environment and files are read now.

    Args:
        **settings: What the call says; None leaves a setting to the layers below.

    Raises:
        ConfigError: If any layer says something that cannot be (SGK107, SGK108, SGK109, SGK114).

    Warns:
        SubgraphkitWarning: If the environment has a ``SUBGRAPH_*`` variable that means nothing
            (SGK114).
    """
    call = make_layer("call", settings, _locating("argument {}", "the arguments"))
    layers = [call, *reversed(_context_layers.get()), *config.process_layers()]
    environment = read_environment(os.environ, lambda: _names(layers))
    files = read_config_files(os.environ, Path.cwd())
    return _merge([*layers, environment, *files, default_layer()])


def _names(layers: list[Layer]) -> frozenset[str]:
    """Return all names of backends, those given as classes or instances among them."""
    chosen = [layer.values["backend"].value for layer in layers if "backend" in layer.values]
    return BACKEND_NAMES.known_names() | {choice.name for choices in chosen for choice in choices}


def _locating(place: str, whole: str) -> Callable[[str, object], str]:
    """Return a function that says where a setting was given, or all of them."""
    return lambda key, value: place.format(f"{key}={value!r}") if key else whole


def _merge(layers: list[Layer]) -> ResolvedConfig:
    values: dict[str, Any] = {}
    sources: dict[str, tuple[str, str]] = {}
    saying: dict[str, list[Layer]] = {name: [] for name in SETTINGS}
    for layer in layers:
        for name in layer.values:
            saying[name].append(layer)
    for name, setting in SETTINGS.items():
        said = saying[name]
        values[name] = said[0].values[name].value
        sources[name] = said[0].name, said[0].values[name].location
        if setting.union:
            said = said[:-1] or said  # the default adds nothing to given values
            values[name] = frozenset().union(*(layer.values[name].value for layer in said))
            locations = [layer.values[name].location for layer in said]
            sources[name] = said[0].name, "; ".join(locations)
    folder = require_trust(layers, values)
    if values["fallback"] == AUTO and BACKEND_NAMES.is_installed(_USUAL_FALLBACK):
        values["fallback"] = _USUAL_FALLBACK
    return ResolvedConfig(
        backends=values.pop("backend"),
        sources=MappingProxyType(sources),
        option_sources=_merge_options(layers),
        unvouched=folder,
        **values,
    )


def _merge_options(layers: list[Layer]) -> Mapping[str, Mapping[str, tuple[Any, str, str]]]:
    merged: dict[str, dict[str, tuple[Any, str, str]]] = {}
    names: dict[str, list[str]] = {}  # of a backend that was chosen several times
    selecting = next(one for one in layers if "backend" in one.values)
    for choice in selecting.values["backend"].value:
        names.setdefault(choice.backend, []).append(choice.name)
    for layer in reversed(layers):
        for backend, entries in layer.options.items():
            for name, (key, entry) in product(names.get(backend, [backend]), entries.items()):
                merged.setdefault(name, {})[key] = entry.value, layer.name, entry.location
        # options in the selection are more particular than those beside it
        if layer is selecting:
            for choice in layer.values["backend"].value:
                for key, value in choice.options.items():
                    merged.setdefault(choice.name, {})[key] = value, layer.name, choice.origin
    return MappingProxyType({name: MappingProxyType(entries) for name, entries in merged.items()})


class ConfigUndo(ExitStack):
    """Undoes one ``config.set``: call it, or use it as a context manager.

    Others that are set meanwhile stay, in any order of undoing.
    """

    def __call__(self) -> None:
        """Take the settings back."""
        self.close()


class Config:
    """The way to say settings in Python; ``subgraphkit.config`` is the only instance.

    Thread-safety: all methods may be called from any thread; see the module for their views.

    Example:
        >>> with config(strict=True):
        ...     resolve().strict
        True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: tuple[Layer, ...] = ()

    @contextmanager
    def __call__(self, **settings: Unpack[SettingValues]) -> Iterator[None]:
        """Make settings hold inside a ``with`` block; blocks nest, the inner one wins.

        Raises:
            ConfigError: If a setting cannot be read (SGK107, SGK108, SGK114).
        """
        layer = make_layer("context", settings, _locating("config({})", "config(...)"))
        token = _context_layers.set((*_context_layers.get(), layer))
        try:
            yield
        finally:
            _context_layers.reset(token)

    def set(self, **settings: Unpack[SettingValues]) -> ConfigUndo:
        """Make settings hold in the whole process, until the returned object is called.

        Raises:
            ConfigError: If a setting cannot be read (SGK107, SGK108, SGK114).
        """
        locate = _locating("config.set({})", "config.set(...)")
        layer = make_layer("process", settings, locate)

        def undo() -> None:
            with self._lock:
                self._process = tuple(one for one in self._process if one is not layer)

        with self._lock:
            self._process = (*self._process, layer)
        undone = ConfigUndo()
        undone.callback(undo)
        return undone

    def process_layers(self) -> list[Layer]:
        """Return the settings of ``set``, the latest first."""
        with self._lock:
            return list(reversed(self._process))

    @staticmethod
    def resolve(**settings: Unpack[SettingValues]) -> ResolvedConfig:
        """Find the settings for a bind here and now; see ``resolve``."""
        return resolve(**settings)


config: Final = Config()
"""The configuration of this process: ``with config(strict=True): ...``."""


def plain_settings(settings: ResolvedConfig, without: Collection[str]) -> dict[str, Any]:
    """Return the settings of a bind by name, those left out that nobody gave."""
    values = {name: getattr(settings, name) for name in SETTINGS if name not in without}
    return {name: plain_value(value) for name, value in values.items() if value not in (None, ())}


def plain_options(settings: ResolvedConfig) -> dict[str, dict[str, Any]]:
    """Return the option values as written, by backend and option."""
    return {
        name: {key: plain_value(value) for key, (value, *_) in entries.items()}
        for name, entries in settings.option_sources.items()
    }


def changed_options(backend: Any) -> dict[str, Any]:
    """Return the options of a backend that are not at their defaults, by name, as plain data."""
    values = (
        (one, getattr(backend.option_values, one.name, one.default)) for one in backend.options
    )
    return {one.name: plain_value(value) for one, value in values if value != one.default}


def plain_value(value: Any) -> Any:
    """Return a value as JSON can hold it and the settings can read it again."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, frozenset | list | tuple):
        return [plain_value(one) for one in value]
    return value if isinstance(value, str | int | float | None) else str(value)
