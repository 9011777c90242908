"""What the driver tells of the devices, and hearing what the library says."""

import logging
import os
import shutil
import subprocess
import sys

import pytest

from backends.tensorrt.tests.double_road import in_thread
from backends.tensorrt.tests.tensorrt_models import needs_rtx
from subgraphkit.errors import CompileError, ExecutionError
from subgraphkit_tensorrt.library import gpus
from subgraphkit_tensorrt.library.flavours import find
from subgraphkit_tensorrt.library.logger import check, check_run, hear, listening, logger_for

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

DRIVER = r"""
#include <stdlib.h>
#include <string.h>
static int status(void) { char *s = getenv("STUB_STATUS"); return s ? atoi(s) : 0; }
int cuInit(unsigned flags) { return status(); }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuDeviceGetCount(int *n) { char *s = getenv("STUB_COUNT"); *n = s ? atoi(s) : 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = i + 7; return 0; }
int cuDeviceGetName(char *name, int n, int d) {
    strncpy(name, d == 7 ? "Big" : "Small", n); return 0; }
int cuDeviceGetAttribute(int *v, int which, int d) {
    *v = which == 75 ? 8 : which == 76 ? 9 : which == 16 ? 58 : -1; return 0; }
int cuGetErrorName(int status, const char **name) { *name = "CUDA_ERROR_STUB"; return 0; }
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Compile a driver of a few lines."""
    folder = tmp_path_factory.mktemp("driver")
    source = folder / "driver.c"
    source.write_text(DRIVER)
    target = folder / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", target, source], check=True)
    return folder


def _asked(folder, **environment):
    program = "from subgraphkit_tensorrt.library.gpus import machine; print(machine())"
    variables = os.environ | {"LD_LIBRARY_PATH": str(folder)} | environment
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=variables
    )
    return done.stdout


@needs_compiler
def test_the_driver_tells_the_devices(driver):
    said = _asked(driver)
    assert "Gpu(index=0, name='Big', compute_capability=(8, 9), multiprocessors=58)" in said
    assert "Gpu(index=1, name='Small'" in said
    assert "driver='12.4', problem=''" in said


@needs_compiler
@pytest.mark.parametrize(("variables", "problem", "hint"), [
    ({"STUB_COUNT": "0"}, "there is no NVIDIA GPU", "CUDA_VISIBLE_DEVICES"),
    ({"STUB_STATUS": "100"}, "cuInit returned 100 (CUDA_ERROR_STUB)", "CUDA_VISIBLE_DEVICES"),
    ({"STUB_STATUS": "3"}, "cuInit returned 3", "spawn"),
    ({"STUB_STATUS": "999"}, "cuInit returned 999", "nvidia-smi"),
])  # fmt: skip
def test_a_driver_that_cannot_be_used_is_told_with_a_hint(driver, variables, problem, hint):
    said = _asked(driver, **variables)
    assert problem in said
    assert hint in said


def test_an_absent_driver_is_a_state():
    found = gpus.machine()
    if found.devices:
        pytest.skip("there is a GPU")
    assert found.problem
    assert found.hint


# -- the logger ----------------------------------------------------------------------------------


def test_what_tensorrt_says_goes_to_logging(caplog):
    caplog.set_level(logging.DEBUG, "subgraphkit.tensorrt")
    for severity in ("INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE", "NEW"):
        hear(severity, f" about {severity}\n")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "about INTERNAL_ERROR"),
        ("ERROR", "about ERROR"),
        ("INFO", "about WARNING"),
        ("INFO", "about INFO"),
        ("DEBUG", "about VERBOSE"),
        ("INFO", "about NEW"),
    ]


def test_a_listener_hears_warnings_and_errors_of_its_thread_and_of_those_without():
    heard: list[str] = []

    def listen():
        with listening() as theirs:
            hear("ERROR", "of another")
            heard.extend(theirs)

    with listening() as lines:
        hear("ERROR", "of this one")
        hear("INFO", "small talk")
        in_thread(listen)
        in_thread(lambda: hear("WARNING", "of a thread of its own"))
    hear("ERROR", "to nobody")
    assert list(lines) == ["error: of this one", "warning: of a thread of its own"]
    assert heard == ["error: of another"]
    with listening() as outer:  # as one inside it does
        with listening() as inner:
            hear("ERROR", "a")
        hear("ERROR", "b")
    assert (list(inner), list(outer)) == (["error: a"], ["error: a", "error: b"])


def test_a_handler_that_fails_does_not_reach_tensorrt(caplog):
    class Failing(logging.Handler):
        def emit(self, record):
            raise ValueError("no more disk")

    handler = Failing()
    logger = logging.getLogger("subgraphkit.tensorrt")
    logger.addHandler(handler)
    try:
        with listening() as lines:
            hear("ERROR", "still heard")
    finally:
        logger.removeHandler(handler)
    assert list(lines) == ["error: still heard"]


def test_an_error_that_somebody_listens_to_is_logged_as_a_detail(caplog):
    caplog.set_level(logging.DEBUG, "subgraphkit.tensorrt")
    with listening():
        hear("ERROR", "it goes into the exception")
        hear("WARNING", "it goes on")
        in_thread(lambda: hear("ERROR", "of a thread of its own"))
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO", "DEBUG"]


@needs_rtx
def test_the_real_library_talks_through_the_one_logger():
    library = find("tensorrt_rtx").library
    assert library is not None
    assert logger_for(library.trt) is library.logger
    trt = library.trt
    network = trt.Builder(library.logger).create_network(0)
    parser = trt.OnnxParser(network, library.logger)
    with listening() as lines:
        parsed = parser.parse(b"\x08")
    assert not parsed
    with pytest.raises(CompileError, match=r"SGK162.*not read a damaged model") as caught:
        check(parsed, "read a damaged model", lines)
    assert caught.value.context["lines"] == tuple(lines)


# -- checks --------------------------------------------------------------------------------------


def test_what_did_not_fail_is_handed_on():
    assert check(0, "count") == 0
    assert check_run("", "speak") == ""


@pytest.mark.parametrize("result", [None, False])
def test_a_failure_quotes_errors_before_warnings_and_nothing_twice(result):
    lines = ["warning: old", "error: bad", "error: bad", "internal_error: worse"]
    with pytest.raises(CompileError) as caught:
        check(result, "build", lines, hint="Try less.")
    assert str(caught.value) == (
        "[SGK162] TensorRT could not build\n"
        "  It said:\n  error: bad\n  internal_error: worse\n  Try less."
    )
    with pytest.raises(ExecutionError) as ran:
        check_run(result, "run", ["warning: alone"])
    assert str(ran.value) == "[SGK163] TensorRT could not run\n  It said:\n  warning: alone"
    with pytest.raises(CompileError, match="gave no reason"):
        check(result, "build")
