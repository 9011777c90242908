"""When a plugin's classes were defined: what is on disk now may be newer than what runs."""

import time
from typing import Any, ClassVar

__all__ = ["Dated"]


class Dated:
    """Notes when each of its subclasses was defined, which is when its module was loaded."""

    defined_at: ClassVar[float] = 0.0
    """Moment of the definition of this class, in seconds since 1970."""

    def __init_subclass__(cls, **words: Any) -> None:
        """Note the moment."""
        super().__init_subclass__(**words)
        cls.defined_at = time.time()
