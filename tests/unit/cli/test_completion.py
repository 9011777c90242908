"""The script that completes what is typed, in the shells themselves where they are installed."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.scripts import run_child

TYPED = {
    "prof": ["profile"],
    "plan model.onnx --expl": ["--explain"],
    "author new": ["new-backend"],
    "plan mod": ["model.onnx"],
    "convert model.onnx --precision ": ["fp16", "bf16", "int8", "fp8"],
    "deploy cache ": ["ls", "verify", "prune", "clear"],
}


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_commands_words_and_files():
    Path("model.onnx").touch()
    made = run_child([sys.executable, "-m", "shtab", "subgraphkit.cli.parser.full_parser"])
    Path("completion.bash").write_text(made.stdout, encoding="utf-8")
    lines = ["set -u", "source completion.bash"]
    for typed in TYPED:
        words = f"subgraphkit {typed}".split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        lines += [f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}"]
        lines += ["_shtab_subgraphkit", 'echo "${COMPREPLY[*]}"']
    done = run_child(["bash", "--norc"], input="\n".join(lines))
    assert done.stdout.splitlines() == [" ".join(offered) for offered in TYPED.values()]
    assert done.stderr == ""
