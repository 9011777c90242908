"""Errors that travel, by pickle, by copies and through pools; and whose fault they are."""

import copy
import errno
import inspect
import multiprocessing
import pickle  # noqa: TID251 (what engines do with errors)
import subprocess
import textwrap
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from subgraphkit import errors
from subgraphkit.backend.refusal import Unsupported
from subgraphkit.codes import OF_THE_MACHINE
from subgraphkit.transport import Travelling
from tests.ready import python_command


class KeywordsOnlyError(errors.BackendError):
    """Takes nothing that its base takes."""

    def __init__(self, *, device, table):
        super().__init__("SGK176", "the device is full", backend="mine", subgraph="s_1", free=0)
        self.device = device
        self.table = table


class DiskError(errors.CacheError):
    """Has what only Python's own class holds."""

    def __init__(self):
        super().__init__("SGK151", "nothing can be written")
        self.errno, self.filename = errno.ENOSPC, "/cache/x"


class ManyBasesError(errors.InputError, errors.BundleError, KeyError):
    """Is several things, in Python's words as well."""


class StrictWarning(errors.SubgraphkitWarning):
    """Is built in a way of its own."""

    def __init__(self, *, count):
        super().__init__(f"{count} things should change")
        self.count = count


class OddError(errors.SubgraphkitError):
    """Has a slot, computes what others hold, and attributes of which may raise."""

    __slots__ = ("_rest", "extra")

    def __init__(self):
        super().__init__("SGK900", "odd")
        self.extra, self._rest = 5, None

    @property
    def path(self):
        return f"{self.extra} {self._rest}"

    @property
    def filename(self):
        raise LookupError("there is none")


def _classes():
    """Yield every class there is, whoever wrote it, so that a new one is tested unasked.

    Those of the kit's faulty backends are left out: they are faulty.
    """
    pending = [Travelling]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        is_faulty = kind.__module__.startswith("tests.faulty.")
        if issubclass(kind, BaseException) and kind.__module__.split(".")[0] == "subgraphkit":
            yield from [] if is_faulty else [kind]


CLASSES = sorted(set(_classes()), key=lambda kind: kind.__name__)
OWN: list[Callable[[], Any]] = [
    lambda: KeywordsOnlyError(device=1, table=object()),
    DiskError,
    lambda: ManyBasesError("SGK142", "it is neither", place=3),
    lambda: StrictWarning(count=4),
    OddError,
]


def _built(kind):
    """Build an error as its signature wants it."""
    words = inspect.signature(kind).parameters
    given: dict[str, Any] = {"code": "SGK131", "message": "it\x1bfailed\n  at once", "text": "no"}
    facts = {"backend": "numpy", "subgraph": "numpy_0", "hint": "Try again.\nOr not."}
    context = {"node": 3, "operator": object(), "array": np.zeros((2, 3)), "names": ["a", "b"]}
    takes = {name: one for name, one in (given | facts).items() if name in words}
    takes |= context if any(one.kind is one.VAR_KEYWORD for one in words.values()) else {}
    takes |= {"nodes": (3, 4)} if "nodes" in words else {}
    if kind is Unsupported:
        takes["code"] = "dtype"
    missing = [key for key, one in words.items() if one.default is one.empty and key not in takes]
    assert all(words[one].kind is inspect.Parameter.VAR_KEYWORD for one in missing), missing
    positional = [takes.pop(name) for name in ("code", "message", "text") if name in words]
    if kind is Unsupported:
        return kind("no", code="dtype", nodes=(3, 4))
    return kind(*positional, **takes)


