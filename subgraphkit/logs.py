"""The log: loggers below ``subgraphkit``, printable messages, and standard error where it is asked.

``texts`` is a module of its own: every error needs it, but few processes write a log.
"""

import logging
import sys
from typing import Final

from subgraphkit.texts import Screen, fold_text, paragraph


def logger_of(topic: str) -> logging.Logger:
    """Return the logger ``subgraphkit.TOPIC``; its messages are printable, with any names."""
    logger = logging.getLogger(f"subgraphkit.{topic}")
    logger.addFilter(_made_printable)
    return logger


def show_log(verbose: int) -> None:
    """Write the log to standard error from now on, in this process.

    ``verbose``: 1 for warnings, 2 for events as well, 3 for everything.
    """
    top = logging.getLogger("subgraphkit")
    top.addHandler(_TO_STANDARD_ERROR)  # once, however often
    top.setLevel(_LEVELS[verbose])


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            screen = Screen(sys.stderr)
            screen.write(fold_text(f"{record.name}: {self.format(record)}\n", screen.width))


_LEVELS: Final = {1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}
_TO_STANDARD_ERROR: Final = _ToStandardError()


def _made_printable(record: logging.LogRecord) -> bool:
    told = record.getMessage()
    if (clean := paragraph(told)) != told:
        record.msg, record.args = clean, ()
    return True
