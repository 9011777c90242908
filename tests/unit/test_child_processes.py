"""Child processes: what they print is bounded, and functions are called in them."""

import os
import select
import subprocess
import sys
import time

import pytest

from subgraphkit.errors import CallerError
from subgraphkit.processes import Child, NoAnswer, call
from subgraphkit.processes.child_process import KeptEnd, child_environment

CALLED = """import os, subprocess, sys, time
from subgraphkit.errors import CallerError

def flood():
    while True:
        sys.stderr.write("x" * 65536 + "end\\n")

def answer_late():
    sys.stderr.write("early " * 100_000 + "late\\n")
    return 1

def leave_behind(program, path):
    subprocess.Popen([sys.executable, "-c", program, path])
    sys.stderr.write("said")

def double(number):
    print("to the screen")
    return 2 * number

def count(tell, most):
    for number in range(most):
        tell({"at": number})
    return most

def refuse(text):
    raise CallerError("SGK301", text, hint="Do not.")

def end(code):
    os._exit(code)

def sleep_for_ever():
    import time
    time.sleep(3600)

class Counter:
    def __init__(self, start):
        self.number = start

    def add(self, number):
        self.number += number
        return self.number
"""


@pytest.fixture
def called(tmp_path, monkeypatch):
    (tmp_path / "called_in_tests.py").write_text(CALLED)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "called_in_tests"


def test_of_a_child_that_prints_for_ever_the_end_is_kept(called):
    with Child() as child:
        with pytest.raises(NoAnswer) as gone:
            child.call(f"{called}:flood", timeout=1.0)
        assert gone.value.code is None
        assert 0 < len(gone.value.printed) <= 2000
        assert 0 < len(child.printed(100)) <= 100


def test_what_a_child_printed_is_there_however_late_it_is_read(called, monkeypatch):
    read = KeptEnd._read

    def late(end):
        time.sleep(0.5)
        read(end)

    monkeypatch.setattr(KeptEnd, "_read", late)
    with Child() as child:
        child.call(f"{called}:answer_late", timeout=60.0)
        assert child.printed(11) == "early late"


WAIT = """import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


def test_a_process_that_outlives_a_child_is_not_waited_for(called, tmp_path):
    over = tmp_path / "over"
    with Child() as child:
        child.call(f"{called}:leave_behind", WAIT, str(over), timeout=60.0)
        child.finish(60.0)
        assert child.printed() == "said"
        over.touch()


def test_a_function_is_called_in_a_process_of_its_own(called):
    assert call(f"{called}:double", 21, timeout=60.0) == 42


def test_events_of_a_call_arrive_in_order_before_it_returns(called):
    events: list[object] = []
    assert call(f"{called}:count", 3, timeout=60.0, event=events.append) == 3
    assert events == [{"at": 0}, {"at": 1}, {"at": 2}]


def test_a_coded_error_of_a_call_is_raised_with_its_code_and_hint(called):
    with pytest.raises(CallerError, match="no such thing") as raised:
        call(f"{called}:refuse", "no such thing", timeout=60.0)
    assert (raised.value.code, raised.value.hint) == ("SGK301", "Do not.")


def test_an_instance_stays_in_its_child_and_what_it_prints_is_no_answer(called):
    with Child() as child:
        assert child.call(f"{called}:Counter", 5) is None
        assert child.call(f"{called}:Counter.add", 2) == 7
        assert child.call(f"{called}:double", 1) == 2
        assert child.call(f"{called}:Counter.add", 2) == 9
        child.finish(60.0)
        assert child.printed() == "to the screen"


@pytest.mark.parametrize(
    ("function", "given", "code"), [("end", [3], 3), ("sleep_for_ever", [], None)]
)
def test_a_call_that_ends_its_process_or_never_returns_is_no_answer(called, function, given, code):
    with pytest.raises(NoAnswer) as ended:
        call(f"{called}:{function}", *given, timeout=60.0 if given else 1.0)
    assert ended.value.code == code


PARENT = """import os, sys
from subgraphkit.processes import Child
child = Child()
print(child.number, flush=True)
child.call("called_in_tests:sleep_for_ever", timeout=600.0)
"""


def test_a_child_at_work_ends_with_its_parent_however_that_ends(called):
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=child_environment()) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    assert select.select([child], [], [], 60.0)[0], "the child is still at work"
    os.close(child)
