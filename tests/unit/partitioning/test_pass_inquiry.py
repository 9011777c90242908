"""Questions that are put in one place, with whoever raises or answers nonsense named."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from subgraphkit.backend.property import BindContext
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.errors import SelectorContractError
from subgraphkit.ir import Node
from subgraphkit.partitioning.claiming.ask import CheckedProperty
from subgraphkit.partitioning.claims import Claim
from tests.models import DIAMOND
from tests.unit.partitioning.pass_support import bound, taking


def inquiry(**answers: Callable[..., object]) -> CheckedProperty:
    made = taking("*")
    (property_,) = made.properties()
    for name, answer in answers.items():
        setattr(property_, name, answer)
    claim = Claim(made, BindContext("fake"), None, is_fallback=False, property_name="main",
                  property=property_)  # fmt: skip
    return CheckedProperty(claim, bound(DIAMOND))


class Filtering(SubgraphSelector):
    def __init__(self, keep: Callable[[Sequence[Node]], Any]) -> None:
        self.keep = keep

    def select(self, node: Node) -> bool:
        return True

    def filter(self, candidates: Sequence[Node]) -> Any:
        return self.keep(candidates)


def filtered(keep: Callable[[Sequence[Node]], Any]) -> set[int]:
    asked = inquiry()
    return asked.filter(Filtering(keep), [asked.graph.nodes[at] for at in (0, 1, 2)])


def failure(call: Callable[[], object], code: str) -> str:
    with pytest.raises(SelectorContractError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.backend == "fake"
    return caught.value.message


def test_a_filter_may_return_any_iterable_of_candidates() -> None:
    assert filtered(lambda nodes: nodes) == {0, 1, 2}
    assert filtered(lambda nodes: (node for node in nodes if node.id)) == {1, 2}
    assert filtered(lambda nodes: ()) == set()


def test_a_filter_that_changes_its_list_changes_nothing_else() -> None:
    asked = inquiry()
    candidates = [asked.graph.nodes[0]]
    assert asked.filter(Filtering(lambda nodes: (nodes.clear(), [])[1]), candidates) == set()  # type: ignore[attr-defined]
    assert len(candidates) == 1


@pytest.mark.parametrize("answer", [None, 7])
def test_a_filter_that_returns_no_nodes_is_told_what_it_returned(answer: object) -> None:
    message = failure(lambda: filtered(lambda nodes: answer), "SGK121")
    assert f"filter for node #0 Relu returned {answer!r}, expected the nodes to keep" in message


def test_a_filter_that_returns_what_was_no_candidate_is_named() -> None:
    foreign = bound(DIAMOND).nodes[3]
    assert "filter returned #3 Add, which was not" in failure(
        lambda: filtered(lambda nodes: [foreign]), "SGK121"
    )
    assert "filter returned 0, which was not" in failure(
        lambda: filtered(lambda nodes: [0]), "SGK121"
    )


@pytest.mark.parametrize("lazily", [True, False])
def test_a_filter_that_raises_is_named_even_if_it_does_so_late(lazily: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    def fail(nodes: Sequence[Node]) -> Any:
        raise ZeroDivisionError("by zero")

    message = failure(
        lambda: filtered((lambda nodes: map(fail, nodes)) if lazily else fail), "SGK121"
    )
    assert "filter for node #0 Relu raised ZeroDivisionError: by zero" in message


@pytest.mark.parametrize("name", ["stateless", "splittable"])
def test_a_flag_that_raises_is_named(name: str) -> None:
    def fail(_: object) -> bool:
        raise RuntimeError("broken")

    class Broken(Filtering):
        pass

    setattr(Broken, name, property(fail))
    message = failure(lambda: inquiry().flag(Broken(list), name), "SGK121")
    assert f"{name} raised RuntimeError: broken" in message
    assert inquiry().flag(Filtering(list), "splittable") is True


def test_groups_may_be_of_any_kind_of_integer_and_collection() -> None:
    asked = inquiry(groups=lambda graph: iter([{2, 0}, np.array([1, 3]), ()]))
    assert [sorted(group) for group in asked.groups()] == [[0, 2], [1, 3], []]
    again = inquiry(groups=lambda graph: [np.array([1, 3])])
    assert {type(node) for group in again.groups() for node in group} == {int}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "groups returned None, expected sets of indices"),
        ([0, 1], "groups named 0, expected a set of indices"),
        (["ab"], "groups named 'ab', expected a set of indices"),
        ([[99]], "groups named 99, expected indices of nodes from 0 to 3"),
        ([[True]], "groups named True, expected indices of nodes from 0 to 3"),
        ([["a"]], "groups named 'a', expected indices of nodes from 0 to 3"),
    ],
)
def test_groups_of_something_else_are_named(answer: object, problem: str) -> None:
    assert problem in failure(inquiry(groups=lambda graph: answer).groups, "SGK122")
