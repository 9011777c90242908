"""Words: help, examples, suggestions, and what is imported for them."""

import shlex
import subprocess
import sys

import pytest

from subgraphkit.cli.commands import GROUPS, PURPOSES
from subgraphkit.cli.reporting import EXIT_CODES, ExitCode, exit_code_of
from subgraphkit.errors import CODES, CompileError, InternalError, SubgraphkitError
from tests.ready import python_command
from tests.scripts import run_child

HEAVY = ("numpy", "onnx", "networkx", "pluggy", "ml_dtypes", "filelock", "platformdirs")


@pytest.mark.parametrize("command", PURPOSES)
def test_the_help_of_every_command_begins_with_examples_that_can_be_parsed(cli, command):
    ended = cli(*command.split(), "--help")
    assert ended.code == 0
    first, *lines = ended.out.splitlines()[:3]
    assert first == "examples:"
    for line in lines:
        assert f"subgraphkit {command}" in line
        # A word nobody knows is complained about before anything else is done.
        ended = cli(*line.partition("subgraphkit ")[2].split(), "--no-such-option")
        assert "does not take '--no-such-option'" in ended.err


def test_the_commands_are_few():
    assert len([name for name in PURPOSES if " " not in name] + [*GROUPS]) <= 12
    assert len(PURPOSES) <= 18
    for group, purpose in GROUPS.items():
        inner = ", ".join(name.partition(" ")[2] for name in PURPOSES if name.startswith(group))
        assert purpose.endswith(f": {inner}")


@pytest.mark.parametrize(
    "words", [["--help"], ["author", "--help"], ["list", "--all"], ["doctor", "--settings"]]
)
def test_quick_commands_import_nothing_heavy(words):
    program = (
        f"import sys; from subgraphkit.cli import main; code = main({words!r})\n"
        f"print([m for m in {HEAVY} if m in sys.modules], code, file=sys.stderr)"
    )
    done = run_child([sys.executable, "-c", program], status=None)
    assert done.stderr.splitlines()[-1] == "[] 0"


def test_every_error_has_an_exit_code_and_each_of_them_a_meaning():
    assert set(EXIT_CODES) == set(ExitCode)

    def classes(base):
        return [base, *(c for sub in base.__subclasses__() for c in classes(sub))]

    for cls in classes(SubgraphkitError):
        assert exit_code_of(cls) in EXIT_CODES
        assert exit_code_of(cls) is not ExitCode.OK


def test_exit_codes_tell_whose_turn_it_is():
    assert exit_code_of(CompileError("SGK130", "x", backend="b")) is ExitCode.FAILURE
    assert exit_code_of(InternalError("x")) is ExitCode.BUG
    assert exit_code_of(KeyError("x")) is ExitCode.BUG
    assert exit_code_of(KeyboardInterrupt()) == 130
    assert "SGK301" in CODES


@pytest.mark.skipif(sys.platform == "win32", reason="the shell is another one on Windows")
@pytest.mark.parametrize(("redirection", "code", "said"), [
    (">&-", 2, "[SGK301] standard output cannot be written"),
    (">/dev/full", 2, "[SGK301] standard output cannot be written"),
    ("2>&-", 0, ""),
    (">&- 2>&-", 2, ""),
])  # fmt: skip
def test_a_stream_that_takes_nothing_is_told_without_a_traceback(redirection, code, said):
    command = f"exec {shlex.quote(sys.executable)} -m subgraphkit list {redirection}"
    done = run_child(["sh", "-c", command], status=code)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error(linear):
    command = python_command("-m", "subgraphkit", "plan", str(linear), "--backend", "numpy")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        told = child.stderr.read().decode()
    assert child.returncode == 0, told
    assert told == "backends: numpy (from --backend numpy)\n"


COMMAND = """
import subgraphkit as sk

@sk.hookimpl
def subgraphkit_cli(subparsers):
    parser = subparsers.add_parser("greet", help="say something kind")
    parser.add_argument("name")
    parser.set_defaults(handler=greet)
    return parser

def greet(arguments):
    print("hello", arguments.name)
    return 0 if arguments.name == "world" else 1

@sk.hookimpl
def subgraphkit_doctor():
    from subgraphkit.backend import Check
    return [Check("greeting", "failure", "nobody was greeted", "Greet somebody.")]
"""


def test_an_extension_adds_a_command(new_process, install):
    install("greeter", COMMAND, group="subgraphkit.plugins")
    assert new_process("greet", "world").out == "hello world\n"
    assert new_process("greet", "nobody").code == 1
    assert "say something kind" in new_process("--help").out
    assert "did you mean 'greet'" in new_process("gret").err


def test_an_extension_adds_a_check(new_process, install):
    install("greeter", COMMAND, group="subgraphkit.plugins")
    ended = new_process("doctor", "numpy")
    assert ended.code == 1
    assert "nobody was greeted" in ended.out
    assert "1. Greet somebody." in ended.out


@pytest.mark.parametrize(
    "found", ['"nobody"', '[("greeting", "ok", "", "")]', '[Check("greeting", "bad", "nobody")]']
)
def test_what_is_no_check_stops_no_others(new_process, install, found):
    module = COMMAND[: COMMAND.index("    return [Check")] + f"    return {found}\n"
    install("greeter", module, group="subgraphkit.plugins")
    ended = new_process("doctor", "numpy")
    assert (ended.code, ended.err) == (0, "")
    assert "ready on cpu" in ended.out
    assert "an extension found" in ended.out
