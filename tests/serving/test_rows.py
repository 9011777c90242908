"""Tables go through a session row by row, or it is said why they cannot."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import InputError
from subgraphkit.serving.rows import Rows


def session(models, name):
    return sk.InferenceSession(models / f"{name}.onnx", "numpy")


def table(count):
    return {"id": np.arange(count), "x": np.arange(4.0 * count, dtype=np.float32).reshape(-1, 4)}


def test_outputs_become_columns_beside_those_that_are_kept(models):
    rows = Rows(session(models, "negation"), keep=["id"])
    made = rows(table(3))
    assert list(made) == ["id", "y", "z"]
    assert np.array_equal(made["y"], -table(3)["x"])
    assert made["z"].shape == (3, 2, 2)


def test_columns_and_outputs_may_have_other_names_than_inputs(models):
    rows = Rows(session(models, "negation"), {"x": "pixels"}, {"y": "id"})
    made = rows({"pixels": table(2)["x"]})
    assert list(made) == ["id"]
    assert np.array_equal(made["id"], -table(2)["x"])


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 21])
def test_a_model_for_eight_rows_takes_any_number(models, count):
    made = Rows(session(models, "eight"))(table(count))
    assert np.array_equal(made["y"], -table(count)["x"])


@pytest.mark.parametrize("name", ["negation", "eight"])
def test_no_rows_make_no_rows_of_the_same_types(models, name):
    made = Rows(session(models, name), keep=["id"])(table(0))
    assert made["y"].shape == (0, 4)
    assert made["y"].dtype == np.float32
    assert made["id"].shape == (0,)


def test_lists_and_text_are_rows_as_well(models):
    lists = np.empty(2, object)
    lists[:] = [[1.0, 2.0, 3.0, 4.0], np.float32([5, 6, 7, 8])]
    lists[0] = np.float32(lists[0])
    made = Rows(session(models, "negation"))({"x": lists})
    assert made["y"].tolist() == [[-1, -2, -3, -4], [-5, -6, -7, -8]]
    words = np.array(["so", "long"], object)
    assert Rows(session(models, "text"))({"s": words})["t"].tolist() == ["so", "long"]


def ragged(*rows):
    column = np.empty(len(rows), object)
    column[:] = rows
    return {"x": column}


@pytest.mark.parametrize(("given", "problem"), [
    ({"z": np.zeros((2, 4))}, "there is no column 'x'"),
    (ragged(np.zeros(4, np.float32), None), "has gaps"),
    (ragged(np.zeros(4, np.float32), np.zeros(3, np.float32)), "different shapes"),
    (ragged({}, {}), "no number, text or array"),
])  # fmt: skip
def test_a_table_that_does_not_fit_is_the_callers_error(models, given, problem):
    with pytest.raises(InputError, match=f"SGK340.*{problem}"):
        Rows(session(models, "negation"))(given)


@pytest.mark.parametrize(("name", "words", "problem"), [
    ("negation", {"columns": {"w": "x"}}, "no input 'w'"),
    ("negation", {"outputs": ["w"]}, "no output 'w'"),
    ("negation", {"keep": ["y"]}, "two columns 'y'"),
    ("negation", {"outputs": {"y": "a", "z": "a"}}, "two columns 'a'"),
])  # fmt: skip
def test_what_a_model_cannot_do_with_rows_is_said_before_any_comes(models, name, words, problem):
    with pytest.raises(InputError, match=f"SGK340.*{problem}"):
        Rows(session(models, name), **words)


def test_an_output_that_has_not_a_row_each_is_refused(models):
    whole = session(models, "whole")
    with pytest.raises(InputError, match="'s' is float32\\[\\], which is no column"):
        Rows(whole)
    with pytest.raises(InputError, match="'y' of 3 rows has the shape \\[1, 4\\]: not a row each"):
        Rows(whole, outputs=["y"])(table(3))


def test_what_no_table_holds_is_refused(models):
    with pytest.raises(InputError, match="'y' is bfloat16\\[N,4\\], which is no column"):
        Rows(session(models, "brain"))
