"""The whole road in one call."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from subgraphkit.binding import Shapes, bind
from subgraphkit.bundling import BundleCall, open_bundle
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.configuration.settings import OtherSettings
from subgraphkit.loading import load
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.partitioning import Constraints, partition
from subgraphkit.placing.background import (
    BackgroundBuild,
    SubgraphStatus,
    starting_plan,
    statuses,
)
from subgraphkit.placing.tuning_child import BackgroundTuning, tuned, wanted_tuning
from subgraphkit.planning import plan
from subgraphkit.running.onnxruntime_words import refuse_arguments
from subgraphkit.running.session import Session
from subgraphkit.viewing.progress import ShownAs, shown

__all__ = ["InferenceSession"]


class InferenceSession(Session):
    """Load, bind, partition, compile, plan and be ready to run.

    Takes the place of ``onnxruntime.InferenceSession``: ``run``, ``get_inputs``, ``get_outputs``
    and ``io_binding`` are called the same way.

    Args:
        source: A path, the bytes of a model, an ``onnx.ModelProto``, a loaded ``Model``, or the
            folder of a bundle that ``export`` wrote, which is opened as it was compiled.
        backend: Backends in order, such as ``"tensorrt,numpy"`` or ``["tensorrt", "numpy"]``; None
            for what ``SUBGRAPH_BACKEND``, a context manager or a file says.
        shapes: Values of named dimensions and shapes of inputs; see ``bind``. A bundle has its
            own.
        options: Options by backend name.
        constraints: Nodes to be pinned to backends or kept from them; see ``partition``. The
            settings ``pin`` and ``keep_off`` say the same in text.
        trust: Whether to open a bundle that somebody else could have written; engines are run like
            programs.
        progress: How it is shown how far opening is: a word of the setting ``progress``, such as
            ``"auto"``; a function, called with every event; or a ``Progress``, which also stops it.
            None for what the setting says, which is nothing unless somebody sets it.
        **settings: Other settings, such as ``strict=True``.

    Raises:
        SubgraphkitError: Whatever a step of the road raises; see ``load``, ``bind``, ``partition``
            and ``compile_subgraphs``; for a bundle, see ``open_bundle``.

    With the setting ``build="background"`` the session answers at once, on a backend of the
    selection that opens quickly, while a thread compiles for the others and exchanges each subgraph
    between two runs; see ``ready``, ``wait`` and ``status``. With ``tune="first"`` a session on
    ``auto`` opens on what measures best; with ``tune="background"`` a child process measures while
    it runs, and the session takes over what won; see ``tuning``.

    Ctrl-C is heard while it compiles, whatever library is at work, and the setting ``timeout_s``
    ends it as well (SGK135).

    Thread-safety: as ``Session``.
    """

    _build: BackgroundBuild | None = None
    _tuning: BackgroundTuning | None = None

    def __init__(  # noqa: PLR0913 (each step of the road has its own)
        self,
        source: ModelSource | Model,
        backend: Any = None,
        shapes: Shapes | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        constraints: Constraints | None = None,
        trust: bool = False,
        progress: ShownAs = None,
        **settings: Unpack[OtherSettings],
    ) -> None:
        refuse_arguments(settings)
        if isinstance(source, str | os.PathLike) and os.path.isdir(source):  # noqa: PTH112 (no name makes it raise)
            call = BundleCall(backend, shapes, options, settings, constraints)
            super().__init__(open_bundle(Path(source), call, trust=trust))
            return
        model = load(source, data_roots=settings.get("data_roots"), limits=settings.get("limits"))
        how: Any = {} if progress is None or callable(progress) else {"progress": progress}
        bound = bind(model, shapes, backend=backend, options=options, **settings, **how)
        progress = bound.settings.progress if progress is None else progress
        tuning = wanted_tuning(bound, constraints)
        start = None
        if bound.settings.build == "background" and tuning != "first":
            start = starting_plan(bound, constraints)
        if start is not None:
            super().__init__(start)
            self._build = BackgroundBuild(self, progress)
        else:
            with shown(progress) as course:
                if tuning == "first":
                    found = tuned(bound, course)
                else:
                    found = partition(bound, constraints=constraints)
                super().__init__(plan(found, compile_subgraphs(found, progress=course)))
        if tuning == "background":
            self._tuning = BackgroundTuning(
                self, source, shapes, self._build.wait if self._build is not None else None
            )

    @property
    def ready(self) -> bool:
        """Whether nothing is left to be built or measured in the background, done or failed."""
        return all(one.ready for one in self._background)

    @property
    def tuning(self) -> str:
        """How far measuring in the background is; empty where nothing measures.

        ``"measuring"``, then ``"exchanged"``, ``"kept"`` where the plan was the best already,
        ``"failed"``, or ``"stopped"`` if the session was closed before.
        """
        return "" if self._tuning is None else self._tuning.state

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to be built or measured in the background.

        Args:
            timeout: Seconds to wait at most; None for as long as it takes.

        Returns:
            ``ready``, as it is then.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for one in self._background:
            one.wait(None if end is None else max(0.0, end - time.monotonic()))
        return self.ready

    def status(self) -> dict[str, SubgraphStatus]:
        """Return, by subgraph id, which backend runs it, which is to, and how far that is."""
        running, tuning = self.plan, self._tuning
        if self._build is None or (tuning is not None and tuning.state == "exchanged"):
            return statuses(running)
        return self._build.status(running)

    def close(self) -> None:
        """Release what the operators hold, and stop what is built or measured in the background.

        Waits for the backend that is compiling to come to its next step. May be called more than
        once.
        """
        for one in self._background:
            one.stop()
        super().close()
        for one in self._background:
            one.wait()

    @property
    def _background(self) -> list[BackgroundBuild | BackgroundTuning]:
        return [one for one in (self._tuning, self._build) if one is not None]
