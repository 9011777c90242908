"""The cache under several processes: one compiles, all are served, who dies blocks nobody."""

import os
import subprocess

import pytest

from subgraphkit.compiling.caching.store import EngineStore
from subgraphkit.storing.files import locked
from tests.ready import python_command
from tests.scripts import ROOT

fcntl = pytest.importorskip("fcntl", reason="this system has no locks between processes")

RACE = """
import sys, time
from pathlib import Path
from tests.storing import Storing
from tests.unit.compiling.conftest import LINEAR, run
Path(sys.argv[1], str(time.monotonic())).touch()
while len(list(Path(sys.argv[1]).iterdir())) < int(sys.argv[2]):
    time.sleep(0.005)
for number in range(3):
    print(run(Storing, LINEAR.replace("-20", str(number)))[1][0].tolist())
"""

KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from subgraphkit.compiling.caching.store import About, Description
from subgraphkit.ir.structure import canonical, data_digest
from subgraphkit.compiling.caching.keying import EngineKey
from subgraphkit.compiling.caching.store import EngineStore

store = EngineStore.open(None)
fields = {"backend": "b", "number": 1}
key = EngineKey(fields, data_digest(canonical(fields)))
contents = [bytes([i]) * 200_000 for i in range(4)]

def write(engine):
    with store.hold_lock(key, 5, lambda: None):
        about = About("m", "s", 1, 0.1, 1.0)
        described = Description(key.digest, fields, len(engine), data_digest(engine), about)
        store.write(described, engine)

def die_at(name, holder, count):
    real = getattr(holder, name)
    def counted(*arguments, **others):
        nonlocal count
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        count -= 1
        return real(*arguments, **others)
    setattr(holder, name, counted)

def child(prepare):
    pid = os.fork()
    if not pid:
        prepare()
        while True:
            write(random.choice(contents))
    return pid

def look():
    try:
        found = store.read(key)
    except Exception as error:
        assert type(error).__name__ == "DamagedError", error
        found = None
    assert found is None or found in contents, "a wrong engine was handed out"
    started = time.monotonic()
    write(contents[0])
    assert time.monotonic() - started < 4, "the lock of the dead was waited for"
    assert store.read(key) == contents[0]

kills = 0
for name, holder in (("open", os), ("fdopen", os), ("fsync", os), ("replace", Path), ("close", os)):
    for count in range(6):
        pid = child(lambda: die_at(name, holder, count))
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        look()
        kills += 1
for _ in range(40):
    pid = child(lambda: None)
    time.sleep(random.random() / 50)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    look()
    kills += 1
assert [entry.problem for entry in store.entries(deep=True)] == [""]
store.remove_left_overs(age=0)
assert len(list(store.folder.iterdir())) == 2, list(store.folder.iterdir())
print(kills)
"""


def start(script, *arguments, **variables):
    return subprocess.Popen(
        python_command("-c", script, *map(str, arguments)),
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_several_processes_at_once_compile_each_engine_once(home):
    told, ready = home / "compilations", home / "ready"
    ready.mkdir()
    processes = [
        start(RACE, ready, 4, COMPILATIONS=str(told), COMPILING_SECONDS="0.3") for _ in range(4)
    ]
    answers = set()
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        answers.add(out)
    assert len(answers) == 1
    assert len(told.read_text().split()) == 3
    store = EngineStore.open(None)
    assert [entry.problem for entry in store.entries(deep=True)] == [""] * 3
    assert not list(store.folder.glob("*.lock"))


def test_a_writer_killed_at_any_moment_leaves_nothing_wrong_and_no_lock():
    process = start(KILLED)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert int(out) == 70


def test_a_folder_in_which_nothing_can_be_locked_is_gone_on_with(home):
    told: list[str] = []
    with locked(home / "missing" / "a.lock", 5, lambda: told.append("waiting")):
        assert told == []
