"""``deploy serve``: models behind the Open Inference Protocol, on an engine, until Ctrl-C."""

import os
import re
import signal
import socket
import threading
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any, Final

from subgraphkit.cli.reporting import CommandReport, ExitCode, usage_error
from subgraphkit.cli.road import is_spec, spec_as_told
from subgraphkit.cli.words import A_SPEC, Merged, Parser, counting, pair
from subgraphkit.errors import CallerError

_OURS: Final = r"Error: (?=\[SGK)"


def execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    """Carry it out."""
    _check(arguments)
    places = arguments.specs
    mixed = not all(map(is_spec, places.values()))
    specs = {
        name: spec_as_told(place, None if mixed and is_spec(place) else arguments.backend)
        for name, place in places.items()
    }
    ray, serve = import_module("ray"), import_module("ray.serve")
    try:
        with report.doing("starting Ray"):
            _start(ray, serve, arguments)
            _deploy(serve, specs, arguments)
        # Ray has handlers of its own for these, which abort, and sets them when it starts.
        for sent in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sent, signal.default_int_handler)
        address = f"http://{arguments.host}:{arguments.port}/v2/models"
        for name in specs:
            report.note(f"GET {address}/{name} says what to POST to {address}/{name}/infer")
        report.note("Ctrl-C ends it, once what has begun is answered")
        with suppress(KeyboardInterrupt):
            _wait()
        report.note("draining; Ctrl-C ends it at once")
        _deploy(serve, specs, arguments, draining=True)
    except KeyboardInterrupt:
        report.note("ending")
    finally:
        if ray.is_initialized():  # or asking Serve would start another Ray
            serve.shutdown()
        ray.shutdown()
    report.data = {"models": list(specs)}
    return ExitCode.OK


def _start(ray: Any, serve: Any, arguments: Namespace) -> None:
    options: dict[str, Any] = {"host": arguments.host, "port": arguments.port}
    try:
        ray.init(address="local", include_dashboard=False, log_to_driver=False)
        serve.start(http_options=options, grpc_options=_procedures(arguments))
    except Exception as error:
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        hint = "On a busy machine, try again. Its logs are in the temporary folder, in ray."
        raise CallerError("SGK341", f"Ray could not start: {said}", hint=hint) from error


def _wait() -> None:
    threading.Event().wait()


def _deploy(
    serve: Any, specs: Mapping[str, Any], arguments: Namespace, *, draining: bool = False
) -> None:
    made = import_module("subgraphkit.serving.ray_serve").deployment(
        specs,
        max_batch=arguments.max_batch,
        max_wait_s=arguments.max_wait_ms / 1e3,
        replicas=arguments.replicas,
        num_cpus=arguments.num_cpus,
        timeout_s=arguments.timeout_s,
        repository=arguments.repository,
        draining=draining,
    )
    try:
        serve.run(made.options(max_constructor_retry_count=1).bind(), name="subgraphkit")
    except RuntimeError as error:
        said = serve.status().applications["subgraphkit"].deployments.values()
        why = "; ".join(one.message for one in said) or str(error)
        # Serve gives an error in a replica a traceback, a screen long.
        why = "\n".join(map(str.strip, re.split(_OURS, why)[-1].splitlines()))
        raise CallerError("SGK341", f"Ray Serve could not start the models: {why}") from error


def _procedures(arguments: Namespace) -> dict[str, Any] | None:
    if arguments.grpc_port is None:
        return None
    service = import_module("subgraphkit.serving.grpc_methods").SERVICE
    return {"port": arguments.grpc_port, "grpc_servicer_functions": [service]}


def _name_and_place(text: str) -> tuple[str, str]:
    if "=" not in text:
        return PurePath(text).stem, text
    form = "SPEC or NAME=SPEC without '/' in the name"
    name, place = pair(text, form)
    if "/" in name:
        raise ArgumentTypeError(f"expected {form}, got {text!r}")
    return name, place


def _check(arguments: Namespace) -> None:
    """Refuse faults that would come up only once Ray runs, or not at all."""
    if find_spec("ray") is None:
        hint = "pip install 'subgraphkit[ray]'"
        raise usage_error("the engine 'ray' is not installed", hint=hint)
    if arguments.grpc_port is not None and arguments.host not in {"0.0.0.0", "::"}:  # noqa: S104 (asked for)
        problem = "Ray listens for gRPC at every address of this machine"
        raise usage_error(problem, hint="Say --host 0.0.0.0 as well, if you want that.")
    if arguments.grpc_port is not None and find_spec("tritonclient") is None:
        hint = "pip install 'subgraphkit[grpc]'"
        raise usage_error("the messages of gRPC are not installed", hint=hint)
    if arguments.repository is not None and arguments.replicas > 1:
        problem = f"models are loaded by name in one replica, not in {arguments.replicas}"
        raise usage_error(problem, hint="Leave --repository or --replicas out.")
    wanted, there = arguments.replicas * arguments.num_cpus, os.cpu_count() or 1
    if wanted > there:
        problem = f"the replicas want {wanted} processors; this machine has {there}"
        raise usage_error(problem, hint="Lower --replicas or --num-cpus.")
    try:
        socket.create_server((arguments.host, arguments.port)).close()
    except (OSError, ValueError) as error:
        place = f"{arguments.host}:{arguments.port}"
        raise usage_error(f"{place!r} cannot be listened at: {error}") from error


def add_words(parser: Parser) -> None:
    """Add its words."""
    parser.examples = (
        "deploy serve spec.json",
        "deploy serve minilm=model.onnx other=bundle --port 9000 --max-batch 8",
    )
    purpose = f"{A_SPEC}; without NAME, it is named as its file"
    parser.word("specs [NAME=]SPEC", purpose, _name_and_place, nargs="+", action=Merged)
    parser.word("--backend LIST", "backends of models that are no specs")
    parser.word("--engine", "what runs them", default="ray", choices=["ray"])
    parser.word(
        "--host", "address to listen at (default: 127.0.0.1, this machine)", default="127.0.0.1"
    )
    parser.word("--repository FOLDER", "models there may be loaded and unloaded by name")
    parser.word("--grpc-port N", "port for gRPC, at every address", counting(1, 65535))
    for word, default, purpose in (
        ("--port", 8000, "port to listen at"),
        ("--replicas", 1, "processes"),
        ("--num-cpus", 1, "processors, and threads, of each"),
        ("--max-batch", 1, "requests that run together, at most"),
        ("--max-wait-ms", 2, "how long a request waits for others, at most"),
        ("--timeout-s", 60, "seconds that a request may take"),
    ):
        kind = counting(1, 65535 if word == "--port" else None)
        parser.word(f"{word} N", purpose, kind, default)
