"""Backends by name, and what their distributions say of them."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import subgraphkit.finding.catalogue
import subgraphkit.finding.registry
from subgraphkit import errors
from subgraphkit.backend import Backend, Option, ProbeResult, hookimpl
from subgraphkit.backend.options import PlainOptions
from subgraphkit.cli import main
from subgraphkit.configuration.names import BACKEND_NAMES
from subgraphkit.finding.catalogue import list_backends
from subgraphkit.finding.registry import (
    get_backend,
    refresh_backends,
    register_backend,
    registered,
    unregister_backend,
)

GOOD = """
    from subgraphkit.backend import Backend
    class Good(Backend):
        name = "good"
        def properties(self):
            return []
"""
ENTRY = """
    [subgraphkit.backends]
    good = m_good:Good
"""


class Alpha(Backend):
    """A backend."""

    name = "alpha"
    options = (Option("level", int, 1),)

    def properties(self):
        return []


def state(name, distribution=None):
    (found,) = [
        record.state
        for record in list_backends(all=True)
        if record.name == name and distribution in {None, record.distribution}
    ]
    return found


def code_of(name):
    with pytest.raises(errors.SubgraphkitError) as caught:
        get_backend(name)
    return caught.value.code


def test_an_installed_backend_is_listed_before_it_is_imported(install):
    install("good-dist", "m_good", GOOD, ENTRY, 'name = "good"\napi = "1.0"\nsummary = "s"')
    (record,) = [record for record in list_backends() if record.name == "good"]
    assert (record.state, record.provider) == ("registered", "good-dist 1.0")
    assert record.manifest is not None
    assert record.manifest.summary == "s"
    assert "m_good" not in sys.modules
    assert get_backend("good") is sys.modules["m_good"].Good
    assert state("good") == "loaded"


def test_a_backend_is_loaded_once(install):
    install("good-dist", "m_good", GOOD, ENTRY)
    assert get_backend("good") is get_backend("good@good_dist")


def test_a_published_backend_that_is_absent_is_answered_with_the_install_line(monkeypatch):
    known = {"absent_one": "pip install subgraphkit-absent"}
    monkeypatch.setattr(subgraphkit.finding.registry, "KNOWN_BACKENDS", known)
    monkeypatch.setattr(subgraphkit.finding.catalogue, "KNOWN_BACKENDS", known)
    told = "(?s)SGK101.*pip install subgraphkit-absent"
    with pytest.raises(errors.BackendNotFoundError, match=told):
        get_backend("absent_one")
    assert state("absent_one") == "missing"
    assert "absent_one" not in {record.name for record in list_backends()}


@pytest.mark.parametrize("name", ["auto", "none", "a,b", "a:x=1", "", "default"])
def test_only_one_plain_name_is_taken(name):
    with pytest.raises(errors.ConfigError, match="SGK107"):
        get_backend(name)


def test_a_failed_import_is_remembered_until_refreshed(install):
    code = "import builtins\nbuiltins.sgk_tries += 1\nraise ValueError('bad day')"
    package = install("good-dist", "m_good", code, ENTRY)
    tries = vars(sys.modules["builtins"])
    tries["sgk_tries"] = 0
    try:
        for _ in range(2):
            with pytest.raises(errors.BackendLoadError, match="ValueError: bad day") as caught:
                get_backend("good")
            assert caught.value.code == "SGK103"
            assert isinstance(caught.value.__cause__, ValueError)
        assert (tries["sgk_tries"], state("good")) == (1, "broken")
        (package / "__init__.py").write_text("\n".join(x[4:] for x in GOOD.splitlines()) + "\n#")
        refresh_backends()
        assert get_backend("good").name == "good"
    finally:
        del tries["sgk_tries"]


def test_an_interrupt_is_not_swallowed(install):
    install("good-dist", "m_good", "raise KeyboardInterrupt", ENTRY)
    with pytest.raises(KeyboardInterrupt):
        get_backend("good")
    assert state("good") == "registered"


def test_a_failed_import_names_what_the_manifest_requires(install):
    manifest = 'name = "good"\napi = "1.0"\n[[requires]]\nmodule = "no_such"\npip = "such"'
    install("good-dist", "m_good", "import no_such", ENTRY, manifest)
    assert state("good") == "unavailable"
    told = "Missing:          module 'no_such' is not installed: pip install 'such'"
    with pytest.raises(errors.BackendLoadError, match=told):
        get_backend("good")


@pytest.mark.parametrize(("api", "code"), [("2.0", "SGK105"), ("one", "SGK115")])
def test_without_a_manifest_the_class_tells_its_version(api, code, install):
    install("good-dist", "m_good", GOOD + f"        api = {api!r}\n", ENTRY)
    assert code_of("good") == code


def test_two_distributions_of_one_name_are_told_apart(install):
    install("good-dist", "m_good", GOOD, ENTRY)
    install("other-dist", "m_other", GOOD, ENTRY.replace("m_good", "m_other"))
    assert state("good", "good-dist") == state("good", "other-dist") == "conflict"
    for _ in range(2):
        with pytest.raises(errors.BackendConflictError, match=r"good-dist 1\.0.*other-dist 1\.0"):
            get_backend("good")
        assert get_backend("good@other-dist").__module__ == "m_other"
    with pytest.raises(errors.BackendNotFoundError, match="no distribution 'x' provides"):
        get_backend("good@x")


def test_a_blocked_backend_is_not_imported(install, monkeypatch):
    install("good-dist", "m_good", GOOD, ENTRY)
    monkeypatch.setenv("SUBGRAPH_BLOCK", "good")
    assert state("good") == "blocked"
    with pytest.raises(errors.BackendUnavailableError, match=r"SGK117.*SUBGRAPH_BLOCK='good'"):
        get_backend("good")
    assert "m_good" not in sys.modules


@pytest.mark.parametrize("name", ["Good", "auto", "x" * 33])
def test_an_entry_point_with_a_bad_name_is_listed_as_broken(name, install):
    install("good-dist", "m_good", GOOD, ENTRY.replace("good =", f"{name} ="))
    assert state(name) == "broken"


def test_registering_makes_a_class_known_by_its_name():
    assert register_backend(Alpha) is Alpha
    try:
        assert get_backend("alpha") is Alpha
        assert state("alpha") == "loaded"
        with pytest.raises(errors.BackendLoadError, match=r"SGK115.*name is taken"):
            register_backend(Alpha)
        register_backend(Alpha, replace=True)
    finally:
        unregister_backend("alpha")
    assert code_of("alpha") == "SGK102"
    with pytest.raises(errors.BackendNotFoundError):
        unregister_backend("alpha")


def test_a_class_registered_by_another_name_bears_it():
    with registered(Alpha, "omega"):
        factory = get_backend("omega")
        assert isinstance(factory, type)
        assert issubclass(factory, Alpha)
        assert factory({}).name == "omega"
        assert Alpha.name == "alpha"


def test_a_block_restores_what_was_registered_before():
    class Other(Alpha):
        pass

    with registered(Alpha):
        with registered(Other, replace=True):
            assert get_backend("alpha") is Other
        assert get_backend("alpha") is Alpha
    assert code_of("alpha") == "SGK102"


def test_a_registration_may_take_the_place_of_an_installed_backend(install):
    install("good-dist", "m_good", GOOD, ENTRY)
    with registered(Alpha, "good", replace=True):
        assert issubclass(get_backend("good"), Alpha)
    assert get_backend("good").__module__ == "m_good"


@pytest.mark.parametrize(
    ("backend", "name"),
    [(3, "x"), (object(), "x"), (Alpha, "Bad"), (Alpha, "auto"), (object(), None), (Backend, None)],
)
def test_what_is_no_backend_is_not_registered(backend, name):
    with pytest.raises(errors.BackendLoadError, match="SGK115"):
        register_backend(backend, name)


class Hooks:
    """A namespace with hookimpls."""

    @hookimpl
    def subgraphkit_backend(self, options):
        return Alpha(options)

    @hookimpl
    def subgraphkit_probe(self):
        return ProbeResult(available=True, devices=("imagined",))


def test_a_namespace_with_hooks_is_used_like_a_class():
    with registered(Hooks(), "hooked"):
        factory = get_backend("hooked")
        assert factory.name == "hooked"
        assert [option.name for option in factory.options] == ["level"]
        assert factory.probe().devices == ("imagined",)
        assert factory(PlainOptions(level=3)).option_values.level == 3


def test_a_hook_declares_no_defaults():
    class Defaulted:
        @hookimpl
        def subgraphkit_backend(self, options=None):
            return Alpha(options)

    with pytest.raises(errors.BackendLoadError, match=r"subgraphkit_backend\(options=\.\.\.\)"):
        register_backend(Defaulted(), "defaulted")


def test_a_hook_must_return_a_backend():
    class Empty:
        @hookimpl
        def subgraphkit_backend(self): ...

    with pytest.raises(errors.BackendLoadError, match="returned None, expected a Backend"):
        register_backend(Empty(), "empty")


def test_many_threads_load_a_backend_once(install):
    slow = "import time\ntime.sleep(0.05)\n" + "\n".join(x[4:] for x in GOOD.splitlines())
    install("good-dist", "m_good", slow, ENTRY)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(get_backend, ["good"] * 4))
    assert len(set(map(id, found))) == 1


def test_a_second_package_of_one_of_our_names_is_told_and_not_used(install):
    code = GOOD.replace('"good"', '"numpy"')
    install("acme-numpy", "m_numpy", code, ENTRY.replace("good = m_good", "numpy = m_numpy"))
    told = {one.distribution: one for one in list_backends() if one.name == "numpy"}
    assert told["subgraphkit-numpy"].state in {"registered", "loaded", "ready"}
    assert (error := told["acme-numpy"].error) is not None
    assert error.code == "SGK129"
    assert "numpy@acme-numpy" in error.hint
    assert get_backend("numpy").__module__.startswith("subgraphkit_numpy")
    assert "m_numpy" not in sys.modules
    assert get_backend("numpy@acme-numpy").__module__ == "m_numpy"


def test_metadata_that_cannot_be_read_is_told_and_stops_nobody_else(install, capsys):
    site = install("good-dist", "m_good", GOOD, ENTRY).parent
    damages = {
        "latin": ("entry_points.txt", "[x]\ny = \xe9:z".encode("latin-1")),
        "halved": ("entry_points.txt", b"[subgraphkit.backends]\nno equals sign"),
        "unnamed": ("METADATA", None),
        "garbled": ("METADATA", b"Name: \xff\xfe"),
    }
    for name, (file, content) in damages.items():
        install(f"{name}-dist", f"m_{name}", GOOD, ENTRY.replace("good = m_good", f"{name} = m"))
        damaged = site / f"{name}_dist-1.0.dist-info" / file
        damaged.unlink()
        if content is not None:
            damaged.write_bytes(content)
    endless = site / "endless_dist-1.0.dist-info"
    endless.mkdir()
    os.mkfifo(endless / "entry_points.txt")  # whoever opens it waits for somebody who writes
    extension = site / "extension_dist-1.0.dist-info"
    extension.mkdir()
    (extension / "entry_points.txt").write_text("[subgraphkit.plugins]\nnobody = m_nobody\n")
    refresh_backends()
    errors = BACKEND_NAMES.unreadable()
    assert [error.code for error in errors] == ["SGK128"] * 6
    assert all(any(name in error.message for error in errors) for name in damages)
    assert not {one.name for one in list_backends()} & damages.keys()
    assert get_backend("good") is sys.modules["m_good"].Good
    assert main(["list"]) == 0
    assert capsys.readouterr().err.count("[SGK128]") == 6
