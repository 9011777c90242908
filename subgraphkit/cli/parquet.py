"""A run over the rows of a Parquet file: child processes compute parts and write each whole.

The output is a folder of parts in the order of the rows, which readers of Parquet take for one
table, with a manifest that says what they are parts of. What is there is not computed again.
"""

import hashlib
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

from subgraphkit.errors import CallerError
from subgraphkit.processes import AnsweringChild, NoAnswer, how_it_ended
from subgraphkit.storing.files import remove_left_over, write_whole
from subgraphkit.transport import rebuilt

_MODULE: Final = "subgraphkit.cli.parquet_child"
_MANIFEST: Final = "_subgraphkit.json"
"""Readers pass over names that begin so."""

_SCHEMA: Final = 1
_TRIES: Final = 3
_LAST_OUTPUT: Final = 2000


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be computed of which rows, in plain values.

    Attributes:
        threads: Threads of each process, unless the spec says how many.
    """

    source: str
    folder: str
    spec: str
    columns: Mapping[str, str]
    outputs: Mapping[str, str]
    keep: tuple[str, ...]
    batch_size: int
    part_rows: int
    threads: int

    def part(self, number: int) -> Path:
        """Return the file of a part."""
        return Path(self.folder) / f"part-{number:06}.parquet"

    def parts(self) -> Iterator[Path]:
        """Return the parts that are there, in any order."""
        return Path(self.folder).glob("part-*.parquet")


def missing_parts(job: Job) -> tuple[list[int], int]:
    """Make the folder of a job, or find what is missing in it.

    Raises:
        CallerError: The file cannot be read (SGK301), or the folder has something else in it than
            parts of this job (SGK342).
    """
    parquet = import_module("pyarrow.parquet")
    try:
        rows = parquet.read_metadata(job.source).num_rows
        with open(job.source, "rb") as file:  # noqa: PTH123 (a name of any kind)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise CallerError("SGK301", f"{job.source!r} is no Parquet file: {error}") from error
    words = asdict(job)
    del words["folder"], words["source"], words["threads"]
    words |= {"schema": _SCHEMA, "input": digest, "rows": rows}
    words = json.loads(json.dumps(words))
    manifest = Path(job.folder) / _MANIFEST
    try:
        Path(job.folder).mkdir(exist_ok=True)
        found = json.loads(manifest.read_bytes()) if manifest.exists() else None
        for one in Path(job.folder).glob(".*.part"):
            remove_left_over(one)
        if found is None and not any(Path(job.folder).iterdir()):
            found = words
            write_whole(manifest, json.dumps(words, indent=2).encode(), mode=0o666)
    except (OSError, ValueError) as error:
        raise CallerError("SGK342", f"{job.folder!r} cannot be used: {error}") from error
    if found != words:
        refuse_other(job.folder, found, words)
    count = max(1, -(-rows // job.part_rows))
    return [one for one in range(count) if not job.part(one).exists()], count


def refuse_other(folder: str, found: Any, words: Mapping[str, Any]) -> NoReturn:
    """Refuse a folder.

    Raises:
        CallerError: It cannot take the parts (SGK342).
    """
    if not isinstance(found, dict):
        why = "it has files in it that no run over a table has written"
    else:
        differing = [name for name in words if found.get(name) != words[name]]
        why = f"its parts were computed with another {' and '.join(differing) or 'version'}"
    raise CallerError(
        "SGK342",
        f"{folder!r} cannot take the parts: {why}",
        hint="Name another folder, or remove this one.",
    )


def compute(job: Job, parts: Sequence[int], replicas: int, done: Callable[[], object]) -> None:
    """Compute parts, each in whichever child process is free.

    A part whose process ended is tried again in a new one.

    ``done``: Called when a part is written, by any thread.

    Raises:
        SubgraphkitError: What a part raised; those that were written before stay.
        CallerError: The process of a part ended each time (SGK342).
    """
    left, lock, stop = iter(parts), threading.Lock(), threading.Event()

    def work() -> None:
        with closing(_Worker(job, stop)) as worker, suppress(_Stopped):
            while True:
                with lock:
                    part = next(left, None)
                if part is None:
                    return
                worker.compute(part)
                done()

    with ThreadPoolExecutor(replicas) as pool:
        works = [pool.submit(work) for _ in range(min(replicas, len(parts)))]
        try:
            wait(works, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    for one in works:
        one.result()


class _Stopped(Exception):  # noqa: N818 (no error: nobody waits for the answer any more)
    pass


class _Worker:
    """A child process that computes parts; started when there is one, and again when it ended."""

    def __init__(self, job: Job, stop: threading.Event) -> None:
        self._job, self._stop = job, stop
        self._child: AnsweringChild | None = None

    def compute(self, part: int) -> None:
        words = ""
        for _ in range(_TRIES):
            if self._child is None:
                self._child = AnsweringChild(_MODULE)
                self._child.tell(asdict(self._job))
            self._child.tell({"part": part})
            try:
                answer = self._child.answer(math.inf, self._look)
            except NoAnswer as gone:
                words = f"{how_it_ended(gone.code or 0)}; {self._child.printed(_LAST_OUTPUT)}"
                self.close()
            else:
                if "failed" in answer:
                    raise rebuilt(*answer["failed"])
                return
        raise CallerError(
            "SGK342",
            f"part {part} cannot be computed: its process ended {_TRIES} times, last with {words}",
            hint="If memory is short, take fewer replicas or a smaller --batch-size.",
        )

    def _look(self) -> None:
        if self._stop.is_set():
            raise _Stopped

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop()
