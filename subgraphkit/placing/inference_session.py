"""The whole road in one call, and the spec of such a call, which opens the same elsewhere."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self, Unpack, cast

from subgraphkit import bundling, placing
from subgraphkit.binding import Shapes
from subgraphkit.compiling import CompiledSubgraphs, compile_unproven
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.settings import OtherSettings
from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import Constraints, partition
from subgraphkit.placing.background import ImprovingSession
from subgraphkit.placing.outside import within_ceiling
from subgraphkit.placing.specs import (
    OpenCall,
    bound_by,
    carried_call,
    checked_members,
    digest_of,
    is_folder,
    locate_file,
    path_from,
    plain_json,
    read_members,
    write_spec,
)
from subgraphkit.planning import plan
from subgraphkit.running.messages import no_spec
from subgraphkit.viewing.progress import ShownAs, show_progress


class InferenceSession(ImprovingSession):
    """Load, bind, partition, compile, plan and be ready to run.

    Takes the place of ``onnxruntime.InferenceSession``: ``run``, ``get_inputs``, ``get_outputs``
    and ``io_binding`` are called the same way.

    Args:
        source: A path, the bytes of a model, an ``onnx.ModelProto``, a loaded ``Model``, or a
            subgraph (on its own backend, if you name none). Or the folder of a bundle that
            ``export`` wrote, which is opened as compiled.
        backend: Backends in order, such as ``"tensorrt,numpy"``; None for those of
            ``SUBGRAPH_BACKEND``, a context manager or a file.
        shapes: Values of named dimensions and shapes of inputs; see ``bind``. A bundle has its
            own.
        options: Options by backend name.
        constraints: Nodes pinned to backends or kept from them, as ``pin`` and ``keep_off`` do.
        trust: Whether to open a bundle that somebody else could have written; engines are run like
            programs.
        progress: The display of opening: a word of the setting ``progress``, such as ``"auto"``; a
            function of events; or a ``Progress``, which also stops it. None for the setting, which
            is nothing by default.
        **settings: Other settings, such as ``strict=True``.

    Raises:
        SubgraphkitError: Whatever a step of the road raises; see ``load``, ``bind``, ``partition``
            and ``compile_subgraphs``; for a bundle, see ``open_bundle``.

    With the setting ``build="background"`` the session answers at once, on a backend that opens
    quickly. Meanwhile a thread compiles for the others, and then exchanges all between two runs;
    see ``ready``, ``wait`` and ``status``. With ``tune="first"`` a session on ``auto`` opens on the
    placement that measures best. With ``tune="background"`` a child process measures while it runs,
    and the session takes over the winner; see ``tuning``.

    Ctrl-C ends compilation in any library, and so does the setting ``timeout_s`` (SGK135).

    Thread-safety: as ``Session``.
    """

    _bundle: str | None = None
    """The digest of the bundle that it was opened from."""

    def __init__(  # noqa: PLR0913 (each step of the road has its own)
        self,
        source: ModelSource | Model | Subgraph,
        backend: Any = None,
        shapes: Shapes | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        constraints: Constraints | None = None,
        trust: bool = False,
        progress: ShownAs = None,
        **settings: Unpack[OtherSettings],
    ) -> None:
        self._open(
            OpenCall(source, backend, shapes, options, constraints, trust, progress, settings)
        )

    def _open(self, call: OpenCall) -> None:
        self._call = call.to_remember()
        if is_folder(call.source):
            files = bundling.BundleFiles(Path(call.source), trust=call.trust)
            call.require(files.digest)
            given = call.backend, call.shapes, call.options, call.constraints
            super().__init__(bundling.open_bundle(files, *given, **call.settings))
            self._bundle = files.digest
            return
        bound, progress = bound_by(call)
        constraints = call.constraints
        tuning = "off"
        if bound.settings.tune != "off":
            tuning = placing.tuning_child.wanted_tuning(bound, constraints)
        start = None
        if bound.settings.build == "background" and tuning != "first":
            start = placing.background.starting_plan(bound, constraints)
        if start is not None:
            super().__init__(start)
            self._build = placing.background.BackgroundBuild(self, progress)
        else:
            with show_progress(progress) as visible:
                if tuning == "first":
                    found = placing.tuning_child.tune_in_child(bound, visible)
                else:
                    found = partition(bound, constraints=constraints)
                self._run_compiled(compile_unproven(found, progress=visible))
            if tuning != "background" and bound.settings.on_run_error != "fallback":
                self._let_go(call.source)
        if tuning == "background":
            before = None if self._build is None else self._build.wait
            self._tuning = placing.tuning_child.BackgroundTuning(
                self, call.source, call.shapes, before
            )

    def _run_compiled(self, compiled: CompiledSubgraphs) -> None:
        super().__init__(plan(compiled.origin, compiled))
        if compiled.cache is not None and compiled.cache.proofs.waiting:
            self._proof = placing.background.BackgroundProof(self, compiled.cache.proofs)

    def _let_go(self, source: object) -> None:
        """Leave the weights to the operators, unless the model is somebody else's as well."""
        model = self.graph.model
        if not isinstance(source, Model) and model.apart:
            model.let_go()

    @property
    def spec(self) -> "SessionSpec":
        """The means to open the same session in another process; see ``SessionSpec``.

        Raises:
            CallerError: It was opened from something that does not exist elsewhere, or its model or
                weights were changed since (SGK192).
        """
        call = self._call.require_plain()
        if self.weight_versions:
            fix = "Write it with session.export(), and open the bundle."
            raise no_spec("its weights were updated", fix)
        folders = self.graph.model.folders
        digest = self._bundle or (None if folders is None else folders.digest())
        if digest is None:
            problem = f"the file {call.source!r} is not the one that it was opened from any more"
            raise no_spec(problem, "Open the session again.")
        of_call = SessionSpec._of_call  # noqa: SLF001 (of the same module)
        return of_call(call, self.resolved_config, digest, warm_up=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the spec; unpickling or copying opens another session by it."""
        if type(self) is not InferenceSession:
            problem = f"it is a {type(self).__name__}, which derives from InferenceSession"
            raise no_spec(problem, "Send session.spec, and make one of it there.")
        return SessionSpec.open, (self.spec,)


@dataclass(frozen=True, eq=False)
class SessionSpec:
    """All that is needed to open a session in another process: where the model is, and how.

    It is small plain data without code and weights, so that any engine can send it. Two of the same
    content are equal. It holds the settings of this side. The call's win over a context manager's,
    the environment's and a file's, in this order. Other settings, such as the number of threads,
    are found out where the session is opened. ``cache_dir``, ``data_roots``, ``trusted_folders``
    and ``verbose`` describe this machine, so only the call's values are held. Options that name
    code are not taken from an untrusted file.

    Attributes:
        source: The path of a model or a bundle: from ``SUBGRAPH_MODEL_ROOT`` if it was below that,
            else as it was given. So there is no folder of yours in it unless you gave one.
        digest: The SHA-256 that the model's file must have when it is opened. With external data it
            is that of a JSON object with those of all files. For a bundle, it is that of its
            manifest.
        backend: The selection, ``"@FILE"`` for a plan file; None if nobody said, or for a bundle.
        shapes: Values of named dimensions and shapes of inputs.
        options: Options by backend name.
        settings: Other settings.
        trust: Whether to open a bundle that somebody else could have written.
        warm_up: Whether an opened session runs once before you get it, or the shapes for that run;
            see ``Session.warm_up``.

    Thread-safety: all methods may be called from any thread.
    """

    source: str
    digest: str
    backend: str | None = None
    shapes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    trust: bool = False
    warm_up: Any = False
    _text: str = field(init=False, repr=False)
    _key: str = field(init=False, repr=False)  # the text; another if it came as JSON

    def __post_init__(self) -> None:
        """Take copies of mutable values, and check kinds."""
        for name, value in checked_members(self._members()).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_text", self.to_json())
        object.__setattr__(self, "_key", self._text)

    @classmethod
    def of(  # noqa: PLR0913 (those of InferenceSession)
        cls,
        source: str | os.PathLike[str],
        backend: Any = None,
        shapes: Shapes | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        constraints: Constraints | None = None,
        trust: bool = False,
        progress: str | None = None,
        warm_up: bool | Shapes = False,
        root: str | os.PathLike[str] | None = None,
        **settings: Unpack[OtherSettings],
    ) -> Self:
        """Return the spec of the session that ``InferenceSession`` opens with these arguments.

        The model is read and hashed, and nothing compiled.

        Args:
            source: The path of a model or of a bundle.
            backend: As ``InferenceSession`` takes it, but no class or object.
            shapes: As there.
            options: As there.
            constraints: As there, but no functions.
            trust: As there.
            progress: As there, a word.
            warm_up: Whether a session runs once before it is handed out; or the sizes of named
                dimensions and shapes of inputs for that run.
            root: The folder that ``source`` is named from; None for ``SUBGRAPH_MODEL_ROOT``.
            **settings: As there.

        Raises:
            CallerError: Something of it cannot be sent (SGK192).
            SubgraphkitError: As ``load``; for a bundle, as ``InferenceSession``.
        """
        call = OpenCall(source, backend, shapes, options, constraints, trust, progress, settings)
        call = call.to_remember().require_plain()
        told: Any = {"model_root": root, "progress": progress}
        resolved = resolve(backend=backend, options=options, **settings, **told)
        if (digest := digest_of(call)) is None:
            raise no_spec(f"{os.fspath(source)!r} is no file that stays as it is", "Copy it first.")
        return cls._of_call(call, resolved, digest, warm_up=warm_up)

    @classmethod
    def _of_call(
        cls, call: OpenCall, settings: ResolvedConfig, digest: str, *, warm_up: bool | Shapes
    ) -> Self:
        """Return the spec of a call; CallerError (SGK192) if something of it cannot be sent."""
        root = settings.model_root
        carried = carried_call(call, settings)
        source = path_from(call.source, root)
        shapes = plain_json(call.shapes or {}, "shapes")
        return cls(source, digest, shapes=shapes, trust=call.trust, warm_up=warm_up, **carried)

    def open(self, *, root: str | os.PathLike[str] | None = None) -> InferenceSession:
        """Open a session.

        Args:
            root: The folder that ``source`` is in; None for ``SUBGRAPH_MODEL_ROOT``, and without
                that the working directory.

        Raises:
            CallerError: The model is another than when the spec was made (SGK194).
            ConfigError: The spec came as JSON, and asks for more than it may (SGK126).
            SubgraphkitError: As ``InferenceSession``.
        """
        here = resolve(model_root=None if root is None else Path(root))
        folder, settings, backend = here.model_root, dict(self.settings), self.backend
        if backend is not None and backend.startswith("@"):
            backend = f"@{locate_file(backend[1:], folder)}"
        session = InferenceSession.__new__(InferenceSession)
        call = OpenCall(
            locate_file(self.source, folder),
            backend,
            dict(self.shapes) or None,
            dict(self.options) or None,
            None,
            self.trust,
            settings.pop("progress", None),
            cast("OtherSettings", settings),
            self.digest,
        )
        session._open(within_ceiling(call, here) if self._key != self._text else call)  # noqa: SLF001 (of the same module)
        if self.warm_up:
            session.warm_up(None if self.warm_up is True else self.warm_up)
        return session

    def get(self, *, root: str | os.PathLike[str] | None = None) -> InferenceSession:
        """Return the session of this process for this spec, which is opened when first asked for.

        All callers share it, from any thread. A forked child opens its own, and so does a caller
        after it was closed.

        Args:
            root: As for ``open``, where it is opened.

        Raises:
            SubgraphkitError: As ``open``; the next caller tries again.
        """
        session = _OPENED.get(self._key)
        if session is None or session._closed:  # noqa: SLF001 (of the same module)
            with _LOCKS.setdefault(self._key, threading.Lock()):
                session = _OPENED.get(self._key)
                if session is None or session._closed:  # noqa: SLF001 (of the same module)
                    session = _OPENED[self._key] = self.open(root=root)
        return session

    def release(self) -> None:
        """Close the session that ``get`` returns, if it is open; nobody can run it any more."""
        if (session := _OPENED.pop(self._key, None)) is not None:
            session.close()

    def to_json(self) -> str:
        """Return the spec as JSON, which ``from_json`` reads."""
        return write_spec(self._members())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a spec, for which limits and isolation that this process sets are a ceiling.

        It names no code and no trust unless the setting ``trust_specs`` is set.

        Raises:
            ConfigError: It is none, has members that are unknown, or was written by a newer
                version (SGK193).
        """
        made = cls._of_text(text)
        object.__setattr__(made, "_key", f"JSON: {made.to_json()}")
        return made

    @classmethod
    def _of_text(cls, text: str | bytes) -> Self:
        return cls(**read_members(text, [one.name for one in fields(cls) if one.init]))

    def _members(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionSpec) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        read = SessionSpec.from_json if self._key != self._text else SessionSpec._of_text
        return read, (self._text,)


_OPENED: Final[dict[str, InferenceSession]] = {}
"""The sessions of this process that specs opened, by the key of the spec."""
_LOCKS: Final[dict[str, threading.Lock]] = {}

if hasattr(os, "register_at_fork"):  # ``running.gate`` keeps the opened session alive
    os.register_at_fork(after_in_child=_OPENED.clear)
    os.register_at_fork(after_in_child=_LOCKS.clear)
