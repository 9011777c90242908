"""A class takes its options from the manifest of its package, typed; or declares them itself."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from subgraphkit.backend import (
    Backend,
    BindContext,
    Option,
    SubgraphProperty,
    hookimpl,
    parse_manifest,
    read_manifest,
)
from subgraphkit.backend.contract import option_class_of
from subgraphkit.backend.options import PlainOptions
from subgraphkit.cli import main
from subgraphkit.cli.scaffolding.typed_options import option_table, render_options
from subgraphkit.configuration.config import resolve
from subgraphkit.errors import BackendLoadError, OptionError
from subgraphkit.finding.opening import open_backends
from subgraphkit.finding.registry import get_backend, registered
from tests.unit.finding.conftest import Install

MANIFEST = """
name = "typed"
api = "1.0"
[options.level]
type = "int"
default = 1
[options.size]
type = "bytes"
"""
CODE = """
from subgraphkit.backend import Backend
from sgk_typed.backend_options import Options

class Typed(Backend[Options]):
    name = "typed"

    def properties(self):
        return []
"""
ENTRY_POINT = "[subgraphkit.backends]\ntyped = sgk_typed:Typed\n"


def _installed(install: Install, code: str = CODE) -> Path:
    package = install("sgk-typed", "sgk_typed", code, ENTRY_POINT, MANIFEST)
    manifest = read_manifest(package / "subgraphkit-backend.toml")
    (package / "backend_options.py").write_text(render_options(manifest), encoding="utf-8")
    return package


class Plain(Backend):
    """Declares its options itself."""

    name = "plain"
    options = (Option("level", int, default=1),)

    def properties(self) -> Sequence[SubgraphProperty]:
        return []


def test_a_class_has_the_options_of_its_manifest(install: Install) -> None:
    _installed(install)
    backend = get_backend("typed")
    assert [option.name for option in backend.options] == ["level", "size"]
    (opened,) = open_backends(resolve(backend="typed:size=1KiB"))
    assert opened.option_values == option_class_of(backend)(level=1, size=1024)
    assert type(opened.option_values).__module__ == "sgk_typed.backend_options"
    assert BindContext(opened.option_values).options.size == 1024
    with pytest.raises(OptionError, match=r"'levle'.*did you mean 'level'"):
        open_backends(resolve(backend="typed:levle=1"))


def test_without_options_a_class_has_the_defaults(install: Install) -> None:
    _installed(install)
    backend = get_backend("typed")
    assert backend().option_values == option_class_of(backend)()
    assert Plain().option_values == PlainOptions(level=1)


def test_options_written_from_another_manifest_are_an_error_with_the_command(
    install: Install,
) -> None:
    package = _installed(install)
    path = package / "subgraphkit-backend.toml"
    path.write_text(MANIFEST.replace("options.size", "options.length"), encoding="utf-8")
    with pytest.raises(BackendLoadError, match=f"subgraphkit author manifest write {package}"):
        get_backend("typed")


def test_a_class_cannot_declare_options_beside_its_manifest(install: Install) -> None:
    _installed(install, CODE.replace('name = "typed"', 'name = "typed"\n    options = ()'))
    with pytest.raises(BackendLoadError, match="Typed declares options that its manifest declares"):
        get_backend("typed")


def test_a_class_of_options_without_manifest_is_refused() -> None:
    class Options:
        """Made by hand."""

    with pytest.raises(BackendLoadError, match="there is no such file"):

        class Typed(Backend[Options]):
            name = "typed"

            def properties(self) -> Sequence[SubgraphProperty]:
                return []


def test_a_subclass_has_the_options_of_its_base_or_its_own(install: Install) -> None:
    _installed(install)
    typed = get_backend("typed")
    assert isinstance(typed, type)
    heir = type("Heir", (typed,), {})
    assert option_class_of(heir) is option_class_of(typed)
    other = type("Other", (typed,), {"options": (Option("depth", int, default=2),)})
    assert other().option_values == PlainOptions(depth=2)


def test_a_namespace_of_hooks_reads_attributes_too() -> None:
    class Hooks:
        @hookimpl
        def subgraphkit_backend(self, options: PlainOptions) -> Backend:
            return Plain(options)

    with registered(Hooks(), "hooked"):
        factory = get_backend("hooked")
        assert factory().option_values == PlainOptions(level=1)
        (opened,) = open_backends(resolve(backend="hooked:level=3"))
        assert opened.option_values == PlainOptions(level=3)


DECLARED_IN_THE_CLASS = """
from subgraphkit.backend import Backend, Option