WAYS: dict[str, Callable[[Any], Any]] = {
    **{
        f"pickle {number}": lambda error, number=number: pickle.loads(pickle.dumps(error, number))
        for number in range(pickle.HIGHEST_PROTOCOL + 1)
    },
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def _by_cloudpickle(error):
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    return cloudpickle.loads(cloudpickle.dumps(error))


WAYS["cloudpickle"] = _by_cloudpickle


def _require_same(sent, arrived, kind):
    assert type(arrived) is kind
    assert (str(arrived), arrived.args) == (str(sent), sent.args)
    if isinstance(sent, errors.SubgraphkitError):
        for name in ("code", "message", "hint", "fault"):
            assert getattr(arrived, name) == getattr(sent, name)
        assert arrived.context.keys() == sent.context.keys()
        assert all(_is_plain(value) for value in arrived.context.values())


def _is_plain(value):
    if isinstance(value, dict):
        return all(_is_plain(one) for pair in value.items() for one in pair)
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in {str, int, float, bool, type(None)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_arrives_as_it_was_sent(kind, way):
    sent = _built(kind)
    _require_same(sent, WAYS[way](sent), kind)


@pytest.mark.parametrize("way", WAYS)
def test_errors_of_others_arrive_with_their_attributes(way):
    for make in OWN:
        sent = make()
        arrived = WAYS[way](sent)
        _require_same(sent, arrived, type(sent))
    full, disk, several, warning, odd = (WAYS[way](make()) for make in OWN)
    assert (full.device, full.backend, full.subgraph) == (1, "mine", "s_1")
    assert full.table.startswith("<object object at")
    assert (disk.errno, disk.filename, disk.fault) == (errno.ENOSPC, "/cache/x", "machine")
    assert several.context == {"place": 3}
    assert warning.count == 4
    assert odd.path == "5 None"


def test_backends_facts_and_refusals_arrive():
    sent = errors.ExecutionError("SGK131", "failed", backend="numpy", subgraph="numpy_2")
    arrived = pickle.loads(pickle.dumps(sent))
    assert (arrived.backend, arrived.subgraph) == ("numpy", "numpy_2")
    refused = pickle.loads(
        pickle.dumps(Unsupported("int64 input", nodes=range(9999), code="dtype"))
    )
    assert (refused.refusal.code, refused.nodes) == ("dtype", tuple(range(9999)))


def test_of_a_class_that_is_not_there_the_nearest_public_base_arrives():
    class LocalError(KeywordsOnlyError):
        pass

    class _PrivateError(ManyBasesError):
        pass

    arrived = pickle.loads(pickle.dumps(LocalError(device=2, table=None)))
    assert (type(arrived), arrived.device, arrived.code) == (KeywordsOnlyError, 2, "SGK176")
    private = pickle.loads(pickle.dumps(_PrivateError("SGK142", "neither")))
    assert (type(private), str(private)) == (ManyBasesError, "[SGK142] neither")


def test_a_class_whose_module_is_missing_runs_no_code_and_its_base_arrives():
    program = """
    import pickle, sys, types
    from subgraphkit.errors import InputError
    module = types.ModuleType("nowhere")
    class TheirError(InputError):
        def __init__(self, *, loud):
            super().__init__("SGK142", loud)
    TheirError.__module__ = "nowhere"
    module.TheirError = TheirError
    sys.modules["nowhere"] = module
    sys.stdout.buffer.write(pickle.dumps(TheirError(loud="missing feed")))
    """
    done = subprocess.run(
        python_command("-c", textwrap.dedent(program)), capture_output=True, check=True
    )
    assert b"missing feed" in done.stdout
    arrived = pickle.loads(done.stdout)
    assert (type(arrived), arrived.code, arrived.message) == (
        errors.InputError,
        "SGK142",
        "missing feed",
    )


def test_what_led_to_an_error_arrives_as_a_note():
    sent = errors.CompileError("SGK130", "no engine", backend="mine")
    sent.add_note("It printed last: help")
    sent.__cause__ = RuntimeError("the library said no")
    sent.__cause__.__context__ = KeyError("conv")
    arrived = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(sent))))
    assert arrived.__notes__ == [
        "It printed last: help",
        "Caused by RuntimeError: the library said no\nwhich was caused by KeyError: 'conv'",
    ]
    arrived.add_note("and it still takes notes")
    circular = errors.InputError("SGK142", "round")
    circular.__cause__ = circular
    assert type(pickle.loads(pickle.dumps(circular))) is errors.InputError


class _Wordless:
    def __str__(self):
        raise RuntimeError("no words")

    def __len__(self):
        raise RuntimeError("no length")


