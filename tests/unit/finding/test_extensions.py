"""Extensions: loading, calling, and keeping one from harming the others."""

import pytest

from subgraphkit.backend import Check, CompileEvent, hookimpl
from subgraphkit.configuration.config import resolve
from subgraphkit.errors import InternalError, SubgraphkitWarning
from subgraphkit.finding.extensions import ExtensionManager
from tests.fakes import extended

EVENT = CompileEvent("alpha", 3, 0.5, subgraph="alpha_0")

CODE = """
    from subgraphkit.backend import hookimpl
    seen = []
    @hookimpl
    def subgraphkit_compiled(event):
        seen.append(event)
        return event.subgraph
    @hookimpl
    def subgraphkit_doctor():
        yield 1
        raise OSError("half way")
"""
ENTRY = """
    [subgraphkit.plugins]
    watcher = m_watcher
"""


class Failing:
    @hookimpl
    def subgraphkit_compiled(self):
        raise SystemExit(3)


class Counting:
    def __init__(self):
        self.count = 0

    @hookimpl
    def subgraphkit_compiled(self, event):
        assert event is EVENT
        self.count += 1
        return self.count

    @hookimpl
    def subgraphkit_doctor(self):
        yield Check("count", "ok", str(self.count))


def test_where_nobody_listens_nothing_is_called():
    manager = ExtensionManager(resolve(plugins="none"))
    assert not manager.implements("subgraphkit_compiled")
    assert manager.notify("subgraphkit_compiled", event=EVENT) == []


def test_an_installed_extension_is_called(install):
    install("watch-dist", "m_watcher", CODE, ENTRY)
    manager = ExtensionManager(resolve(plugins={"watcher"}))
    assert manager.implements("subgraphkit_compiled")
    assert not manager.implements("subgraphkit_plan")
    assert manager.notify("subgraphkit_compiled", event=EVENT) == ["alpha_0"]


def test_one_that_fails_is_switched_off_and_the_others_go_on():
    with extended(Counting(), "counting") as counting, extended(Failing(), "Failing"):
        manager = ExtensionManager(resolve(plugins={"Failing", "counting"}))
        pattern = r"SGK190.*'Failing' \(this process\).*SystemExit: 3"
        with pytest.warns(SubgraphkitWarning, match=pattern):
            manager.notify("subgraphkit_compiled", event=EVENT)
        manager.notify("subgraphkit_compiled", event=EVENT)
    assert counting.count == 2
    assert manager.implements("subgraphkit_compiled")


def test_authors_can_have_their_own_error():
    settings = resolve(plugins={"Failing"}, raise_plugin_errors=True)
    with extended(Failing(), "Failing"), pytest.raises(SystemExit):
        ExtensionManager(settings).notify("subgraphkit_compiled", event=EVENT)


def test_a_misspelt_hook_is_warned_of_and_the_rest_works(install):
    install(
        "watch-dist", "m_watcher", CODE.replace("subgraphkit_doctor", "subgraphkit_docter"), ENTRY
    )
    manager = ExtensionManager(resolve(plugins={"watcher"}))
    with pytest.warns(SubgraphkitWarning, match="SGK191.*did you mean 'subgraphkit_doctor'"):
        assert manager.implements("subgraphkit_compiled")


def test_a_hook_with_a_default_is_not_taken():
    class Defaulted:
        @hookimpl
        def subgraphkit_compiled(self, event=None): ...

    with extended(Defaulted(), "defaulted"):
        manager = ExtensionManager(resolve(plugins={"defaulted"}))
        with pytest.warns(SubgraphkitWarning, match=r"subgraphkit_compiled\(event=\.\.\.\)"):
            assert not manager.implements("subgraphkit_compiled")


def test_a_hook_that_does_not_exist_is_our_mistake():
    with pytest.raises(InternalError):
        ExtensionManager(resolve(plugins="none")).implements("subgraphkit_backend")


def test_an_error_in_an_iterator_is_caught_as_well(install):
    install("watch-dist", "m_watcher", CODE, ENTRY)
    manager = ExtensionManager(resolve(plugins={"watcher"}))
    pattern = r"SGK190.*'watcher' \(watch-dist 1\.0, m_watcher\).*subgraphkit_doctor.*half way"
    with pytest.warns(SubgraphkitWarning, match=pattern):
        assert manager.notify("subgraphkit_doctor") == []
