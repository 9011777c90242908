"""Folders of this user alone, with the files, locks and answers of libraries kept in them.

Any backend may use all of it. Kept files make the next time quicker and never change a result. They
may be gone tomorrow, so nothing is raised if they cannot be read or written.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
