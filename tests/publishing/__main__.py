"""What is done before a release, in environments of its own; ``python -m tests.publishing --help``.

It needs ``pip install -e ".[release]"``; the Makefile sees to that.
"""

import argparse
import sys
from collections.abc import Iterable

from tests.jobs import adopt_descendants
from tests.publishing.archives import rehearse
from tests.publishing.pythons import Line, try_lowest, try_pythons


def main() -> int:
    """Do what is asked for; the exit status says whether nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.publishing", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    matrix = commands.add_parser("matrix", help="tests on every Python that is claimed")
    matrix.add_argument("only", nargs="*", metavar="3.N", help="these versions alone")
    for command in (matrix, commands.add_parser("lowest", help="tests with oldest dependencies")):
        command.add_argument("--python", action="append", default=[], help="an interpreter to use")
    commands.add_parser("dry", help="build, compare, check, install and describe; upload nothing")
    words = parser.parse_args()
    adopt_descendants()
    if words.command == "dry":
        return _shown(rehearse())
    if words.command == "matrix":
        return _shown(try_pythons(words.only, words.python))
    return _shown(try_lowest(words.python))


def _shown(lines: Iterable[Line]) -> int:
    """Print each line when it is known, and the count at the end."""
    found = []
    for line in lines:
        sys.stdout.write(f"{line.first:18}{line.what:40}{line.outcome}\n")
        sys.stdout.flush()
        found.append(line.outcome)
    failed = sum(outcome.startswith("FAILED") for outcome in found)
    left = sum(outcome.startswith("left out") for outcome in found)
    passed = len(found) - failed - left
    sys.stdout.write(f"{passed} passed, {failed} failed, {left} left out\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
