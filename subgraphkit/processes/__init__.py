"""Child processes of our own interpreter, in which a plugin may crash, exit or never return.

Any backend may use them, for a library that does not survive what it is asked.
"""

from subgraphkit.processes.answering_child import AnsweringChild, NoAnswer
from subgraphkit.processes.child_process import Ended, how_it_ended, run_child, stop_child

__all__ = ["AnsweringChild", "Ended", "NoAnswer", "how_it_ended", "run_child", "stop_child"]
