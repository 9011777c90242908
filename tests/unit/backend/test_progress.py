"""Progress is reported to whoever asks, and carries the wish to stop."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Progress, ProgressEvent
from tests.fakes import ReferenceOperator, claiming, extended
from tests.models import CHAIN, parsed


def test_a_listener_gets_every_event():
    told: list[ProgressEvent] = []
    progress = Progress(told.append)
    progress("compiling", 1, 2, "numpy_0")
    progress.cancel()
    progress("compiling", 2)
    assert told == [
        ProgressEvent("compiling", 1, 2, "numpy_0"),
        ProgressEvent("compiling", 2, None, "", cancelled=True),
    ]


def test_extensions_hear_of_progress_whoever_else_listens():
    heard: list[ProgressEvent] = []

    class Listening:
        @sk.hookimpl
        def subgraphkit_progress(self, event):
            heard.append(event)

    told: list[ProgressEvent] = []
    with extended(Listening()):
        for progress in (None, Progress(told.append)):
            sk.InferenceSession(parsed(CHAIN), "numpy", progress=progress).close()
    assert heard == 2 * told
    assert {one.phase for one in heard} == {"compiling"}


def compile_and_tell(self, subgraph, context):
    context.progress("thinking", 1, 2, subgraph.id)
    return ReferenceOperator(subgraph)


def test_every_subgraph_is_reported_before_it_is_compiled_and_backends_report_meanwhile():
    told: list[ProgressEvent] = []
    backend = claiming(["Relu"], "telling", create_operator=compile_and_tell)
    with sk.InferenceSession(
        parsed(CHAIN), [backend, "numpy"], progress=Progress(told.append)
    ) as session:
        session.run(None, {"x": np.ones((1, 4), np.float32)})
    first = {"subgraph": "telling_0", "backend": "telling"}
    last = {"subgraph": "telling_2", "backend": "telling"}
    assert {event.model for event in told} == {session.graph.name}
    assert told == [
        ProgressEvent("compiling", 0, 3, "telling_0", **first),
        ProgressEvent("thinking", 1, 2, "telling_0", **first),
        ProgressEvent("compiling", 1, 3, "numpy_1", subgraph="numpy_1", backend="numpy"),
        ProgressEvent("compiling", 2, 3, "telling_2", **last),
        ProgressEvent("thinking", 1, 2, "telling_2", **last),
        ProgressEvent("compiling", 3, 3),
    ]


def test_compiling_stops_before_the_next_subgraph_and_closes_what_there_is():
    progress = Progress(lambda event: progress.cancel() if event.phase == "thinking" else None)
    made: list[ReferenceOperator] = []

    def compile_and_note(*given):
        made.append(compile_and_tell(*given))
        return made[-1]

    noting = claiming(["Relu"], "telling", create_operator=compile_and_note)
    partitioning = sk.partition(sk.bind(sk.load(parsed(CHAIN)), backend=[noting, "numpy"]))
    with pytest.raises(KeyboardInterrupt):
        sk.compile_subgraphs(partitioning, progress=progress)
    assert [one.closed for one in made] == [1]