class Typed(Backend):
    \"\"\"Runs what it takes. Slowly.\"\"\"

    name = "typed"
    options = (
        Option("level", int, default=1),
        Option("mode", "enum", default="a", choices=("a", "b"), cache=True, help="How."),
    )

    def properties(self):
        return []
"""
FIRST = 'name = "typed"\napi = "1.0"\n'


def test_options_that_a_class_declares_alone_are_found_shown_and_written_into_the_manifest(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    package = install("sgk-typed", "sgk_typed", DECLARED_IN_THE_CLASS, ENTRY_POINT, FIRST)
    assert main(["list", "typed", "--options"]) == 0
    assert "`subgraphkit author manifest write typed` lists them" in capsys.readouterr().out
    assert main(["author", "manifest", "check", "typed"]) == 1
    shown = capsys.readouterr().out
    mode = '[options.mode]\ntype = "enum"\ndefault = "a"\nchoices = ["a", "b"]\n'
    assert f'{mode}help = "How."\ncache = true\n' in shown
    assert "  class Typed(sk.Backend[Options]):" in shown
    assert main(["author", "manifest", "write", "typed"]) == 0
    assert "replace `options = ...`" in capsys.readouterr().out
    manifest = read_manifest(package / "subgraphkit-backend.toml")
    assert manifest.options == get_backend("typed").options
    assert (package / "subgraphkit-backend.toml").read_text("utf-8").startswith(FIRST)
    assert main(["author", "manifest", "check", str(package)]) == 0
    assert "replace" not in capsys.readouterr().out
    assert main(["author", "manifest", "check", "typed"]) == 0
    assert "replace `options = ...`" in capsys.readouterr().out


def test_a_backend_without_a_manifest_is_given_one(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    package = install("sgk-typed", "sgk_typed", DECLARED_IN_THE_CLASS, ENTRY_POINT)
    assert main(["list", "typed", "--options"]) == 0
    assert "there is no manifest" in capsys.readouterr().out
    assert main(["author", "manifest", "write", str(package)]) == 0
    manifest = read_manifest(package / "subgraphkit-backend.toml", "typed")
    assert (manifest.api, manifest.summary) == ((1, 0), "Runs what it takes. Slowly")
    assert [option.name for option in manifest.options] == ["level", "mode"]


def test_a_backend_that_is_no_package_has_no_place_for_a_manifest(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["author", "manifest", "write", "nobody"]) == 3
    install("sgk-other", "sgk_other", CODE, "[subgraphkit.backends]\nother = site:Typed\n")
    assert main(["author", "manifest", "write", "other"]) == 2
    assert "[SGK242] the package of backend 'other' is in no folder" in capsys.readouterr().err


def test_a_table_of_the_manifest_declares_the_option_it_was_written_from() -> None:
    options = (
        Option("on", bool, default=False),
        Option("share", float, default=1e-5, minimum=0, maximum=1, unit="of all"),
        Option("word", str, default='a "b" \\c\n', help="Says 'so'.", expected="a word"),
        Option("kind", "enum", choices=("x", 3, True), default="x", elsewhere={"tool": "--kind"}),
        Option("size", "bytes", default="2KiB", maximum="1GiB", alias="bytes"),
        Option("place", "path", default="/a/b", needs_trust=True),
        Option("names", "list", default=["n", "m"], scope="run"),
        Option("dims", "shapes", default={"x y": (1, "n")}, cache=True),
        Option("flags", "mapping", default={"a": 1, "b": True, "c": "x"}),
        Option("without", int),
    )
    text = FIRST + "".join(map(option_table, options))
    assert parse_manifest(text).options == options
