"""Ray Data: a model over the rows of a dataset, on actors that hold a session each.

``map_batches`` is ``Dataset.map_batches`` with a ``SessionSpec`` in the place of the function. If
an actor dies, Ray starts it again, and others do its blocks. Every row arrives exactly once, in any
order, so keep a column with its number.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ray.data import ActorPoolStrategy, Dataset
from ray.exceptions import UserCodeException

import subgraphkit as sk
from subgraphkit.serving.models import with_threads
from subgraphkit.serving.rows import Outputs, Rows

_BATCH: Final = 32


def map_batches(  # noqa: PLR0913 (those of Dataset.map_batches that matter here)
    dataset: Dataset,
    spec: sk.SessionSpec,
    *,
    columns: Mapping[str, str] | None = None,
    outputs: Outputs = None,
    keep: Sequence[str] = (),
    batch_size: int = _BATCH,
    replicas: int | tuple[int, int] = 1,
    num_cpus: float = 1,
    num_gpus: float | None = None,
    **settings: Any,
) -> Dataset:
    """Run a model over a dataset; lazily, as Ray Data does.

    ``outputs``: The outputs to compute, or by output the column that it becomes; None for all.
    ``num_cpus``: Processors of an actor; a session has as many threads, unless the spec says.

    Errors of a session reach the driver in their own classes, such as ``InputError`` with its
    ``code``. They are Ray's ``RayTaskError`` as well; ``error.cause`` is the error of the session.
    """
    least, most = replicas if isinstance(replicas, tuple) else (replicas, replicas)
    return dataset.map_batches(
        _Replica,
        batch_size=batch_size,
        batch_format="numpy",
        compute=ActorPoolStrategy(min_size=least, max_size=most),
        fn_constructor_args=(with_threads(spec, num_cpus), columns, outputs, keep),
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        **settings,
    )


class _Replica:
    """The session of an actor.

    The first batch raises an error of its construction: from a constructor, Ray passes on only the
    text.
    """

    def __init__(
        self,
        spec: sk.SessionSpec,
        columns: Mapping[str, str] | None,
        outputs: Outputs,
        keep: Sequence[str],
    ) -> None:
        self._rows: Rows | sk.SubgraphkitError
        try:
            self._rows = Rows(spec.get(), columns, outputs, keep)
        except sk.SubgraphkitError as error:
            self._rows = error

    def __call__(self, batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        # A generator, because Ray Data replaces an error from the call itself by one without a
        # cause. It leaves an error alone that comes with the results.
        try:
            if isinstance(self._rows, sk.SubgraphkitError):
                raise self._rows
            yield self._rows(batch)
        except sk.SubgraphkitError as error:
            raise _in_user_code(error) from error


def _in_user_code(error: sk.SubgraphkitError) -> sk.SubgraphkitError:
    """Return an error as one that Ray Data knows for its user's, and not for a bug of its own."""
    kind = type(error)
    words = {"__module__": kind.__module__, "__reduce__": lambda _: (_in_user_code, (error,))}
    both: type[Any] = type(kind.__name__, (kind, UserCodeException), words)
    twin: sk.SubgraphkitError = both.__new__(both, *error.args)
    twin.__dict__.update(error.__dict__)
    return twin
