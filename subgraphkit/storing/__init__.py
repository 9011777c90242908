"""Folders of this user alone, with the files, locks and answers of libraries kept in them.

All of it may be used by any backend. What is kept makes the next time quicker and never changes a
result; it may be gone tomorrow, so nothing is raised where it cannot be read or written.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
