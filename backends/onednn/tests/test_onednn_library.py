"""Finding and checking the library: missing, too old, too new, another one altogether."""

import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

import subgraphkit as sk
from backends.onednn.tests.onednn_road import compile_model, conv_net
from subgraphkit import InferenceSession
from subgraphkit.errors import BackendUnavailableError, OptionError
from subgraphkit_onednn import OnednnBackend
from subgraphkit_onednn.library import LIBRARY_VARIABLE, open_library
from subgraphkit_onednn.threads import Threads
from tests.scripts import run_child

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build a stub with")
VERSION = """
struct version { int major, minor, patch; const char *hash; unsigned cpu, gpu; };
const struct version *dnnl_version(void) {
    static const struct version found = {%d, %d, 0, "", 0, 0};
    return &found;
}
"""


def stub(folder, source):
    code, library = folder / "stub.c", folder / "libdnnl.so.3"
    code.write_text(source)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, code], check=True, timeout=60)
    return library


def test_the_installed_library_is_found_and_recent_enough():
    found = OnednnBackend.probe()
    assert found.available, found.problems
    assert tuple(map(int, found.versions["onednn"].split("."))) >= (3, 2)


def test_a_library_named_by_an_option_and_missing_is_refused_by_its_path(tmp_path):
    nowhere = str(tmp_path / "libdnnl.so.3")
    with pytest.raises(BackendUnavailableError, match=r"there is no library .*libdnnl\.so\.3") as e:
        InferenceSession(conv_net(), backend=f"onednn:library={nowhere}")
    assert e.value.code == "SGK104"
    assert LIBRARY_VARIABLE in e.value.hint


def test_a_library_named_by_the_environment_and_missing_fails_the_probe(monkeypatch):
    monkeypatch.setenv(LIBRARY_VARIABLE, "/nowhere/libdnnl.so.3")
    found = OnednnBackend.probe()
    assert not found.available
    assert "/nowhere/libdnnl.so.3" in found.problems[0]
    assert "pip install onednn-cpu-gomp" in found.hint


def test_a_dry_run_needs_no_library(monkeypatch):
    bound = sk.bind(sk.load(conv_net()))
    found = sk.partition(bound, OnednnBackend)
    monkeypatch.setenv(LIBRARY_VARIABLE, "/nowhere/libdnnl.so.3")
    dry = sk.partition(bound, OnednnBackend, dry_run=True)
    assert found.evidence == dry.evidence
    assert dry.evidence["onednn"] == "declared"
    cut = [[(one.backend, one.nodes) for one in made.subgraphs] for made in (found, dry)]
    assert cut[0] == cut[1]
    with pytest.raises(BackendUnavailableError, match="/nowhere/libdnnl"):
        sk.compile_subgraphs(dry)


def test_importing_the_package_loads_no_library():
    code = "import subgraphkit_onednn, sys; print('libdnnl' in open('/proc/self/maps').read())"
    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc/self/maps on this system")
    found = run_child([sys.executable, "-c", code])
    assert found.stdout.strip() == "False"


@needs_compiler
@pytest.mark.parametrize(("major", "minor"), [(2, 7), (3, 1), (4, 0)])
def test_another_version_is_refused_with_what_was_found_and_what_is_needed(tmp_path, major, minor):
    path = stub(tmp_path, VERSION % (major, minor))
    expected = rf"is oneDNN {major}\.{minor}\.0, at least 3\.2 and below 4 is needed"
    with pytest.raises(BackendUnavailableError, match=expected):
        open_library(path)


@needs_compiler
def test_a_library_without_the_graph_interface_is_refused(tmp_path):
    path = stub(tmp_path, VERSION % (3, 2))
    with pytest.raises(BackendUnavailableError, match="built without oneDNN's graph API"):
        open_library(path)


@needs_compiler
def test_some_other_library_is_refused(tmp_path):
    with pytest.raises(BackendUnavailableError, match="is not oneDNN"):
        open_library(stub(tmp_path, "int something(void) { return 1; }"))


def test_a_file_that_is_no_library_is_refused(tmp_path):
    path = tmp_path / "libdnnl.so.3"
    path.write_text("not a library")
    with pytest.raises(BackendUnavailableError, match="oneDNN cannot be loaded"):
        open_library(path)


def test_threads_are_set_for_the_run_and_given_back():
    library = open_library()
    before = library.max_threads
    operator = compile_model(conv_net(), threads=1)
    assert operator.info()["threads"] == 1
    assert library.max_threads == before


def test_a_negative_number_of_threads_is_refused():
    with pytest.raises(OptionError, match="threads"):
        InferenceSession(conv_net(), backend="onednn:threads=-1")


def test_the_setting_threads_holds_unless_the_option_is_given():
    for given, expected in (({}, 1), ({"threads": 2}, 2)):
        with InferenceSession(
            conv_net(), backend="onednn", options={"onednn": given}, threads=1
        ) as session:
            assert session.plan.steps[0].operator.info()["threads"] == expected


OPENMP = """
import ctypes, os, sys
foreign, said = sys.argv[1:]
if foreign:
    ctypes.CDLL(foreign)
if said:
    os.environ["OMP_WAIT_POLICY"] = said
before = dict(os.environ)
from subgraphkit_onednn import OnednnBackend
from subgraphkit_onednn.backend_options import Options
backend = OnednnBackend(Options())
(property_,) = backend.properties()
assert dict(os.environ) == before
print(property_.library.spins, backend.traits.pool)
"""


@pytest.mark.parametrize(("foreign", "said", "expected"), [
    ("", "", "False sleeps"),
    ("libgomp.so.1", "", "True spins"),
    ("libgomp.so.1", "passive", "False sleeps"),
])  # fmt: skip
def test_threads_sleep_unless_somebody_else_has_loaded_openmp(foreign, said, expected):
    if not open_library().has_openmp or (foreign and find_library("gomp") is None):
        pytest.skip("no OpenMP of GNU")
    done = run_child([sys.executable, "-c", OPENMP, foreign, said])
    assert done.stdout.strip() == expected


def test_threads_that_would_spin_are_ended_after_a_run():
    ended: list[int] = []

    class Spinning:
        spins, max_threads = True, 2

        def set_threads(self, count):
            del count

        def end_threads(self):
            ended.append(1)

    for ends in (False, True):
        assert not Threads(Spinning(), 2, ends=ends).call(ended.copy)  # type: ignore[arg-type]
    assert ended == [1]
