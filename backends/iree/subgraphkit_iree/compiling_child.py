"""The part that runs in a child process: it imports ONNX into IREE's compiler and compiles it.

The compiler cannot be stopped, and some models take it down; here neither does harm.
"""

import base64
import io
import math
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import onnx
from iree.compiler import ir
from iree.compiler.api import Invocation, Output, Session, Source
from iree.compiler.dialects import util
from iree.compiler.extras import onnx_importer
from onnx.shape_inference import InferenceError

IDLE_SECONDS: Final = 20
"""After how long without a command the process ends."""

_ASKED: Final = (
    "func.func(convert-torch-onnx-to-torch),torch-to-iree",
    "torch-onnx-to-torch-backend-pipeline,torch-to-iree",
)
"""The passes that replace ONNX's operators, with which the compiler begins; what they leave, no
other pass takes. Without some of them they take a fifth of the time, and most operators."""

_NOT_LINKED: Final = re.compile(
    rb"\bmath\.(?!absf|ceil|copysign|floor|fma|round|rsqrt|sqrt|trunc)(\w+) .* f64\b"
)
"""Functions of float64 are calls of a C library, and there is none beside a module."""

_MOST_SAID: Final = 500
_ERROR: Final = re.compile(r"(?:^|\s)error: (?:loc\([^)]*\): )?(.*?)(?:: [%\"].*)?$", re.MULTILINE)
_UNKNOWN: Final = re.compile(r"error:.*torch\.operator.*name = \"onnx\.(\w+)\"")
_NODE: Final = re.compile(r'"node (\d+)"')


def takes(model: str, limits: Sequence[int]) -> dict[str, Any]:
    """Ask the compiler what it takes; see ``_answer``."""
    return _answer(model, limits, _try_passes)


def compile_model(model: str, limits: Sequence[int], flags: Sequence[str]) -> dict[str, Any]:
    """Compile a model, with flags of the compiler; see ``_answer``."""
    return _answer(model, limits, partial(_compile_code, flags=flags))


def _answer(model: str, limits: Sequence[int], work: Callable[[bytes], bytes]) -> dict[str, Any]:
    """Have the compiler work on a model.

    ``model``: ONNX whose large weights are outside, in base64. ``limits``: Of bytes and seconds.

    Returns:
        ``problem``, empty if there is none; ``nodes``, the places of those that it names; and the
        compiled ``engine``.
    """
    _doze(0)
    with tempfile.TemporaryFile() as printed:
        engine = b""
        try:
            with _printing_to(printed.fileno()):
                code = _import_model(base64.b64decode(model))
                with _set_limits(*limits):
                    engine = work(code)
            problem = ""
        except _Refused:
            printed.seek(0)
            problem = printed.read().decode(errors="replace")
        except (onnx_importer.OnnxImportError, ir.MLIRError, InferenceError, ValueError) as error:
            problem = f"error: {error}"
    _doze()
    return {
        "problem": _in_short(problem),
        "nodes": sorted({int(number) for number in _NODE.findall(problem)}),
        "engine": base64.b64encode(engine).decode(),
    }


