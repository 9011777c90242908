"""ONNX Runtime's exception classes; errors that come through the door are of ours and of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from subgraphkit import errors


class Fail(Exception):  # noqa: N818 (ONNX Runtime's name)
    """Something failed, and there is no other class for it."""


class InvalidArgument(Exception):  # noqa: N818 (ONNX Runtime's name)
    """A feed or an option does not fit."""


class NoSuchFile(Exception):  # noqa: N818 (ONNX Runtime's name)
    """The model file does not exist."""


class NoModel(Exception):  # noqa: N818 (ONNX Runtime's name)
    """No model was given."""


class EngineError(Exception):
    """The engine failed."""


class RuntimeException(Exception):  # noqa: N818 (ONNX Runtime's name)
    """A run failed."""


class InvalidProtobuf(Exception):  # noqa: N818 (ONNX Runtime's name)
    """The bytes are no model."""


class ModelLoaded(Exception):  # noqa: N818 (ONNX Runtime's name)
    """A model is loaded already."""


class NotImplemented(Exception):  # noqa: A001, N818 (ONNX Runtime's name)
    """Nobody has a kernel for a node."""


class InvalidGraph(Exception):  # noqa: N818 (ONNX Runtime's name)
    """The model breaks a rule of ONNX."""


class EPFail(Exception):  # noqa: N818 (ONNX Runtime's name)
    """A backend failed."""


_THEIRS: Final[tuple[tuple[type[errors.SubgraphkitError], type[Exception]], ...]] = (
    (errors.ModelNotFoundError, NoSuchFile),
    (errors.UnclaimedNodesError, NotImplemented),
    (errors.UnsupportedModelError, NotImplemented),
    (errors.InvalidModelError, InvalidGraph),
    (errors.RunTimeoutError, RuntimeException),
    (errors.ExecutionError, RuntimeException),
    (errors.BackendNotFoundError, InvalidArgument),
    (errors.ConfigError, InvalidArgument),
    (errors.OptionError, InvalidArgument),
    (errors.BindError, InvalidArgument),
    (errors.InputError, InvalidArgument),
    (errors.BackendError, EPFail),
)
_NO_MODEL: Final = "SGK202"


@contextmanager
def their_errors() -> Iterator[None]:
    """Make an error one of ONNX Runtime's classes as well; it keeps its own class."""
    try:
        yield
    except errors.SubgraphkitError as error:
        kind: Any = type(error)
        if kind.__module__ != __name__:
            error.__class__ = _both(kind, error.code == _NO_MODEL)
        raise


@cache
def _both(ours: Any, no_model: bool) -> Any:  # noqa: FBT001 (a key)
    found = next((theirs for base, theirs in _THEIRS if issubclass(ours, base)), Fail)
    theirs = InvalidProtobuf if no_model else found
    return type(ours.__name__, (ours, theirs), {"__module__": __name__, "__doc__": ours.__doc__})
