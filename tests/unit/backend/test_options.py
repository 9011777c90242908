"""Options: what is declared, what is given, and what comes of it."""

from pathlib import Path

import pytest

from subgraphkit.backend.options import Option, PlainOptions, cache_values, validate_options
from subgraphkit.errors import OptionError

SCHEMA = (
    Option("precision", "enum", "fp32", choices=("fp32", "fp16"), cache=True),
    Option("workspace", "bytes", "1GiB", minimum="16MiB"),
    Option("device", int, 0, minimum=0, maximum=7),
    Option("refit", bool, default=False, cache=True),
    Option("tolerance", float, 1e-3),
    Option("tag", str),
    Option("timing", "path"),
    Option("layers", "list"),
    Option("profiles", "shapes"),
    Option("settings", "mapping", default={}),
)


def read(name, value):
    return validate_options("tensorrt", SCHEMA, {name: (value, "the test")})[name]


def failure(name, value):
    with pytest.raises(OptionError) as caught:
        read(name, value)
    return caught.value


def test_defaults_fill_in_what_is_not_given():
    values = validate_options("tensorrt", SCHEMA, {})
    assert list(values) == [option.name for option in SCHEMA]
    assert values["workspace"] == 2**30
    assert values["tag"] is None


@pytest.mark.parametrize(("name", "given", "typed"), [
    ("precision", "fp16", "fp16"),
    ("workspace", 2**25, 2**25),
    ("workspace", "32MiB", 2**25),
    ("workspace", "1.5 GB", 1_500_000_000),
    ("workspace", "33554432", 2**25),
    ("device", " 3 ", 3),
    ("refit", "on", True),
    ("refit", "0", False),
    ("refit", "No", False),
    ("tolerance", 1, 1.0),
    ("tolerance", "1e-5", 1e-5),
    ("tag", "0", "0"),
    ("timing", "/a/b", Path("/a/b")),
    ("layers", "a, b,", ("a", "b")),
    ("layers", ["a"], ("a",)),
    ("profiles", {"x": [1, "N", None]}, {"x": (1, "N", None)}),
    ("settings", {"a": 1, "b": True, "c": "FULL"}, {"a": 1, "b": True, "c": "FULL"}),
    ("settings", "a=1; b=on;c=FULL;d=0.5", {"a": 1, "b": True, "c": "FULL", "d": 0.5}),
    ("settings", "", {}),
    ("profiles", {"n": [1, [1, 8, 32]]}, {"n": (1, (1, 8, 32))}),
    ("profiles", "x=1x3x224;mask=N,?,4;s=", {"x": (1, 3, 224), "mask": ("N", None, 4), "s": ()}),
])  # fmt: skip
def test_values_are_read_from_python_and_from_text(name, given, typed):
    assert read(name, given) == typed


@pytest.mark.parametrize(("name", "given"), [
    *(("workspace", value) for value in ("lots", -1, True, "1XB")),
    *(("device", value) for value in (True, 1.0, "one")),
    *(("refit", value) for value in (1, "maybe", None)),
    *(("tolerance", value) for value in ("small", False)),
    ("tag", 3),
    *(("timing", value) for value in ("", 3)),
    ("layers", [1]),
    *(("profiles", {"x": value}) for value in ("1x3", [True], [[1, "N"]], [[True]])),
    *(("profiles", value) for value in ("1x3", [1])),
])  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused(name, given):
    error = failure(name, given)
    assert error.code == "SGK111"
    assert repr(given) in error.message
    assert "the test" in error.message


@pytest.mark.parametrize(("name", "given", "expected"), [
    ("precision", "fp8", "one of 'fp32', 'fp16'"),
    ("workspace", "1KiB", "at least 16777216 bytes"),
    ("device", 8, "between 0 and 7"),
    ("device", -1, "between 0 and 7"),
])  # fmt: skip
def test_a_value_out_of_range_is_refused(name, given, expected):
    error = failure(name, given)
    assert error.code == "SGK112"
    assert error.message.endswith(f"expected {expected}")


def test_an_unknown_option_is_answered_with_the_nearest_and_the_list():
    error = failure("precison", "fp16")
    assert error.code == "SGK110"
    assert "did you mean 'precision'?" in error.message
    assert "precision, workspace, device" in error.hint


def test_choices_may_be_numbers_given_as_text_and_limit_them():
    assert Option("bits", "enum", 8, choices=(4, 8)).read("4", "the test") == 4
    with pytest.raises(OptionError, match="one of 1, 2"):
        Option("level", int, 1, choices=(1, 2)).read(3, "the test")


def test_only_options_marked_so_enter_the_cache_key():
    values = validate_options("tensorrt", SCHEMA, {"device": (1, "the test")})
    assert cache_values(SCHEMA, PlainOptions(**values)) == {"precision": "fp32", "refit": False}


@pytest.mark.parametrize("declaration", [
    {"name": "Upper", "type": "int"},
    {"name": "a", "type": "complex"},
    {"name": "a", "type": "enum"},
    {"name": "a", "type": "int", "default": "x"},
    {"name": "a", "type": "int", "default": 0, "minimum": 1},
    {"name": "a", "type": "str", "minimum": 1},
    {"name": "a", "type": "bytes", "minimum": "much"},
    {"name": "a", "type": "int", "scope": "never"},
])  # fmt: skip
def test_a_declaration_that_contradicts_itself_is_refused(declaration):
    with pytest.raises(OptionError, match=r"option 'a'|option 'Upper'"):
        Option(**declaration)
