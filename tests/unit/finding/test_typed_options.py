"""A class takes its options from the manifest of its package, typed; or declares them itself."""

import pytest

from subgraphkit.backend import BindContext, Option, read_manifest
from subgraphkit.backend.contract import option_class_of
from subgraphkit.backend.options import PlainOptions
from subgraphkit.cli import main
from subgraphkit.cli.scaffolding.typed_options import render_options
from subgraphkit.configuration.config import resolve
from subgraphkit.errors import BackendLoadError, OptionError
from subgraphkit.finding.opening import open_backends
from subgraphkit.finding.registry import get_backend

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


def _installed(install, code=CODE):
    package = install("sgk-typed", "sgk_typed", code, ENTRY_POINT, MANIFEST)
    manifest = read_manifest(package / "subgraphkit-backend.toml")
    (package / "backend_options.py").write_text(render_options(manifest), encoding="utf-8")
    return package


def test_a_class_has_the_options_of_its_manifest(install):
    _installed(install)
    backend = get_backend("typed")
    assert [option.name for option in backend.options] == ["level", "size"]
    (opened,) = open_backends(resolve(backend="typed:size=1KiB"))
    assert opened.option_values == option_class_of(backend)(level=1, size=1024)
    assert type(opened.option_values).__module__ == "sgk_typed.backend_options"
    assert BindContext(opened.option_values).options.size == 1024
    with pytest.raises(OptionError, match=r"'levle'.*did you mean 'level'"):
        open_backends(resolve(backend="typed:levle=1"))


def test_options_written_from_another_manifest_are_an_error_with_the_command(install):
    package = _installed(install)
    path = package / "subgraphkit-backend.toml"
    path.write_text(MANIFEST.replace("options.size", "options.length"), encoding="utf-8")
    with pytest.raises(BackendLoadError, match=f"subgraphkit author manifest write {package}"):
        get_backend("typed")


def test_a_class_cannot_declare_options_beside_its_manifest(install):
    _installed(install, CODE.replace('name = "typed"', 'name = "typed"\n    options = ()'))
    with pytest.raises(BackendLoadError, match="Typed declares options that its manifest declares"):
        get_backend("typed")


def test_a_subclass_has_the_options_of_its_base_or_its_own(install):
    _installed(install)
    typed = get_backend("typed")
    assert isinstance(typed, type)
    heir = type("Heir", (typed,), {})
    assert option_class_of(heir) is option_class_of(typed)
    other = type("Other", (typed,), {"options": (Option("depth", int, default=2),)})
    assert other().option_values == PlainOptions(depth=2)


def test_the_options_of_an_installed_backend_are_written_by_its_name(install):
    package = _installed(install)
    (package / "backend_options.py").unlink()
    assert main(["author", "manifest", "check", "typed"]) == 1
    assert main(["author", "manifest", "write", "typed"]) == 0
    assert main(["author", "manifest", "check", "typed"]) == 0
