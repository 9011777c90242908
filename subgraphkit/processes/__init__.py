"""Child processes of our own interpreter, in which a plugin may crash, exit or never return.

Any backend may use them, for a library that does not survive its work.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
