"""The manifest: reading and refusing."""

import pytest

from subgraphkit.backend.manifest import find_manifest, parse_manifest, read_manifest
from subgraphkit.errors import BackendLoadError
from subgraphkit.finding.catalogue import missing_requirements

FULL = """
name = "tensorrt"
api = "1.0"
summary = "NVIDIA TensorRT \\"engines\\""
priority = 300
devices = ["cuda"]
homepage = "h"
docs = "d"
license = "Apache-2.0"
[[requires]]
module = "tensorrt"
min = "10.0"
pip = "subgraphkit-tensorrt[cu12]"
[[requires]]
library = "libcuda.so.1"
hint = "install the NVIDIA driver"
[options.precision]
type = "enum"
choices = ["fp32", "fp16"]
default = "fp32"
scope = "bind"
cache = true
[options.workspace]
type = "bytes"
default = "1GiB"
min = "16MiB"
help = "scratch memory"
"""


def test_a_full_manifest_is_read():
    manifest = parse_manifest(FULL, "tensorrt")
    assert manifest.api == (1, 0)
    assert manifest.priority == 300
    assert manifest.requires[0].minimum == "10.0"
    assert manifest.requires[1].library == "libcuda.so.1"
    assert [option.name for option in manifest.options] == ["precision", "workspace"]
    assert manifest.options[1].default == 2**30


@pytest.mark.parametrize(("text", "problem"), [
    ("name = ", "Invalid value"),
    ('api = "1.0"', "name is missing"),
    ('name = "a"', "api is missing"),
    ('name = "b"\napi = "1.0"', "names backend 'b', but the entry point is called 'a'"),
    ('name = "A"\napi = "1.0"', "not a lower-case identifier"),
    ('name = "a"\napi = "1"', "api = '1'"),
    ('name = "a"\napi = 1.0', "api = 1.0 has the wrong type"),
    ('name = "a"\napi = "1.0"\npriority = true', "priority = True"),
    ('name = "a"\napi = "1.0"\nprioritty = 1', "did you mean 'priority'?"),
    ('name = "a"\napi = "1.0"\ndevices = [1]', "expected texts"),
    ('name = "a"\napi = "1.0"\nrequires = [1]', "requires[0] = 1, expected a table"),
    ('name = "a"\napi = "1.0"\noptions.x = 1', "options.x = 1, expected a table"),
    ('name = "a"\napi = "1.0"\n[[requires]]\npip = "x"', "either a module or a library"),
    ('name = "a"\napi = "1.0"\n[[requires]]\nmodul = "x"', "requires[0].modul is not a key"),
    ('name = "a"\napi = "1.0"\n[options.x]', "options.x.type is missing"),
    ('name = "a"\napi = "1.0"\n[options.x]\ntype = "int"\ndefault = "y"', "option 'x'"),
    ('name = "a"\napi = "1.0"\n[options.x]\ntype = "int"\nminimum = 1', "did you mean 'min'?"),
    ('name = "a"\napi = "1.0"\n[options.x]\ntype = "int"\nhelp = 1', "options.x.help"),
    ('name = "a"\napi = "1.0"\n[options.x]\ntype = "enum"\nchoices = "a"', "has the wrong type"),
    ('name = "a"\napi = "1.0"\n[options.if]\ntype = "int"', "a lower-case identifier"),
    ('name = "a"\napi = "1.0"\n[options.x]\ntype = "int"\nelsewhere = "y"', "wrong type"),
    ('name = "a"\napi = "1.0"\n[options.x]\ntype = "int"\nelsewhere = {y = 1}', "texts"),
    (f'name = "a"\napi = {"[" * 5000}{"]" * 5000}', "RecursionError"),
])  # fmt: skip
def test_a_bad_manifest_is_refused_with_the_place(text, problem):
    with pytest.raises(BackendLoadError, match="SGK116") as caught:
        parse_manifest(text, "a")
    assert caught.value.backend == "a"
    assert problem in caught.value.message


def test_a_manifest_is_read_again_only_once_it_has_changed(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text('name = "a"\napi = "1.0"')
    first = read_manifest(path, "a")
    assert read_manifest(path) is first
    with pytest.raises(BackendLoadError, match=r"names backend 'a', but .* called 'b'"):
        read_manifest(path, "b")
    path.write_text('name = "a"\napi = "1.0"\nsummary = "s"')
    assert read_manifest(path).summary == "s"


def test_the_manifest_is_found_without_importing_the_package(install):
    package = install("x-dist", "x_unimportable", "raise SystemExit(3)", "", FULL)
    assert find_manifest("x_unimportable.inner:Thing") == package / "subgraphkit-backend.toml"


@pytest.mark.parametrize("module", ["no_such_module_anywhere", "json", "sys", "__main__", ""])
def test_a_module_without_a_manifest_has_none(module):
    assert find_manifest(module) is None


def test_missing_requirements_are_named_with_the_remedy():
    text = '[[requires]]\nmodule = "no_such.module"\npip = "such[cu12]"'
    requires = parse_manifest(f'name = "a"\napi = "1.0"\n{text}', "a").requires
    assert missing_requirements(requires, libraries=False) == [
        "module 'no_such' is not installed: pip install 'such[cu12]'"
    ]
    text = '[[requires]]\nlibrary = "libno_such_thing.so"\nhint = "get it"'
    requires = parse_manifest(f'name = "a"\napi = "1.0"\n{text}', "a").requires
    assert missing_requirements(requires, libraries=False) == []
    assert missing_requirements(requires, libraries=True) == [
        "shared library 'libno_such_thing.so' cannot be loaded: get it"
    ]
