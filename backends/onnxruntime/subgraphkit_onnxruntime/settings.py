"""The options of the backend, and the ONNX Runtime sessions they ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from subgraphkit.backend import Progress, option_out_of_range
from subgraphkit.errors import BackendUnavailableError, OptionError
from subgraphkit_onnxruntime.backend_options import Options
from subgraphkit_onnxruntime.library import onnxruntime, small_model
from subgraphkit_onnxruntime.weights import HandedWeights

NAME: Final = "onnxruntime"
"""Name of the backend."""

_CANCEL: Final = "set_load_cancellation_flag"

_SUFFIX: Final = "ExecutionProvider"
_CPU: Final = "CPUExecutionProvider"
_CUDA: Final = "CUDAExecutionProvider"
STREAM: Final = "user_compute_stream"
DEFAULT_STREAM: Final = "1"

_EXACT: Final = {"session.x64quantprecision": "1"}
"""Lets products of 8-bit numbers be exact. Without it, ONNX Runtime adds them up in 16 bits on x64
processors that lack VNNI, and what does not fit is cut off. With VNNI it makes them slower."""

_LEVEL: Final = "session.qdq_matmulnbits_accuracy_level"
"""In what ONNX Runtime computes products with dequantized weights: by itself in 4, eight bits, to
which it rounds the other factor too; in 1, fractions, unless the user says otherwise."""

_LEFT_OUT: Final = "optimization.disable_specified_optimizers"
_ROUGH: Final = "DoubleQDQPairsRemover;WeightBiasQuantization"
"""Makes one step of two sizes of step, and rounds weights and biases that are fractions."""
_UNMOVED: Final = {_LEFT_OUT: f"{_ROUGH};QDQPropagationTransformer"}
"""Leaves QuantizeLinear and DequantizeLinear where they are, around operators on fractions."""

_LEVELS: Final = {
    "none": "ORT_DISABLE_ALL",
    **{level: f"ORT_ENABLE_{level.upper()}" for level in ("basic", "extended", "all")},
}
_QUIET: Final = {"session.force_spinning_stop": "1", "session.intra_op.spin_duration_us": "100"}
"""Makes threads sleep when a run is over. Otherwise each waits for the next by spinning for tens of
milliseconds, on a processor that another backend may be computing on. Between two operators of a
run they do spin, because to wake them there takes longer than most operators, but for no longer
than that pays; versions that do not know the second entry pass over it."""

_MODES: Final = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}
_SEVERITIES: Final = {"verbose": 0, "info": 1, "warning": 2, "error": 3, "fatal": 4}


@dataclass(frozen=True)
class SessionSettings:
    """The settings that every session of a bind has in common."""

    providers: tuple[str, ...]
    provider_options: tuple[Mapping[str, str], ...]
    options: Options = field(repr=False)
    config: Mapping[str, str]

    @property
    def key(self) -> tuple[Any, ...]:
        """The settings that decide whether a node can run; equal keys may share answers."""
        by_provider = tuple(tuple(sorted(given.items())) for given in self.provider_options)
        return self.providers, by_provider, tuple(sorted(self.config.items()))

    @property
    def is_on_processors(self) -> bool:
        """Whether nothing but processors may run a node."""
        return self.providers == (_CPU,)

    @property
    def rounds_factors(self) -> bool:
        """Whether the user wants fractions rounded where they meet dequantized weights."""
        return self.config[_LEVEL] == "4"

    def for_pool(self, threads: int | None, *, shares_processors: bool) -> "SessionSettings":
        """Return the settings for sessions that may use so many threads.

        ``threads``: How many threads to compute with where the options do not say; None leaves it
        to ONNX Runtime.
        ``shares_processors``: Whether no thread may spin after a run; entries of the user's win.
        """
        own, least = self.options, threads or 0
        counts = own.threads or least, own.inter_op_threads or least
        options = replace(own, threads=counts[0], inter_op_threads=counts[1])
        config = {**(_QUIET if shares_processors else {}), **self.config}
        return replace(self, options=options, config=config)

    def with_exact_products(self) -> "SessionSettings":
        """Return the settings for sessions whose products of 8-bit numbers would be cut off."""
        return replace(self, config={**_EXACT, **self.config})

    def without_moving(self) -> "SessionSettings":
        """Return the settings for sessions in which steps are not carried into bodies."""
        return replace(self, config={**self.config, **_UNMOVED})

    def without_joining(self) -> "SessionSettings":
        """Return the settings for sessions that run quantized operators on fractions."""
        return replace(self, config={"session.disable_quant_qdq": "1", **self.config})

    def open(
        self,
        model: bytes,
        weights: HandedWeights,
        profile: str = "",
        progress: Progress | None = None,
    ) -> Any:
        """Open an ``onnxruntime.InferenceSession`` that never changes its providers by itself.

        A provider that does not load is a BackendUnavailableError (SGK104).
        """
        chosen = self._session_options()
        chosen.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if profile:
            chosen.enable_profiling = True
            chosen.profile_file_prefix = profile
        weights.hand_to(chosen, shared=self.is_on_processors)
        if progress is None or not hasattr(chosen, _CANCEL):
            return self._open(model, chosen)
        with progress.stopping(partial(getattr(chosen, _CANCEL), True)):  # noqa: FBT003 (its own)
            return self._open(model, chosen)

    def open_quickly(self, model: bytes) -> Any:
        """Open a session that is to be asked, not run: nothing is optimised or printed."""
        chosen = self._session_options()
        levels = onnxruntime().GraphOptimizationLevel
        chosen.graph_optimization_level = levels.ORT_DISABLE_ALL  # what runs is not what matters
        chosen.intra_op_num_threads = chosen.inter_op_num_threads = 1
        chosen.log_severity_level = _SEVERITIES["fatal"]
        return self._open(model, chosen)

    def _session_options(self) -> Any:
        library, options = onnxruntime(), self.options
        chosen = library.SessionOptions()
        chosen.intra_op_num_threads = options.threads
        chosen.inter_op_num_threads = options.inter_op_threads
        level, mode = _LEVELS[options.optimization], _MODES[options.execution_mode]
        chosen.graph_optimization_level = getattr(library.GraphOptimizationLevel, level)
        chosen.execution_mode = getattr(library.ExecutionMode, mode)
        chosen.log_severity_level = _SEVERITIES[options.log_level]
        chosen.enable_cpu_mem_arena = options.arena
        if not options.prepack:
            chosen.add_session_config_entry("session.disable_prepacking", "1")
        for key, value in self.config.items():
            chosen.add_session_config_entry(key, value)
        return chosen

    def _open(self, model: bytes, chosen: Any) -> Any:
        given = [dict(one) for one in self.provider_options]
        how = {"providers": list(self.providers), "provider_options": given, "enable_fallback": 0}
        session = onnxruntime().InferenceSession(model, chosen, **how)
        missing = [name for name in self.providers if name not in session.get_providers()]
        if missing:
            raise BackendUnavailableError(
                "SGK104",
                f"backend {NAME!r} cannot run here: ONNX Runtime has {', '.join(missing)} but "
                f"could not load it, and would run on {', '.join(session.get_providers())}",
                backend=NAME,
                hint="Install the libraries the provider needs, or take it out of the option "
                "'providers'. log_level=warning shows what ONNX Runtime says about it.",
            )
        return session


def read_settings(options: Options) -> SessionSettings:
    """Check the options against the build of ONNX Runtime that is installed.

    Raises:
        OptionError: A provider is not in this build or named twice, an entry is not ``key=value``,
            or there is no folder for the profile (SGK112).
        BackendUnavailableError: A provider is in the build but does not load (SGK104).
    """
    profile = options.profile
    if profile and not profile.absolute().parent.is_dir():
        raise _out_of_range("profile", str(profile), "a prefix in a folder that exists")
    providers = _providers(options.providers)
    given: dict[str, dict[str, str]] = {name: {} for name in providers}
    for key, value in _entries("provider_options", options.provider_options).items():
        provider, dot, rest = key.partition(".")
        name = _full_name(provider, providers) if dot else providers[0]
        if name is None:
            expected = f"options of {', '.join(map(_short_name, providers))}"
            raise _out_of_range("provider_options", f"{key}={value}", expected)
        given[name][rest if dot else key] = value
    if providers[0] == _CUDA:  # see ``tensors``
        given[_CUDA].setdefault(STREAM, DEFAULT_STREAM)
    config = {_LEVEL: "1", _LEFT_OUT: _ROUGH, **_entries("session_config", options.session_config)}
    settings = SessionSettings(providers, tuple(given.values()), options, config)
    if providers != (_CPU,):
        settings.open_quickly(small_model())  # what does not load is then known at once
    return settings


def _providers(words: Sequence[str]) -> tuple[str, ...]:
    available = onnxruntime().get_available_providers()
    found = []
    for word in words or (_CPU,):
        name = _full_name(word, available)
        if name is None or name in found:
            has = ", ".join(map(_short_name, available))
            expected = f"one of what this build of ONNX Runtime has, each once: {has}"
            raise _out_of_range("providers", word, expected)
        found.append(name)
    return tuple(found)


def _full_name(word: str, names: Sequence[str]) -> str | None:
    wanted = word.lower().removesuffix(_SUFFIX.lower())
    return next((name for name in names if name.lower() == f"{wanted}{_SUFFIX.lower()}"), None)


def _short_name(name: str) -> str:
    return name.removesuffix(_SUFFIX).lower()


def _entries(option: str, items: Sequence[str] | None) -> dict[str, str]:
    entries = {}
    for item in items or ():
        key, equals, value = (part.strip() for part in item.partition("="))
        if not key or not equals or key in entries:
            raise _out_of_range(option, item, "entries key=value, each key once")
        entries[key] = value
    return entries


def _out_of_range(option: str, given: str, expected: str) -> OptionError:
    return option_out_of_range(NAME, option, repr(given), expected)
