"""The selectors that ship with the core."""

import pytest

import subgraphkit as sk
from subgraphkit.errors import ConfigError
from tests.models import bound

BLOCK = """
block (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y{outputs})
<float[2, 2, 1, 1] w = {{1, 2, 3, 4}}, float[2] s = {{1, 1}}, float[2] b = {{0, 0}},
 float[2] m = {{0, 0}}, float[2] v = {{1, 1}}>
{{
  c = Conv(x, w)
  n = BatchNormalization(c, s, b, m, v)
  r = Relu(n)
  y = {last}
}}
"""
PATTERN = ("Conv", "BatchNormalization?", "Relu|Clip")


def block(last="Neg(r)", outputs=""):
    return bound(BLOCK.format(last=last, outputs=outputs))


def grown(graph, selector, seed=0):
    """Grow from a seed as the partition pass does, without its other checks."""
    if not selector.select(graph.nodes[seed]):
        return []
    taken, queue = {seed}, [seed]
    while queue:
        node = graph.nodes[queue.pop(0)]
        for i in range(len(node.inputs)):
            producer = node.producer(i)
            if producer and producer.id not in taken and selector.select_input(node, producer):
                taken.add(producer.id)
                queue.append(producer.id)
        for consumer in node.consumers():
            if consumer.id not in taken and selector.select_output(node, consumer):
                taken.add(consumer.id)
                queue.append(consumer.id)
    return [node.id for node in selector.filter([graph.nodes[i] for i in sorted(taken)])]


def test_listed_operators_are_taken_and_others_refused_with_a_reason():
    selector = sk.OpSelector(block(), ["Conv", "Relu"])
    assert selector.select(block().nodes[0]) is True
    answer = selector.select(block().nodes[1])
    assert isinstance(answer, sk.Refusal)
    assert answer.code == "op_unsupported"
    assert not answer


def test_a_predicate_may_look_at_the_node():
    def small(node):
        return node.shape(1) == (1, 1, 1, 1) or sk.Refusal("shape", "only one by one")

    answer = sk.OpSelector(block(), {"Conv": small, "Relu": True}).select(block().nodes[0])
    assert str(answer) == "shape: only one by one"


@pytest.mark.parametrize(
    ("last", "outputs", "patterns", "taken"),
    [
        ("Neg(r)", "", [PATTERN], [0, 1, 2]),
        # a side exit is refused, and an exit at the end of the chain is none
        ("Add(r, n)", "", [PATTERN], []),
        ("Add(r, c)", "", [PATTERN], []),
        ("Neg(r)", ", float[1,2,4,4] n", [PATTERN], []),
        ("Add(r, r)", ", float[1,2,4,4] r", [PATTERN], [0, 1, 2]),
        # the first pattern that fits wins
        ("Neg(r)", "", [("Conv", "Relu"), ("Conv", "BatchNormalization")], [0, 1]),
        # a step that may be absent leaves its node to the next step
        ("Neg(r)", "", [("Conv", "BatchNormalization", "Relu?", "Relu")], [0, 1, 2]),
    ],
)
def test_a_pattern_takes_a_whole_chain_or_nothing(last, outputs, patterns, taken):
    graph = block(last, outputs)
    assert grown(graph, sk.PatternSelector(graph, patterns)) == taken
    for seed in (1, 2, 3):
        assert grown(graph, sk.PatternSelector(graph, patterns), seed) == []


def test_a_condition_on_the_nodes_is_asked_of_each():
    graph = block()
    refused = sk.Refusal("attribute", "no normalisation today")
    selector = sk.PatternSelector(
        graph, [PATTERN], lambda node: node.op_type != "BatchNormalization" or refused
    )
    assert selector.select(graph.nodes[0]) is refused


@pytest.mark.parametrize("rule", [None, 1, "yes"])
def test_a_rule_that_is_none_is_refused(rule):
    with pytest.raises(ConfigError, match=r"SGK121.*the rule of OpSelector for operator 'Conv' is"):
        sk.OpSelector(block(), {"Conv": rule})


def test_a_text_is_not_a_collection_of_operators():
    with pytest.raises(ConfigError, match="OpSelector got the text 'Conv'") as error:
        sk.OpSelector(block(), "Conv")
    assert error.value.hint == "Write OpSelector(graph, ['Conv'])."


@pytest.mark.parametrize(("patterns", "problem"), [
    ("Conv", "got the text 'Conv', expected a list of patterns"),
    (["Conv"], "got the pattern 'Conv', expected a list of steps"),
    ([["Conv"], []], "got a pattern without steps"),
])  # fmt: skip
def test_what_is_no_list_of_patterns_is_refused(patterns, problem):
    with pytest.raises(ConfigError, match=f"SGK121.*{problem}"):
        sk.PatternSelector(block(), patterns)


@pytest.mark.parametrize(("patterns", "available", "kept"), [
    ([("Conv", "BatchNormalization", "Relu"), ("Conv", "BatchNormalization")], 2, 2),
    ([("Conv", "BatchNormalization", "Relu?")], 2, 2),
    ([("Conv", "BatchNormalization?", "Relu?")], 1, 1),
    ([("Conv", "BatchNormalization", "Relu"), ("Conv", "BatchNormalization")], 1, 0),
    ([("Conv",), ("Conv", "BatchNormalization")], 2, 1),
])  # fmt: skip
def test_what_cannot_be_had_is_left_out_where_a_shorter_match_remains(patterns, available, kept):
    graph = block()
    selector = sk.PatternSelector(graph, patterns)
    assert selector.select(graph.nodes[0])
    found = selector.filter([graph.nodes[at] for at in range(available)])
    assert [node.id for node in found] == list(range(kept))


def test_a_pattern_that_matches_nothing_says_from_where():
    graph = block()
    selector = sk.PatternSelector(graph, [("Conv", "BatchNormalization", "Clip")])
    for node in (graph.nodes[0], graph.nodes[2]):
        assert (
            str(selector.select(node)) == f"pattern: no pattern matches the chain from {node.label}"
        )
