"""What the package asks of TensorRT exists in every release it is made for, or is asked for first.

Eight columns of names were measured on published bindings, TensorRT 10.3 to 11.4 and TensorRT for
RTX; see ``tensorrt_api``.
"""

from dataclasses import fields
from pathlib import Path

import pytest

import subgraphkit_tensorrt
from backends.tensorrt.tests.scanned_names import CALLED, names_defined, names_in, names_used
from backends.tensorrt.tests.tensorrt_api import Api, columns, known_classes, releases
from subgraphkit_tensorrt.library.capabilities import Capabilities, release_of

PACKAGE = Path(subgraphkit_tensorrt.__file__).parent
EVERYWHERE = (1 << len(releases())) - 1
_PATHS = [one.metadata for one in fields(Capabilities) if one.metadata]
GUARDS = [path for one in _PATHS for path in one.values()]


def _capabilities(release):
    api = Api(release)
    return Capabilities.of(api.module(), api.flavour)


@pytest.mark.parametrize(
    ("capability", "where"),
    [
        # one letter per release: 10.3.0 10.6.0 10.8.0 10.13.0 10.16.1 11.0.0 11.4.0 and
        # TensorRT for RTX
        ("load_initializer", "...xxxxx"),
        ("runtime_config", "...xxxxx"),
        ("plugins", "xxxxxxx."),
    ],
)
def test_a_capability_is_seen_in_the_releases_that_have_it(capability, where):
    seen = [bool(getattr(_capabilities(release), capability)) for release in releases()]
    assert "".join("x" if there else "." for there in seen) == where


def test_every_capability_stands_for_a_name_of_some_release():
    assert [path for path in GUARDS if not columns(path)] == []


def test_no_capability_is_the_same_everywhere():
    assert [path for path in GUARDS if "." in path and columns(path) == EVERYWHERE] == []


def test_numbers_of_enumerations_move_so_names_are_kept():
    old, new = (Api(release).module() for release in ("10.3.0", "11.4.0"))
    assert int(old.BuilderFlag.VERSION_COMPATIBLE) != int(new.BuilderFlag.VERSION_COMPATIBLE)


def test_a_library_that_does_not_say_its_version_is_taken_for_a_new_one():
    module = Api("10.3.0").module()
    del module.__version__
    assert Capabilities.of(module, "tensorrt").generation == (11, 0)


def test_what_only_some_releases_have_is_asked_for_first():
    own = names_defined(PACKAGE)  # an object of ours may have the name of one of TensorRT's
    unguarded = [
        f"{where}: {path}"
        for where, path in names_used(PACKAGE)
        if columns(path) != EVERYWHERE
        and not _guarded(path)
        and not (columns(path) == 0 and path.partition(".")[2] in own)
    ]
    assert unguarded == []


def test_the_scan_finds_what_has_no_guard():
    source = (
        "trt.BuilderFlag.FP16; config.set_calibration_profile_(p); trt.Nonsense; builder.bild()"
    )
    found = {path for path in names_in(source) if columns(path) != EVERYWHERE}
    wrong = {"IBuilderConfig.set_calibration_profile_", "Nonsense", "Builder.bild"}
    assert found == {"BuilderFlag.FP16", *wrong} == {path for path in found if not _guarded(path)}


def test_the_scan_reads_the_package():
    assert "Builder.build_serialized_network" in {path for _, path in names_used(PACKAGE)}


def _guarded(path):
    """Say whether a capability, or its absence, implies the name: of its class, or of its time."""
    bits = columns(path)
    owner = path.partition(".")[0]
    alike = [columns(guard) for guard in GUARDS if guard.partition(".")[0] == owner]
    return bits != 0 and (
        bits in map(columns, GUARDS)
        or any(guard and guard & ~bits == 0 for guard in alike)
        or any(guard | bits == EVERYWHERE for guard in alike)
    )


def test_the_usual_names_stand_for_classes_that_exist():
    assert set(CALLED.values()) <= known_classes()


def test_a_version_is_its_numbers_and_nothing_after_them():
    assert release_of("10.7.0.post1") == (10, 7, 0)
    assert release_of(" 11.0.0rc2+cu13") == (11, 0, 0)
    assert release_of("unknown") == ()
