"""The selection grammar and its Python forms."""

import pytest

from subgraphkit.backend import Backend
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import BackendChoice, parse_selection
from subgraphkit.errors import ConfigError


class Alpha(Backend):
    name = "alpha"

    def properties(self):
        return []


@pytest.mark.parametrize(("text", "shown"), [
    ("tensorrt", ["tensorrt"]),
    ("tensorrt,onnxruntime,numpy", ["tensorrt", "onnxruntime", "numpy"]),
    ("tensorrt?,numpy", ["tensorrt?", "numpy"]),
    (" tensorrt , numpy ", ["tensorrt", "numpy"]),
    ("tensorrt:precision=fp16:device=1,numpy", ["tensorrt:precision=fp16:device=1", "numpy"]),
    ("tensorrt@subgraphkit-tensorrt-nightly", ["tensorrt@subgraphkit-tensorrt-nightly"]),
    ("a@b.c_d?:k=x=y:empty=", ["a@b.c_d?:k=x=y:empty="]),
    ("auto", ["auto"]),
    ("a,auto", ["a", "auto"]),
    ("none", []),
])  # fmt: skip
def test_a_text_is_read_by_the_grammar(text, shown):
    assert [str(choice) for choice in parse_selection(text)] == shown


@pytest.mark.parametrize(("text", "problem"), [
    ("tensorrt;numpy", "got 'tensorrt;numpy' at position 8; did you mean ','?"),
    ("tensorrt numpy", "at position 9; did you mean ','?"),
    ("tensorrt|numpy", "at position 8; did you mean ','?"),
    ("a,precision=fp16", "at position 11; did you mean ':' before the option?"),
    ("TensorRT", "at position 0; did you mean 'tensorrt'?"),
    ("a,,b", "at position 2"),
    ("a,", "at position 2"),
    ("", "at position 0"),
    ("a:precision", "at position 2"),
    ("a@", "at position 2"),
    ("a?@dist", "at position 2"),
    ("9a", "at position 0"),
    ("a" * 33, "at position 32"),
    ("none,a", "'none' cannot be combined"),
    ("none:x=1", "'none' takes no"),
    ("auto?", "'auto' takes no"),
    ("a:k=v,b,a:k=v", "backend 'a' is named twice"),
    ("a,a:k=v,a:k=v", "backend 'a' is named twice with the same options"),
])  # fmt: skip
def test_a_text_that_cannot_be_read_is_answered_with_the_place(text, problem):
    with pytest.raises(ConfigError, match="SGK107") as caught:
        parse_selection(text, "the test")
    assert caught.value.message.startswith("cannot read the test: ")
    assert problem in caught.value.message


def test_lists_hold_texts_pairs_classes_and_instances():
    instance = Alpha()
    choices = parse_selection(["x:k=1,y?", ("z@dist", {"shape": (1, 2)}), instance])
    assert [choice.name for choice in choices] == ["x", "y", "z", "alpha"]
    assert choices[2].options == {"shape": (1, 2)}
    assert choices[2].distribution == "dist"
    assert choices[3].target is instance


def test_one_item_needs_no_list():
    assert parse_selection(Alpha)[0].target is Alpha
    assert parse_selection((Alpha, {"k": 1}))[0].options == {"k": 1}
    assert parse_selection(BackendChoice("x"))[0].name == "x"


def test_an_empty_list_selects_nothing():
    assert parse_selection([]) == ()


def test_every_choice_knows_who_made_it():
    assert {choice.origin for choice in parse_selection(["a", ("b", {}), Alpha], "me")} == {"me"}


@pytest.mark.parametrize("selection", [
    3,
    object(),
    [None],
    ("a", {1: 2}),
    (("a", "b"), {}),
    ("a,b", {}),
    ("none", {"k": 1}),
    (Alpha(), {"k": 1}),
    type("Odd", (), {"name": "Bad Name", "properties": list}),
    type("Odd", (), {"name": "auto", "properties": list}),
])  # fmt: skip
def test_anything_else_is_refused(selection):
    with pytest.raises(ConfigError, match="SGK107"):
        parse_selection(selection)


def test_a_backend_that_comes_again_has_a_number_its_options_and_those_of_all():
    several = [("x", {"k": 1}), "y", ("x", {"k": 2})]
    resolved = resolve(backend=several, options={"x": {"other": 3}})
    assert [one.name for one in resolved.backends] == ["x", "y", "x#2"]
    assert [one.backend for one in resolved.backends] == ["x", "y", "x"]
    for name, k in (("x", 1), ("x#2", 2)):
        given = resolved.options_for(name).items()
        assert {key: value for key, (value, _) in given} == {"k": k, "other": 3}
    assert str(parse_selection("x:k=1,x:k=2")[1]) == "x#2:k=2"
    assert resolve(backend="x#2:k=2,y", isolate="x").isolates("x#2")