def _doze(seconds: int = IDLE_SECONDS) -> None:
    """End the process after so many seconds; never if there are none."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


@contextmanager
def _set_limits(most_bytes: int, seconds: int) -> Iterator[None]:
    """Have the system refuse memory, and end this process after so much time; 0 is no limit."""
    if find_spec("resource") is None:  # Windows
        yield
        return
    resource = import_module("resource")
    kinds = (
        (resource.RLIMIT_DATA, most_bytes),
        (resource.RLIMIT_CPU, seconds and math.ceil(time.process_time()) + seconds),
    )
    before = [(kind, resource.getrlimit(kind)) for kind, _ in kinds]
    for (kind, wanted), (_, (_, most)) in zip(kinds, before, strict=True):
        if wanted:
            least = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            resource.setrlimit(kind, (least, most))
    try:
        yield
    finally:
        for kind, limits in before:
            resource.setrlimit(kind, limits)


def _in_short(printed: str) -> str:
    """Return the first error that the compiler printed, without the code that it is about."""
    if unknown := _UNKNOWN.search(printed):
        return f"it has no conversion for this {unknown[1]}"
    found = _ERROR.search(printed)
    return (found[1] if found else printed).strip()[:_MOST_SAID] or (printed and "no reason given")


class _Refused(Exception):  # noqa: N818 (a state: the compiler has printed what it is)
    """The compiler returned without a result."""


@contextmanager
def _printing_to(place: int) -> Iterator[None]:
    before = os.dup(2)
    os.dup2(place, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _import_model(data: bytes) -> bytes:
    """Return a model as MLIR in its binary form; weights outside of it are parameters."""
    model = onnx.load_from_string(data)
    graph = model.graph
    graph.name = "main"
    for place, node in enumerate(graph.node):
        node.name = f"node {place}"
    left_out = [one for one in graph.initializer if one.data_location == onnx.TensorProto.EXTERNAL]
    inputs = len(graph.input)
    for one in left_out:
        graph.initializer.remove(one)
        graph.input.append(onnx.helper.make_tensor_value_info(one.name, one.data_type, one.dims))
    info = onnx_importer.ModelInfo(model)
    context = ir.Context()
    module = info.create_module(context=context).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    with context, ir.Location.unknown():
        _with_parameters(module, inputs)
    code = io.BytesIO()
    module.write_bytecode(code)
    return code.getvalue()


def _with_parameters(module: ir.Operation, inputs: int) -> None:
    """Make parameters of all arguments of the function beyond so many, called by their place."""
    (function,) = module.regions[0].blocks[0].operations
    block = function.regions[0].blocks[0]
    weights = list(block.arguments)[inputs:]
    for place, weight in enumerate(weights):
        stored = _tensor_type(weight.type)
        with ir.InsertionPoint(function):
            util.GlobalOp(
                ir.StringAttr.get(f"weight_{place}"),
                ir.TypeAttr.get(stored),
                sym_visibility=ir.StringAttr.get("private"),
                initial_value=ir.Attribute.parse(
                    f'#flow.parameter.named<"weights"::"{place}"> : {stored}'
                ),
            )
        with ir.InsertionPoint.at_block_begin(block):
            loaded = util.GlobalLoadOp(stored, f"weight_{place}")
            value = ir.Operation.create(
                "torch_c.from_builtin_tensor", results=[weight.type], operands=[loaded.result]
            ).result
        weight.replace_all_uses_with(value)
    for _ in weights:
        block.erase_argument(inputs)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(type_.inputs[:inputs], type_.results)
    )


def _tensor_type(type_: ir.Type) -> ir.Type:
    """Return the tensor type that holds a ``!torch.vtensor<[2,3],si8>``: integers have no sign."""
    dims, element = re.findall(r"\[(.*)\],[su]?(\w+)>", str(type_))[0]
    return ir.Type.parse(f"tensor<{'x'.join([*filter(None, dims.split(',')), element])}>")


@contextmanager
def _ready(code: bytes, flags: Sequence[str]) -> Iterator[Invocation]:
    """Open the compiler with a module that it has read."""
    with Session() as session:
        session.set_flags(*flags)
        with session.invocation() as invocation:
            invocation.enable_console_diagnostics()
            if not invocation.parse_source(Source.wrap_buffer(session, code)):
                raise _Refused
            yield invocation


def _try_passes(code: bytes) -> bytes:
    for passes in _ASKED:
        with _ready(code, ()) as invocation:
            if invocation.execute_text_pass_pipeline(passes):
                with Output.open_membuffer() as lowered:
                    invocation.output_ir(lowered)
                    found = _NOT_LINKED.search(bytes(lowered.map_memory()))
                if found:
                    raise ValueError(f"no {found[1].decode()} of float64 is linked")
                return b""
    raise _Refused


def _compile_code(code: bytes, flags: Sequence[str]) -> bytes:
    with _ready(code, flags) as invocation:
        if not invocation.execute():
            raise _Refused
        with Output.open_membuffer() as engine:
            invocation.output_vm_bytecode(engine)
            return bytes(engine.map_memory())
