"""What each command does: one module per command, with ``execute(arguments, report)``."""
