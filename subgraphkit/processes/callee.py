"""The program of a child in which functions are called, a line of JSON each way.

``python -m subgraphkit.processes.callee LINE`` ends with the process that holds the other end of
the pipe ``LINE``. To plugins, standard input is empty and standard output is that of errors.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import reduce
from importlib import import_module
from typing import IO, Any

from subgraphkit.processes.calling import plain_error


def main() -> None:
    """Call functions until no more are asked for."""
    _end_with_parent(int(sys.argv[1]))
    own, instances = os.getpid(), dict[str, Any]()
    with _answering() as answer:
        for line in _requests():
            request = json.loads(line)
            try:
                answered = {"returned": _call_function(request, instances, answer)}
            except BaseException as error:  # noqa: BLE001 (raised where it was called)
                answered = {"raised": plain_error(error)}
            if os.getpid() != own:
                os._exit(1)  # a copy that a plugin has made and that is not to answer as well
            answer(answered)


def _call_function(
    request: Mapping[str, Any], instances: dict[str, Any], answer: Callable[[Any], None]
) -> Any:
    module, _, name = request["call"].partition(":")
    owner, _, method = name.rpartition(".")
    if owner:
        function = getattr(instances[f"{module}:{owner}"], method)
    else:
        function = reduce(getattr, name.split("."), import_module(module))
    told = [lambda event: answer({"event": event})] if request["tells"] else []
    result = function(*told, *request["plain"])
    if isinstance(function, type):
        instances[request["call"]], result = result, None
    return result


@contextmanager
def _answering() -> Iterator[Callable[[Any], None]]:
    """Keep standard output for answers, a line of JSON each; other output is an error's."""
    # The duplicate is ours alone; descriptor 1, which C code writes to, becomes standard error.
    answer = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    lock = threading.Lock()  # a function may send events from its own threads
    with os.fdopen(answer, "w", encoding="utf-8") as stream:

        def send(what: Any) -> None:
            text = json.dumps(what)
            with lock:
                stream.write(text + "\n")
                stream.flush()

        yield send


def _requests() -> IO[str]:
    """Keep standard input for requests; for plugins, and their processes, it is empty."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests


def _end_with_parent(line: int) -> None:
    """Have the system end this process and its forks when the other end of a pipe is closed.

    It needs no thread of Python's, which a library that never returns would keep from running.
    """
    import fcntl  # noqa: PLC0415 (not everywhere)

    fcntl.fcntl(line, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(line, fcntl.F_GETFL)
    fcntl.fcntl(line, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        if not os.read(line, 1):
            os._exit(1)


if __name__ == "__main__":
    main()
