"""A total order that can be changed in the middle, with constant-time comparison.

Contracting nodes of a graph moves a few nodes to another place in its topological order. With the
order kept as a linked list whose items carry increasing labels, "does ``a`` come before ``b``" is
``label[a] < label[b]``, and a move costs as much as the items moved.

Source:
    M. A. Bender, R. Cole, E. D. Demaine, M. Farach-Colton, J. Zito, "Two simplified algorithms for
    maintaining order in a list", ESA 2002.
"""

from collections.abc import Sequence

__all__ = ["RunningOrder"]

# Two 30-bit digits: the widest label that CPython still compares at full speed.
_LABEL_BITS = 60


class RunningOrder:
    """The numbers ``0 .. count - 1`` in an order that starts out ascending.

    Attributes:
        label: One increasing label per item; read it, never write it.
        work: Number of items relabelled so far, for budgets.

    Thread-safety: none; one thread at a time.
    """

    __slots__ = ("_after", "_before", "_end", "label", "work")

    def __init__(self, count: int) -> None:
        shift = _LABEL_BITS - 1 - count.bit_length()
        self.label = [(item + 1) << shift for item in range(count)]
        self.work = 0
        # The item ``count`` closes the list to a ring, so that no end is special.
        self._end = count
        self._after = [*range(1, count + 1), 0]
        self._before = [count, *range(count)]

    def remove(self, item: int) -> None:
        """Take an item out; its label means nothing until it is put back."""
        before, after = self._before[item], self._after[item]
        self._after[before] = after
        self._before[after] = before

    def replace(self, item: int, new: int) -> None:
        """Put ``new``, which is not in the order, where ``item`` is, and take ``item`` out."""
        before, after = self._before[item], self._after[item]
        self._after[before] = self._before[after] = new
        self._before[new], self._after[new] = before, after
        self.label[new] = self.label[item]

    def move_before(self, items: Sequence[int], anchor: int) -> None:
        """Move ``items`` directly in front of ``anchor``, in the order given."""
        for item in items:
            self.remove(item)
        self.insert_after(items, self._before[anchor])

    def move_after(self, items: Sequence[int], anchor: int) -> None:
        """Move ``items`` directly behind ``anchor``, in the order given."""
        for item in items:
            self.remove(item)
        self.insert_after(items, anchor)

    def insert_before(self, items: Sequence[int], anchor: int) -> None:
        """Put ``items``, which are not in the order, directly in front of ``anchor``."""
        self.insert_after(items, self._before[anchor])

    def insert_after(self, items: Sequence[int], anchor: int) -> None:
        """Put ``items``, which are not in the order, directly behind ``anchor``."""
        if not items:
            return
        low, high = self._gap(anchor)
        if high - low <= len(items):
            self._spread(anchor, len(items))
            low, high = self._gap(anchor)
        step = (high - low) // (len(items) + 1)
        before, after, label = self._before, self._after, self.label
        last = after[anchor]
        for item in items:
            low += step
            label[item] = low
            after[anchor] = item
            before[item] = anchor
            anchor = item
        after[anchor] = last
        before[last] = anchor
        self.work += len(items)

    def _gap(self, anchor: int) -> tuple[int, int]:
        after = self._after[anchor]
        low = 0 if anchor == self._end else self.label[anchor]
        return low, 1 << _LABEL_BITS if after == self._end else self.label[after]

    def _spread(self, anchor: int, needed: int) -> None:
        """Space out the labels around ``anchor`` until ``needed`` more fit behind each of them."""
        if anchor == self._end:
            anchor = self._after[anchor]
        before, after, label, end = self._before, self._after, self.label, self._end
        first = last = anchor
        count = 1
        low, high = 0, 1 << _LABEL_BITS
        for bits in range(4, _LABEL_BITS + 1, 2):
            low = label[anchor] >> bits << bits
            high = low + (1 << bits)
            while (item := before[first]) != end and label[item] >= low:
                first = item
                count += 1
            while (item := after[last]) != end and label[item] < high:
                last = item
                count += 1
            # A sparse enough range pays for its own relabelling before it fills up again.
            if (count + needed + 1) ** 2 <= high - low:
                break
        self.work += count
        step = (high - low) // (count + 1)
        item = first
        for position in range(1, count + 1):
            label[item] = low + position * step
            item = after[item]
