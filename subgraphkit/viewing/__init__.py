"""Viewing: plain data turned into one HTML page, or into a piece of one for a notebook.

Nothing of the road is known here. A room that has something to show makes sections of it: ``Text``,
``Facts``, ``Table`` and ``Drawing``. ``page`` writes them as a file that needs nothing else, and
``fragment`` as HTML without a frame and without a script, as ``_repr_html_`` returns it.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "Arrow": "subgraphkit.viewing.sections",
    "Box": "subgraphkit.viewing.sections",
    "Drawing": "subgraphkit.viewing.sections",
    "Facts": "subgraphkit.viewing.sections",
    "Section": "subgraphkit.viewing.sections",
    "Table": "subgraphkit.viewing.sections",
    "Text": "subgraphkit.viewing.sections",
    "colours_of": "subgraphkit.viewing.drawing",
    "fragment": "subgraphkit.viewing.pages",
    "page": "subgraphkit.viewing.pages",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
