"""Answers of a library: asked for once, kept for the next process, believed only as written."""

import pytest

from subgraphkit.storing import Answers, Passing, is_machine_fault
from subgraphkit.storing.folders import kept_folder
from subgraphkit.storing.kept_files import forget_answers


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a backend."""
    found = kept_folder(tmp_path / "cache", "acme")
    assert found is not None
    return found


class Library:
    """Counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return ["dtype", "no"]


def known(answers, question, folder=None):
    """Return what was answered before; None if nothing was."""
    return answers.recall(question, lambda: Passing(None), folder)


def _file(folder):
    (path,) = folder.rglob("*.answer")
    return path


def test_a_question_is_asked_once(folder):
    for place in (None, folder):
        answers, library = Answers("answers"), Library()
        assert answers.recall("q", library, place) == answers.recall("q", library, place)
        assert (library.asked, len(answers)) == (1, 1)


def test_an_answer_outlives_who_asked(folder):
    Answers("answers").put(b"q", ["dtype", "no"], folder)
    library = Library()
    assert Answers("answers").recall(b"q", library, folder) == ["dtype", "no"]
    assert known(Answers("answers"), "q", folder) == ["dtype", "no"]
    assert library.asked == 0
    assert known(Answers("others"), "q", folder) is None
    assert known(Answers("answers"), "another", folder) is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "plain JSON"])
def test_a_damaged_file_is_asked_again_and_mended(damage, folder):
    Answers("answers").put("q", ["dtype", "no"], folder)
    path = _file(folder)
    data = path.read_bytes()
    flipped = data[:-8] + bytes([data[-8] ^ 1]) + data[-7:]
    new = {"cut": data[:-3], "flipped": flipped, "empty": b"", "plain JSON": b'["dtype", "yes"]'}
    path.write_bytes(new[damage])
    library = Library()
    assert Answers("answers").recall("q", library, folder) == ["dtype", "no"]
    assert library.asked == 1
    assert path.read_bytes() == data


def test_an_answer_to_another_question_is_not_believed(folder):
    answers = Answers("answers")
    answers.put("other", ["dtype", "yes"], folder)
    other = _file(folder)
    answers.put("q", ["dtype", "no"], folder)
    (path,) = (one for one in folder.rglob("*.answer") if one != other)
    path.write_bytes(other.read_bytes())
    assert known(Answers("answers"), "q", folder) is None


def test_what_the_machine_is_at_fault_for_is_not_remembered(folder):
    answers, library = Answers("answers"), Library()
    assert answers.recall("q", lambda: Passing(["compile", "out of memory"]), folder) == [
        "compile",
        "out of memory",
    ]
    with pytest.raises(MemoryError):
        answers.recall("q", _failing, folder)
    assert len(answers) == 0
    assert list(folder.rglob("*.answer")) == []
    answers.recall("q", library, folder)
    assert library.asked == 1


def _failing():
    raise MemoryError


@pytest.mark.parametrize(("said", "fault"), [
    (MemoryError(), True),
    (OSError(24, "Too many open files"), True),
    (RuntimeError("std::bad_alloc"), True),
    (RuntimeError("bad allocation"), True),
    ("CUDA error: out of memory", True),
    (RuntimeError("no kernel for int16"), False),
    ("memory_format is not supported", False),
])  # fmt: skip
def test_faults_of_the_machine_are_told_from_answers(said, *, fault):
    assert is_machine_fault(said) is fault


def test_what_is_unused_for_longest_goes_first():
    answers, library = Answers("answers", most=3), Library()
    for question in "abca":
        answers.put(question, question)
    answers.put("d", "d")
    assert [known(answers, question) for question in "abcd"] == ["a", None, "c", "d"]
    assert len(answers) == 3
    answers.recall("b", library)
    assert library.asked == 1


def test_files_are_no_more_than_there_is_room_for(folder, monkeypatch):
    monkeypatch.setattr("subgraphkit.storing.kept_files._MOST_FILES", 10)
    answers = Answers("answers")
    for number in range(40):
        answers.put(str(number), number, folder)
        assert len(list(folder.rglob("*.answer"))) <= 10
    assert known(Answers("answers"), "39", folder) == 39


def test_a_folder_that_has_gone_costs_nothing(folder):
    folder.rmdir()
    answers = Answers("answers")
    assert answers.recall("q", Library(), folder) == ["dtype", "no"]
    assert known(answers, "q", folder) == ["dtype", "no"]
    assert not folder.exists()


def test_answers_are_forgotten_and_nothing_else_is_touched(tmp_path, folder):
    cache = tmp_path / "cache"
    assert forget_answers(cache) == 0
    name = f"{'0a' * 32}.answer"
    stays = [folder / "gpu.timings", folder / "learned" / "mine.json", tmp_path / "far" / name]
    old = folder / "learned" / name.replace(".answer", ".json")
    for path in (*stays, folder / "learned" / name, old):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    (folder / "linked").symlink_to(tmp_path / "far", target_is_directory=True)
    assert forget_answers(cache) == 2
    assert not (folder / "learned" / name).exists()
    assert all(path.exists() for path in stays)
