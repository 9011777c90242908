"""ONNX Runtime's session over ours."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from subgraphkit.compat.onnxruntime.exceptions import their_errors
from subgraphkit.compat.onnxruntime.options import (
    ModelMetadata,
    RunOptions,
    SessionOptions,
    no_equivalent,
)
from subgraphkit.compat.onnxruntime.providers import Provider, asked_for, providers_of, selection_of
from subgraphkit.compat.onnxruntime.values import IOBinding, OrtValue, unwrap, wrap
from subgraphkit.configuration.config import resolve
from subgraphkit.placing import InferenceSession as _InferenceSession
from subgraphkit.running.feeds import NodeArg
from subgraphkit.types import TensorType

_IGNORED: Final = frozenset({"disabled_optimizers", "enable_fallback", "read_config_from_model"})
_PROFILE: Final = "Measure with 'subgraphkit bench', or watch runs with an observer."


class InferenceSession:
    """Opens a model and runs it; ONNX Runtime's signatures.

    ``path_or_bytes``: A path or the bytes of a model, anything else that ``subgraphkit.load``
    takes, or the folder of a bundle.

    Raises:
        SubgraphkitError: As ``subgraphkit.InferenceSession``; each is of the class that ONNX
            Runtime would raise as well, such as ``NoSuchFile``.

    Thread-safety: every method but ``set_providers`` may be called from any thread.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **others: Any,
    ) -> None:
        if unknown := others.keys() - _IGNORED:
            raise TypeError(f"InferenceSession has no argument {min(unknown)!r}")
        is_path = isinstance(path_or_bytes, str | os.PathLike)
        self._model_path = os.fspath(path_or_bytes) if is_path else None
        self._sess_options = sess_options or SessionOptions()
        self._open(path_or_bytes, providers, provider_options)

    def _open(
        self,
        source: Any,
        providers: Sequence[Provider] | None,
        provider_options: Sequence[Mapping[str, Any]] | None,
    ) -> None:
        asked = asked_for(providers, provider_options)
        selection = selection_of(asked)
        resolved = resolve(backend=selection)
        options = {}
        for choice in resolved.backends:
            said = {*choice.options, *resolved.option_sources.get(choice.name, ())}
            told = self._sess_options.options_for(choice.name)
            options[choice.name] = {key: one for key, one in told.items() if key not in said}
        self._asked = asked
        threads_unset = resolved.sources.get("threads", ("default",))[0] == "default"
        with their_errors():
            self._inner = _InferenceSession(
                source,
                selection,
                dict(self._sess_options.sizes) or None,
                {name: told for name, told in options.items() if told} or None,
                threads=self._sess_options.threads if threads_unset else None,
            )

    @property
    def inner(self) -> _InferenceSession:
        """The session of subgraphkit."""
        return self._inner

    # -- what it is --------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """Describe the inputs that must be fed."""
        return self._inner.get_inputs()

    def get_outputs(self) -> list[NodeArg]:
        """Describe the outputs."""
        return self._inner.get_outputs()

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Describe the inputs that have a default."""
        return self._inner.get_overridable_initializers()

    def get_modelmeta(self) -> ModelMetadata:
        """Return the facts that the model states about itself."""
        return ModelMetadata.of(self._inner.graph.model.proto)

    def get_session_options(self) -> SessionOptions:
        """Return the options the session was made with."""
        return self._sess_options

    def get_providers(self) -> list[str]:
        """Return the providers in use: names for the backends that were opened."""
        return providers_of(self._asked, self._inner.partitioning.backends)

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """Return the options that were given for each provider in use."""
        return {name: dict(self._asked.options.get(name, {})) for name in self.get_providers()}

    def set_providers(
        self,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Open the model again on other providers; not while it runs.

        CallerError (SGK114) for a bundle, which has its backends; else as for a new session. The
        old one stays if that fails.
        """
        before = self._inner
        if self._model_path is not None and Path(self._model_path).is_dir():
            raise no_equivalent("set_providers of a bundle", "Open the model it was made of.")
        self._open(before.graph.model, providers, provider_options)
        before.close()

    def enable_fallback(self) -> None:
        """Do nothing: see the setting ``on_run_error``."""

    disable_fallback = enable_fallback

    def end_profiling(self) -> str:
        """Refuse (SGK114): there is no such profile."""
        raise no_equivalent("end_profiling", _PROFILE)

    def get_profiling_start_time_ns(self) -> int:
        """Refuse (SGK114): there is no such profile."""
        raise no_equivalent("get_profiling_start_time_ns", _PROFILE)

    # -- running -----------------------------------------------------------------------------

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Compute outputs, as ``subgraphkit.Session.run``; lists are taken for arrays."""
        _check(run_options)
        feeds = {name: self._array(name, value) for name, value in input_feed.items()}
        with their_errors():
            return self._inner.run(output_names, feeds, run_options)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Compute outputs in another thread, and call back from there."""
        _check(run_options)

        def work() -> None:
            problem, results = "", []
            try:
                results = self.run(output_names, input_feed, run_options)
            except Exception as error:  # noqa: BLE001 (handed to the callback)
                problem = str(error)
            callback(results, user_data, problem)

        threading.Thread(target=work, name="subgraphkit-run-async").start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Compute outputs as ``OrtValue`` from inputs of that class."""
        return [wrap(one) for one in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """Return an empty binding."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run with the inputs and into the outputs of a binding."""
        _check(run_options)
        with their_errors():
            self._inner.run_with_iobinding(iobinding, run_options)

    def _array(self, name: str, value: Any) -> Any:
        if not isinstance(value, list | tuple | int | float | str):
            return unwrap(value)
        type_ = self._inner.graph.types.get(name)
        if not isinstance(type_, TensorType):
            return value
        return np.asarray(value, type_.dtype.numpy)


def _check(run_options: RunOptions | None) -> None:
    if isinstance(run_options, RunOptions):
        run_options.check()
