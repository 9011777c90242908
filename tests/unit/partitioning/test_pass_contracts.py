"""Selectors and properties that break their contract are named; the graph stays as it was."""

import re

import pytest

from subgraphkit import errors
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.partitioning import partition
from tests.models import DIAMOND
from tests.unit.partitioning.pass_support import All, backend, bound, regions, selecting, taking


class Stateful(SubgraphSelector):
    def select(self, node):
        return True


def failure(backend, code):
    with pytest.raises(errors.SelectorContractError) as caught:
        partition(bound(DIAMOND), [backend, taking("*", "rest")])
    assert caught.value.code == code
    assert caught.value.backend == "fake"
    assert re.match("property '(main|DescribedProperty)' of backend 'fake'", caught.value.message)
    return caught.value


class Filtering(Stateful):
    """Is offered one node at a time, and keeps what it is told to."""

    def __init__(self, keep):
        self.keep = keep

    def select_output(self, node, consumer):
        return False

    def filter(self, candidates):
        return self.keep(candidates)


def fail(*_):
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("keep", "told"),
    [
        (lambda given: [given[0].graph.nodes[3]],
         "filter returned #3 Add, which was not among its 1 candidates"),
        (lambda given: [node.id for node in given], "filter returned 0, which was not"),
        (lambda _: None, "filter for node #0 Relu returned None, expected the nodes to keep"),
        (lambda _: 7, "filter for node #0 Relu returned 7, expected the nodes to keep"),
        (fail, "filter for node #0 Relu raised ZeroDivisionError: by zero"),
        (lambda given: map(fail, given), "filter for node #0 Relu raised ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_filter_that_keeps_what_is_no_candidate_is_named(keep, told):
    assert told in failure(selecting(lambda _: Filtering(keep)), "SGK121").message


@pytest.mark.parametrize(("keep", "kept"), [
    (tuple, [[0], [1], [2], [3]]),
    (lambda given: (node for node in given if node.id), [[1], [2], [3]]),
    (lambda given: (given.clear(), [])[1], []),
])  # fmt: skip
def test_a_filter_may_return_any_iterable_of_candidates(keep, kept):
    backends = [selecting(lambda _: Filtering(keep)), taking("*", "rest")]
    assert regions(partition(bound(DIAMOND), backends), "fake") == kept


@pytest.mark.parametrize("question", ["select", "select_input", "select_output"])
def test_a_selector_that_raises_is_named_with_the_question(question):
    class Broken(Stateful):
        pass

    setattr(Broken, question, fail)
    if question == "select_input":
        # Seeds come in order, so an input is only offered if the seed is not the first node.
        Broken.select = lambda self, node: node.id > 0  # type: ignore[method-assign]
        Broken.select_output = lambda self, node, consumer: True  # type: ignore[method-assign]
    error = failure(selecting(lambda _: Broken()), "SGK121")
    assert f"{question} for node #" in error.message
    assert "raised ZeroDivisionError: by zero" in error.message
    assert isinstance(error.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("answer", [None, 1, "yes"])
@pytest.mark.parametrize("base", [All, Stateful])
def test_an_answer_that_is_none_is_named(base, answer):
    odd = type("Odd", (base,), {"select": lambda *_: answer})
    error = failure(selecting(lambda _: odd()), "SGK121")
    assert f"select for node #0 Relu returned {answer!r}" in error.message


def raising(*_):
    raise RuntimeError("broken")


def answering(answer):
    return lambda *_: answer


METHODS = ("prepare", "create_selector", "groups", "accept", "finish", "accept_boundary")
NO_ANSWER = "returned None, expected True, False or a Refusal"


@pytest.mark.parametrize(("name", "value", "told"), [
    ("min_nodes", 0, "min_nodes is 0, expected a whole number from 1 on"),
    ("max_nodes", "many", "max_nodes is 'many', expected a whole number from 1 on"),
    ("min_nodes", True, "min_nodes is True, expected a whole number from 1 on"),
    ("connectivity", "none", "connectivity is 'none', expected 'connected' or 'any'"),
    ("name", 5, "'DescribedProperty' of backend 'fake': name is 5"),
    ("max_nodes", 0.5, "max_nodes is 0.5, expected a whole number from 1 on"),
    *((method, raising, f"{method}(?s:.*) raised RuntimeError: broken") for method in METHODS),
    ("accept", answering(None), f"accept for the region that starts at node #.* {NO_ANSWER}"),
    ("accept_boundary", answering(None), f"accept_boundary for node #.* {NO_ANSWER}"),
    ("create_selector", answering(None), "returned None, expected a SubgraphSelector"),
    ("groups", answering(None), "groups returned None, expected sets of indices"),
    ("groups", answering([0, 1]), "groups named 0, expected a set of indices"),
    ("groups", answering(["ab"]), "groups named 'ab', expected a set of indices"),
    ("groups", answering([[0, 99]]), "groups named 99, expected indices of nodes from 0 to 3"),
    ("groups", answering([[True]]), "groups named True, expected indices of nodes from 0 to 3"),
    ("groups", answering([["a"]]), "groups named 'a', expected indices of nodes from 0 to 3"),
])  # fmt: skip
def test_a_property_that_declares_or_answers_nonsense_is_named(name, value, told):
    made = taking("Relu Add", "fake", **{name: value})
    assert re.search(told, failure(made, "SGK122").message)


def test_a_property_that_no_region_can_satisfy_is_named():
    error = failure(taking("*", "fake", min_nodes=3, max_nodes=2), "SGK122")
    assert "min_nodes is 3 and max_nodes is 2, so no region can satisfy both" in error.message


@pytest.mark.parametrize("name", ["min_nodes", "max_nodes", "connectivity", "name"])
def test_a_declaration_that_raises_is_named(name):
    members = {"create_selector": lambda *_: All(), name: property(raising)}
    broken = type("Broken", (SubgraphProperty,), members)
    with pytest.raises(
        errors.SelectorContractError, match=rf"SGK122.*{name} raised RuntimeError: broken"
    ):
        partition(bound(DIAMOND), [backend("fake", broken())])


@pytest.mark.parametrize("name", ["stateless", "splittable"])
def test_a_flag_of_a_selector_that_raises_is_named(name):
    broken = type("Broken", (Stateful,), {name: property(fail)})
    error = failure(selecting(lambda _: broken()), "SGK121")
    assert f"{name} raised ZeroDivisionError: by zero" in error.message


@pytest.mark.parametrize("base", [All, Stateful])
def test_a_coded_error_in_a_question_names_backend_and_node(base):
    class Broken(base):  # type: ignore[misc, valid-type]
        def select(self, node):
            raise errors.ConfigError("SGK108", "the table is malformed", hint="Mend the table.")

    error = failure(selecting(lambda _: Broken()), "SGK121")
    assert "select for node #0 Relu raised ConfigError: the table is malformed" in error.message
    assert error.hint.startswith("Mend the table.\nThis is a fault of the backend")


def test_an_error_that_names_a_backend_passes_as_it_is():
    own = errors.CompileError("SGK130", "the driver is gone", backend="fake")

    class Broken(Stateful):
        def select(self, node):
            raise own

    with pytest.raises(errors.CompileError) as caught:
        partition(bound(DIAMOND), [selecting(lambda _: Broken())])
    assert caught.value is own


def test_the_models_fault_stays_the_models_fault_with_a_note_of_who_met_it():
    class Reading(Stateful):
        def select(self, node):
            raise errors.InvalidModelError("SGK211", "external data of 'w' is missing")

    with pytest.raises(errors.InvalidModelError) as caught:
        partition(bound(DIAMOND), [selecting(lambda _: Reading())])
    assert caught.value.__notes__ == [
        "Raised in select for node #0 Relu, by property 'main' of backend 'fake'."
    ]


def test_a_refusal_that_hides_from_its_check_is_named():
    class Mute(Refusal):
        def __post_init__(self):
            pass

    class No(Stateful):
        def select(self, node):
            return Mute("dtype", "")

    error = failure(selecting(lambda _: No()), "SGK121")
    assert "select for node #0 Relu returned" in error.message
    assert "the text of a Refusal is ''" in error.message


def test_a_stateful_selector_is_asked_in_mxnets_order():
    asked: list[str] = []

    class Recording(SubgraphSelector):
        def select(self, node):
            asked.append(f"select {node.id}")
            return node.id == 1

        def select_input(self, node, producer):
            asked.append(f"input {producer.id} of {node.id}")
            return True

        def select_output(self, node, consumer):
            asked.append(f"output {consumer.id} of {node.id}")
            return True

        def filter(self, candidates):
            asked.append("filter " + " ".join(str(node.id) for node in candidates))
            return candidates

    found = partition(bound(DIAMOND), [selecting(lambda _: Recording())])
    assert regions(found, "fake") == [[0, 1, 2, 3]]
    assert asked == [
        "select 0",
        "select 1",
        "input 0 of 1",
        "output 3 of 1",
        "output 2 of 0",
        "filter 0 1 2 3",
    ]


def test_every_seed_gets_a_new_selector_and_a_stateless_one_serves_all():
    made: list[object] = []

    def make(kind):
        def create(_):
            made.append(kind())
            return made[-1]  # type: ignore[return-value]

        return create

    class No(Stateful):
        def select(self, node):
            return False

    partition(bound(DIAMOND), [selecting(make(No)), taking("*", "rest")])
    assert len(made) >= 4
    made.clear()
    partition(bound(DIAMOND), [selecting(make(All))])
    assert len(made) == 1


def test_nodes_nobody_takes_are_named_with_every_reason_and_a_remedy():
    backends = [taking("Relu Add", "one"), taking("Relu Neg", "two")]
    with pytest.raises(errors.UnclaimedNodesError, match="SGK120") as caught:
        partition(bound(DIAMOND), backends)
    assert caught.value.context["nodes"] == (2,)
    text = str(caught.value)
    assert "1 node is claimed by no backend; asked: one, two" in text
    assert (
        "#2 Abs: one: op_unsupported: operator Abs is not in the list; "
        "two: op_unsupported: operator Abs is not in the list"
    ) in text
    assert 'pip install "subgraphkit[numpy]"' in text


def test_without_any_backend_all_nodes_are_left_over():
    with pytest.raises(errors.UnclaimedNodesError, match="asked: none") as caught:
        partition(bound(DIAMOND), [])
    assert caught.value.context["nodes"] == (0, 1, 2, 3)


def test_prepare_and_finish_are_called_once_for_every_property_that_was_asked():
    first, second, third = taking("*", "one"), taking("*", "two"), taking("*", "three")
    second.properties()[0].min_nodes = 9
    found = partition(bound(DIAMOND), [second, first, third])
    for made, times in ((first, 1), (second, 1), (third, 0)):
        (property_,) = made.properties()
        assert property_.prepared == times  # type: ignore[attr-defined]
        assert property_.finished == [found] * times  # type: ignore[attr-defined]


def test_an_option_that_does_not_fit_the_model_is_no_fault_of_the_backend():
    def prepare(graph, context):
        raise errors.OptionError("SGK112", "option 'only' names 'Rellu'")

    with pytest.raises(errors.OptionError, match="names 'Rellu'"):
        partition(bound(DIAMOND), [taking("*", prepare=prepare)])
