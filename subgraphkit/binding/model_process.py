"""The child process of a bound model, in which the backends that are isolated compile and run.

It opens the model as it was bound, from a folder that is written when it starts, and does one thing
at a time. Values pass through memory that both share, all else as lines of JSON.
"""

import math
import os
import shutil
import sys
import tempfile
import threading
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from subgraphkit import errors
from subgraphkit.backend.contract import Backend
from subgraphkit.backend.progress import Progress
from subgraphkit.binding.shapes import shapes_of_inputs
from subgraphkit.configuration.config import changed_options, plain_options, plain_settings
from subgraphkit.finding.catalogue import CATALOGUE, IN_PROCESS
from subgraphkit.ir import Initializer
from subgraphkit.logs import logger_of
from subgraphkit.onnx_io import write_bundled_model
from subgraphkit.processes import Child, NoAnswer, how_it_ended, result_of
from subgraphkit.processes.shared_area import SharedArea

MODEL: Final = "model.onnx"
"""The file in the folder that the process reads the model from."""

_WEIGHTS: Final = "weights.bin"
# The class whose instance lives in the process.
_WORKSHOP: Final = "subgraphkit.compiling.isolated_child:Workshop"

# Settings that are not handed to the child, or not as they are.
_OWN: Final = frozenset(
    {"backend", "fold", "isolate", "keep_off", "pin", "plugins", "progress", "require", "strict"}
    | {"timeout_s", "tune", "build", "max_memory", "verbose", "data_roots", "on_fallback"}
)

# How often a process may go down before its model gets no other.
_MOST_ENDINGS: Final = 10
_LAST_OUTPUT: Final = 2000
_LAST_LINES: Final = 10

_logger: Final = logger_of("isolate")
_PROCESSES: Final[weakref.WeakSet["ModelProcess"]] = weakref.WeakSet()


class ProcessEnded(Exception):  # noqa: N818 (an ending, worded where the subgraph is known)
    """The process went down while it was asked, or there is to be no other."""

    def __init__(self, how: str, printed: str = "") -> None:
        self.how = how
        self.printed = printed
        super().__init__(how)


class ModelProcess:
    """Starts the process of a model when it is first asked, and again when it has gone down.

    Attributes:
        lock: To be held from storing values to reading those of the answer.
        generation: The number of the present process; objects made in another are not in this one.

    Thread-safety: hold the lock for ``ready``, ``ask`` and ``end``.
    """

    def __init__(self, graph: Any) -> None:
        self.generation = 0
        self._graph = weakref.ref(graph)
        self._held = ExitStack()
        self._endings = 0
        self._users: set[int] = set()
        self._begin()
        weakref.finalize(self, self._held.close)
        _PROCESSES.add(self)

    def _begin(self) -> None:
        self.lock = threading.RLock()
        self.inward, self.outward = SharedArea(), SharedArea()
        self._child: Child | None = None

    def forget(self) -> None:
        """Leave the process to the one from which this one was forked."""
        self._held.pop_all()  # which closes nothing
        if self._child is not None:
            self._child.disown()  # or the process would outlive its own program
        self._begin()

    @property
    def is_at_work(self) -> bool:
        """Whether there is a process now."""
        return self._child is not None

    @property
    def number(self) -> int:
        """The number of the process at work, as the system has it; 0 if there is none."""
        return 0 if self._child is None else self._child.number

    def ready(self, progress: Progress | None = None) -> int:
        """Start the process unless it is at work; return its generation, or raise ProcessEnded."""
        if self._child is None:
            if self._endings >= _MOST_ENDINGS:
                raise ProcessEnded(f"{self._endings} endings before, so it is not started again")
            self._start(progress)
        return self.generation

    def ask(
        self,
        method: str,
        *plain: Any,
        progress: Progress | None = None,
        seconds: float = math.inf,
        tells: bool = False,
    ) -> Any:
        """Call a method of the workshop and wait for its result.

        ``method``: As ``".run"``; with no text the workshop itself is made.
        ``seconds``: After how long without a word the process is ended.
        ``tells``: Whether the method takes a function for its progress.

        Raises:
            ProcessEnded: It went down.
            BaseException: The method's own error, one in the waiting thread, or the one that
                cancelled ``progress``. The latter two end the process, because it may never come
                back.
        """
        if (child := self._child) is None:
            raise ProcessEnded("an end that was asked for")
        self._users.add(id(child))  # which others may be the last to leave meanwhile
        try:
            with progress.stopping(child.kill) if progress is not None else ExitStack():
                event = (lambda told: progress and progress(*told)) if tells else None
                place = f"{_WORKSHOP}{method}"
                reply = child.reply(place, *plain, timeout=seconds, event=event)
        except NoAnswer as gone:
            raise self._end_error(child, gone.code, progress) from None
        except BaseException:
            self.end()
            raise
        finally:
            self._users.discard(id(child))
        return result_of(reply)

    def end(self) -> None:
        """End the process; the next request starts another."""
        self._child = None
        self._held.close()

    def join(self, user: object) -> None:
        """Note that something lives in the process, until it leaves or is gone."""
        self._users.add(id(user))
        weakref.finalize(user, self._drop_user, id(user)).atexit = False

    def leave(self, user: object) -> None:
        """Note that something has gone; with the last one the process ends."""
        self._users.discard(id(user))
        if not self._users:
            self.end()

    # -- inside ------------------------------------------------------------------------------

    def _drop_user(self, user: int) -> None:
        """Do as ``leave`` for objects that nobody closed, unless the process works for another."""
        self._users.discard(user)
        if not self._users and self.lock.acquire(blocking=False):
            with ExitStack() as held:
                held.callback(self.lock.release)
                if not self._users:
                    self.end()

    def _end_error(self, child: Child, code: int | None, progress: Progress | None) -> ProcessEnded:
        printed = child.printed(_LAST_OUTPUT)
        self.end()
        if progress is not None:
            progress.check()  # it was ended because of that
        self._endings += 1
        how = "no answer" if code is None else how_it_ended(code)
        _logger.warning("the process of isolated backends ended with %s", how)
        return ProcessEnded(how, printed)

    def _start(self, progress: Progress | None) -> None:
        if (graph := self._graph()) is None:
            raise ProcessEnded("the end of its model")
        with ExitStack() as held:
            folder = Path(tempfile.mkdtemp(prefix="subgraphkit-"))
            held.callback(shutil.rmtree, folder, ignore_errors=True)
            _write_model(graph, folder)
            shared = [self.inward.descriptor, self.outward.descriptor]
            child = Child(inherited=shared)
            held.callback(child.stop)
            self._held.push(held.pop_all())
        self._child = child
        self.generation += 1
        self.ask("", os.fspath(folder), *shared, _job(graph), progress=progress, tells=True)