def test_a_context_of_any_size_travels_small():
    endless: list[Any] = []
    endless.append(endless)
    sent = errors.InputError(
        "SGK140",
        "wrong",
        text="x" * 10**7,
        numbers=list(range(10**6)),
        deep={"a": {"b": {"c": {"d": {"e": {}}}}}},
        plain={"a": [1, 2.5, None, True, "text"]},
        endless=endless,
        huge=10**6000,
        array=np.zeros((4000, 4000)),
        scalar=np.float32(0.5),
        words=_Wordless(),
        data=b"x" * 10**6,
        by_key={(1, 2): {3, 4}, _Wordless(): 1},
    )
    data = pickle.dumps(sent)
    assert len(data) < 200_000
    arrived = pickle.loads(data)
    assert all(map(_is_plain, arrived.context.values()))
    assert arrived.context["plain"] == {"a": (1, 2.5, None, True, "text")}
    assert arrived.context["array"] == "ndarray of float64 (4000, 4000)"
    assert (arrived.context["scalar"], arrived.context["words"]) == (0.5, "<_Wordless>")


def _forget_a_feed(_=0):
    raise KeywordsOnlyError(device=7, table=lambda: None)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pool_hands_the_error_of_a_worker_to_who_waits(method):
    # before, the thread that reads results died of it, and the pool waited for ever
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool, pytest.raises(KeywordsOnlyError) as caught:
        pool.apply_async(_forget_a_feed).get(timeout=60)
    assert (caught.value.device, caught.value.code) == (7, "SGK176")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        with pytest.raises(KeywordsOnlyError):
            executor.submit(_forget_a_feed).result(timeout=60)
        assert executor.submit(abs, -1).result(timeout=60) == 1


# -- whose fault -----------------------------------------------------------------------------


def _raised(error, cause):
    error.__cause__ = cause
    return error


_COMPILE = partial(errors.CompileError, "SGK130", "failed", backend="mine")


@pytest.mark.parametrize(("error", "fault"), [
    (errors.InputError("SGK142", "missing"), "caller"),
    (errors.ModelError("SGK203", "a cycle"), "model"),
    (_COMPILE(), "backend"),
    (errors.InternalError("a broken invariant"), "backend"),
    (errors.MemoryLimitError("SGK134", "too much"), "machine"),
    (_raised(_COMPILE(), MemoryError()), "machine"),
    (_raised(_COMPILE(), RuntimeError("CUDA error: out of memory")), "machine"),
    (_raised(_COMPILE(), RuntimeError("std::bad_alloc")), "machine"),
    (_raised(_COMPILE(), OSError(errno.ENOSPC, "no space")), "machine"),
    (_raised(errors.BundleError("SGK180", "not written"), PermissionError()), "machine"),
    (_raised(errors.CallerError("SGK201", "not opened"), FileNotFoundError(2, "none")), "caller"),
    (_raised(_COMPILE(), errors.InvalidModelError("SGK208", "weights")), "model"),
    (_raised(_COMPILE(), RuntimeError("a kernel failed")), "backend"),
    (_raised(errors.InvalidModelError("SGK219", "unforeseen"), MemoryError()), "machine"),
], ids=repr)  # fmt: skip
def test_who_is_at_fault_is_told_by_code_then_cause_then_class(error, fault):
    assert error.fault == fault
    assert pickle.loads(pickle.dumps(error)).fault == fault


@pytest.mark.parametrize("code", sorted(OF_THE_MACHINE))
def test_codes_of_the_machine_say_so_whatever_the_class(code):
    assert code in errors.CODES
    assert errors.CallerError(code, "text").fault == "machine"
    assert errors.BackendError(code, "text", backend="mine").fault == "machine"


def test_whoever_raises_an_error_can_say_whose_fault_it_is():
    error = _COMPILE()
    error.fault = "caller"
    assert error.fault == "caller"
    assert _raised(_COMPILE(), error).fault == "caller"


@pytest.mark.parametrize(("error", "fault"), [
    (IndexError("index 99 is out of bounds for axis 0 with size 3"), "caller"),
    (RuntimeError("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Gather node"), "caller"),
    (IndexError("list index out of range"), None),
    (IndexError("tuple index out of range"), None),
    (ZeroDivisionError("division by zero"), None),
    (MemoryError(), "machine"),
], ids=repr)  # fmt: skip
def test_of_what_a_library_raises_only_its_words_about_values_blame_them(error, fault):
    assert errors.fault_of(error, running=True) == fault
    assert errors.fault_of(error) in {None, "machine"}
