"""With many bad plugins installed everything else works, and each bad one is told by its code."""

from typing import Any

import pytest

from tests.plugins.conftest import RunProgram

LISTED = {
    ("bad_api", "sgk-test-bad-api"): "incompatible",
    ("bad_manifest", "sgk-test-bad-manifest"): "broken",
    ("broken_import", "sgk-test-broken-import"): "registered",
    ("conflict", "sgk-test-conflict-a"): "conflict",
    ("conflict", "sgk-test-conflict-b"): "conflict",
    ("crash", "sgk-test-crash"): "registered",
    ("good_class", "sgk-test-good-class"): "registered",
    ("good_hooks", "sgk-test-good-hooks"): "registered",
    ("misnamed", "sgk-test-misnamed"): "registered",
    ("misspelt_hook", "sgk-test-misspelt-hook"): "registered",
    ("no_device", "sgk-test-no-device"): "registered",
    ("no_manifest", "sgk-test-no-manifest"): "registered",
    ("slow_import", "sgk-test-slow-import"): "registered",
    ("systemexit", "sgk-test-systemexit"): "registered",
    ("wrong_type", "sgk-test-wrong-type"): "registered",
}

# By backend: the code when it is named, a part of the message, and the state afterwards.
NAMED = {
    "bad_api": ("SGK105", "needs plugin API 1.99", "incompatible"),
    "bad_manifest": ("SGK116", "api = 1.0 has the wrong type", "broken"),
    "broken_import": ("SGK103", "ImportError: libnothing.so.1: cannot open shared", "broken"),
    "conflict": ("SGK106", "conflict@sgk-test-conflict-a", "conflict"),
    "misnamed": ("SGK115", "calls itself 'another_name'", "broken"),
    "misspelt_hook": ("SGK191", "did you mean 'subgraphkit_probe'?", "broken"),
    "no_device": ("SGK104", "no imaginary device was found", "unavailable"),
    "systemexit": ("SGK103", "SystemExit: this is not a program", "broken"),
    "wrong_type": ("SGK115", "neither a Backend subclass nor a namespace", "broken"),
}

OPEN = """
import json, sys
from subgraphkit.configuration.config import resolve
from subgraphkit.finding.catalogue import list_backends
from subgraphkit.finding.opening import open_backends
from subgraphkit.errors import SubgraphkitError
told = {}
for name in %r:
    try:
        open_backends(resolve(backend=name))
    except SubgraphkitError as error:
        told[name] = [error.code, str(error)]
states = {record.name: record.state for record in list_backends()}
good = [b.name for b in open_backends(resolve(backend="good_class:level=2,good_hooks,no_manifest"))]
imported = sorted(name for name in sys.modules if name.startswith("sgk_test_"))
print(json.dumps({"told": told, "states": states, "good": good, "imported": imported}))
"""

PROBE = """
import json
from dataclasses import asdict
from subgraphkit.finding.child_probe import probe_in_child
found = probe_in_child(%r, timeout_seconds=%r)
print(json.dumps(asdict(found)))
"""


@pytest.fixture(scope="module")
def opened(run_program: RunProgram) -> Any:
    """Name every bad backend in one process, then bind with the good ones."""
    return run_program(OPEN % (list(NAMED),))


def test_importing_and_listing_import_no_plugin(run_program: RunProgram) -> None:
    program = """
import json, sys
import subgraphkit
from subgraphkit.finding.catalogue import list_backends
listed = [[r.name, r.distribution, r.state] for r in list_backends()]
print(json.dumps([listed, [name for name in sys.modules if name.startswith("sgk_test_")]]))
"""
    listed, imported = run_program(program)
    ours = {(name, place): state for name, place, state in listed if place.startswith("sgk-test-")}
    assert ours == LISTED
    assert imported == []


@pytest.mark.parametrize("name", NAMED)
def test_a_bad_plugin_that_is_named_is_told_by_its_code(name: str, opened: Any) -> None:
    code, text, state = NAMED[name]
    assert opened["told"][name][0] == code
    assert text in opened["told"][name][1]
    assert opened["states"][name] == state


def test_the_good_ones_can_be_used_after_all_others_have_failed(opened: Any) -> None:
    assert opened["good"] == ["good_class", "good_hooks", "no_manifest"]


def test_a_bind_imports_the_plugins_it_names_and_no_others(run_program: RunProgram) -> None:
    assert run_program(OPEN % ([],))["imported"] == [
        "sgk_test_good_class",
        "sgk_test_good_class.backend_options",
        "sgk_test_good_hooks",
        "sgk_test_no_manifest",
    ]


@pytest.mark.parametrize(("name", "timeout_seconds", "state", "code", "text"), [
    ("good_class", 60.0, "ok", "", ""),
    ("good_hooks", 60.0, "ok", "", ""),
    ("no_device", 60.0, "unavailable", "SGK104", "no imaginary device"),
    ("systemexit", 60.0, "error", "SGK103", "this is not a program"),
    ("conflict", 60.0, "error", "SGK106", "several distributions"),
    ("zzz", 60.0, "error", "SGK102", "unknown backend 'zzz'"),
    ("a b", 60.0, "error", "SGK107", "did you mean ','?"),
    ("crash", 60.0, "crash", "SGK320", "SIGABRT"),
    ("slow_import", 2.0, "hang", "SGK321", "did not return within 2 s"),
])  # fmt: skip
def test_a_probe_in_a_child_comes_back_whatever_the_plugin_does(
    name: str, timeout_seconds: float, state: str, code: str, text: str, run_program: RunProgram
) -> None:
    found = run_program(PROBE % (name, timeout_seconds))
    assert (found["name"], found["state"], found["code"]) == (name, state, code)
    assert text in found["text"]
    assert found["seconds"] > 0


def test_what_a_plugin_prints_does_not_spoil_the_findings(run_program: RunProgram) -> None:
    found = run_program(PROBE % ("good_hooks", 60.0))
    assert (found["devices"], found["versions"]) == (["imaginary"], {"library": "1.2"})
    assert found["text"] == ""


def test_the_child_loads_the_libraries_that_the_parent_does_not(run_program: RunProgram) -> None:
    found = run_program(PROBE % ("broken_import", 60.0))
    assert found["missing"] == [
        "shared library 'libnothing.so.1' cannot be loaded: there is nothing to install"
    ]


def test_an_extension_that_fails_is_switched_off_and_named(run_program: RunProgram) -> None:
    program = """
import json, warnings
from subgraphkit.backend import CompileEvent
from subgraphkit.configuration.config import resolve
from subgraphkit.finding.extensions import ExtensionManager
manager = ExtensionManager(resolve())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        manager.notify("subgraphkit_compiled", event=CompileEvent("a", 1, 0.0, subgraph="a_0"))
print(json.dumps([str(warning.message) for warning in caught]))
"""
    (text,) = run_program(program)
    assert text.startswith("[SGK190] extension 'raising_extension' (sgk-test-raising-extension 1.0")
    assert "OSError: no space to note a_0" in text
    assert run_program(program, SUBGRAPH_PLUGINS="none") == []
    assert run_program(program, SUBGRAPH_BLOCK="raising_extension") == []
