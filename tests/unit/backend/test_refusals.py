"""Refusals say something, and ``Unsupported`` carries one."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import ConfigError


def test_a_refusal_is_false_and_says_why():
    refusal = sk.Refusal("dtype", "int64 input, float32 is taken")
    assert not refusal
    assert str(refusal) == "dtype: int64 input, float32 is taken"


@pytest.mark.parametrize(("arguments", "what"), [
    *(((code, "a reason"), "code") for code in (None, "", 1, "two words", "a-b", "unknown")),
    *((("dtype", text), "text") for text in (None, "", "  \n", ["a list"], 1)),
])  # fmt: skip
def test_a_code_or_a_text_that_says_nothing_is_refused(arguments, what):
    with pytest.raises(ConfigError, match=f"the {what} of a Refusal is") as caught:
        sk.Refusal(*arguments)
    assert caught.value.code == "SGK121"
    assert what == "text" or "op_unsupported" in caught.value.hint


def test_line_breaks_become_spaces():
    folded = sk.Refusal("dtype", "first line\n  second\r\nthird")
    assert folded.text == "first line second third"
    assert folded == sk.Refusal("dtype", "first line second third")
    assert sk.Refusal("dtype", "two  spaces").text == "two  spaces"


def test_nodes_given_back_may_be_integers_of_any_kind():
    raised = sk.Unsupported("dilated", nodes=np.array([3, 1]))
    assert raised.nodes == (3, 1)
    assert {type(node) for node in raised.nodes} == {int}
    assert raised.refusal == sk.Refusal("compile_failed", "dilated")
    assert sk.Unsupported("dilated", nodes=(node for node in [2])).nodes == (2,)


def test_what_is_no_node_is_left_for_the_pass_to_name():
    assert sk.Unsupported("odd", nodes=(0, "a")).nodes == (0, "a")  # type: ignore[arg-type]
    assert sk.Unsupported("odd", nodes=12).nodes == 12  # type: ignore[arg-type, comparison-overlap]


def test_a_compiler_may_fail_without_a_word():
    assert sk.Unsupported("").refusal.text == "the backend gave no reason"