def _forget() -> None:
    for process in list(_PROCESSES):
        process.forget()


getattr(os, "register_at_fork", dict)(after_in_child=_forget)  # not everywhere is there forking


def _write_model(graph: Any, folder: Path) -> None:
    with (folder / _WEIGHTS).open("xb") as file:
        constants = graph.constants
        kept = [name for name, constant in constants.items() if _has_data(constant)]
        model = write_bundled_model(graph, constants, kept, file.write, lambda: _WEIGHTS)
    (folder / MODEL).write_bytes(model)


def _has_data(constant: Initializer) -> bool:
    """Say whether a constant has data, which may be in the engine of a bundle and nowhere else."""
    try:
        constant.array()
    except errors.InvalidModelError as error:
        if error.code == "SGK184":
            return False
        raise
    return True


def _job(graph: Any) -> dict[str, Any]:
    return {
        "name": graph.name,
        "shapes": {**graph.symbols, **shapes_of_inputs(graph)},
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "order": list(graph.order),
        "left_out": list(graph.left_out.items()),
        "settings": plain_settings(graph.settings, _OWN),
        "options": plain_options(graph.settings),
    }


def backend_recipe(graph: Any, backend: Backend) -> dict[str, Any]:
    """Return a backend's place for another process, and its options; or BackendError (SGK137)."""
    name, kind = backend.name, type(backend)
    options = changed_options(backend)
    given = next((one.target for one in graph.settings.backends if one.name == name), None)
    problem = "" if hasattr(os, "memfd_create") else f"{sys.platform} has no memory for it"
    if given is None and not CATALOGUE.find(name, IN_PROCESS) and not problem:
        return {"name": name, "place": "", "options": options}
    if isinstance(given, Backend):
        problem = "it was given as an instance"
    elif kind.__module__ == "__main__" or "<" in kind.__qualname__:
        problem = f"class {kind.__qualname__!r} of module {kind.__module__!r} cannot be imported"
    if problem:
        raise errors.BackendError(
            "SGK137",
            f"backend {name!r} cannot run in a process of its own: {problem}",
            backend=name,
            hint="Give a class at the top of a module, or leave the backend out of 'isolate'.",
        )
    return {"name": name, "place": f"{kind.__module__}:{kind.__qualname__}", "options": options}


def with_last_words(error: errors.BackendError, ended: ProcessEnded) -> errors.BackendError:
    """Note the output of a process before its end."""
    if ended.printed:
        lines = "\n".join(ended.printed.splitlines()[-_LAST_LINES:])
        error.add_note(f"It printed last:\n{lines}")
    return error
