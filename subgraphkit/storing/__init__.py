"""Folders of this user alone, with the files, locks and answers of libraries kept in them.

All of it may be used by any backend. What is kept makes the next time quicker and never changes a
result; it may be gone tomorrow, so nothing is raised where it cannot be read or written.
"""

from subgraphkit.storing.answers import Answers, Passing, is_machine_fault
from subgraphkit.storing.kept_files import KeptFile
from subgraphkit.storing.locks import locked

__all__ = ["Answers", "KeptFile", "Passing", "is_machine_fault", "locked"]
