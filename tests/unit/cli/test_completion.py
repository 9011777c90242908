"""The script that completes what is typed, in the shells themselves where they are installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from subgraphkit.cli.commands import PURPOSES
from tests.unit.cli.conftest import Cli

TYPED = {
    "prof": ["profile"],
    "plan model.onnx --expl": ["--explain"],
    "author new": ["new-backend"],
    "plan mod": ["model.onnx"],
    "convert model.onnx --precision ": ["fp16", "bf16", "int8", "fp8"],
    "deploy cache ": ["ls", "verify", "prune", "clear"],
}


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_commands_words_and_files(cli: Cli) -> None:
    Path("model.onnx").touch()
    Path("completion.bash").write_text(cli("--completion", "bash").out, encoding="utf-8")
    lines = ["set -u", "source completion.bash"]
    for typed in TYPED:
        words = f"subgraphkit {typed}".split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        lines += [f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}"]
        lines += ["_shtab_subgraphkit", 'echo "${COMPREPLY[*]}"']
    done = subprocess.run(
        ["bash", "--norc"], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [" ".join(offered) for offered in TYPED.values()]
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "fish", "tcsh", "zsh"])
def test_every_shell_knows_every_command(cli: Cli, shell: str) -> None:
    ended = cli("--completion", shell)
    assert (ended.code, ended.err) == (0, "")
    assert [name for name in PURPOSES if name.rpartition(" ")[2] not in ended.out] == []


def test_without_the_library_the_way_to_it_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    ended = cli("--completion", "bash")
    assert ended.code == 2
    assert "pip install 'subgraphkit[cli]'" in ended.err
