"""Texts for people: names that no terminal obeys, tables as wide as it, and the stream to it.

A name in a model, a plugin or a file may hold anything, such as codes that clear the screen or
forge a message. All text for people passes ``printable``. ``Screen``, a command's one way to a
terminal, catches the rest.
"""

import os
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TextIO, cast

_GAP: Final = "  "
_LAYOUT: Final = "\n\t"
_CUT: Final = "..."
_COMMANDS: Final = ("pip ", "python ", "subgraphkit ")
_ERASE: Final = "\r\x1b[K"
_LEAST: Final = 20
"""Cells to which a column is narrowed before others are moved below."""


def printable(text: str, keep: str = "") -> str:
    """Write codes that a terminal would obey, and line breaks, as escapes: names may hold anything.

    ``keep``: Characters that are left as they are all the same.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else ascii(one)[1:-1] for one in text)


def paragraph(text: str, width: int | None = None) -> str:
    """Make a message printable; its later lines are indented, so that none passes for another."""
    first, *others = printable(text, _LAYOUT).split("\n")
    lines = [first, *(line if line[:2] == "  " else f"  {line}" for line in others)]
    return fold_text("\n".join(lines), width)


def fold_text(text: str, width: int | None) -> str:
    """Let long lines go on in indented ones; no word is broken.

    A line that is a command, or ends with one after a colon, stays in one piece to be copied.
    ``width``: Cells in a line; None for as many as there is text.
    """
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _fold_line(line, width))


def _fold_line(line: str, width: int) -> Iterator[str]:
    bare = line.lstrip(" ")
    is_command = any(part.startswith(_COMMANDS) for part in (bare, bare.partition(": ")[2]))
    if width_of(line) <= width or is_command:
        yield line
        return
    indent = " " * (len(line) - len(bare))
    first, *words = bare.split(" ")
    taken = f"{indent}{first}"
    for word in words:
        if width_of(f"{taken} {word}") <= width:
            taken += f" {word}"
        else:
            yield taken.rstrip()
            taken = f"{indent}  {word}"
    yield taken


def count_of(count: int, noun: str) -> str:
    """Write a number with its noun, in the plural where there is not one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def list_texts(texts: Sequence[str], most: int) -> str:
    """Write the first of some texts in a row, and how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def in_bytes(count: float) -> str:
    """Write a number of bytes in the unit that suits it."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:  # noqa: PLR2004 (the step between the units)
            return f"{count:,.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def in_seconds(seconds: float) -> str:
    """Write a time with three digits, in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def width_of(text: str) -> int:
    """Return how many cells of a terminal a printable text takes: 2 for one that is wide."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(one: str) -> int:
    # the vowels and finals of Hangul are drawn into the letter before them
    if unicodedata.category(one) in {"Mn", "Me"} or "\u1160" <= one <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(one) in {"W", "F"} else 1


def cut_word(word: str, width: int) -> str:
    """Leave the middle out of a printable word that takes more cells than there are."""
    if width_of(word) <= width:
        return word
    letters: list[str] = []
    for one in word:
        if letters and not _cells(one):
            letters[-1] += one  # a mark stays with its letter
        else:
            letters.append(one)
    room = max(width - len(_CUT), 2)
    start = "".join(_fitting(letters, room - room // 2))
    end = "".join(reversed(list(_fitting(reversed(letters), room // 2))))
    return f"{start}{_CUT}{end}"


def _fitting(letters: Iterable[str], room: int) -> Iterator[str]:
    for letter in letters:
        room -= width_of(letter)
        if room < 0:
            return
        yield letter


def aligned(
    rows: Iterable[Sequence[str]],
    right: Iterable[int] = (),
    *,
    width: int | None = None,
    give: Iterable[int] | None = None,
) -> list[str]:
    """Return rows as lines with aligned columns, with any cells.

    If a line has too few cells for them, columns give way in an order. From first to last,
    sentences go on in a further line. Then the middle of long names is left out. Columns that still
    have no room come in a further table below, with the first column repeated. No word is broken.

    Args:
        rows: The headings, then the rows, all of one length.
        right: Places of columns of numbers, aligned on the right; they do not give way.
        width: Cells in a line; None for as many as there is text, where nothing gives way.
        give: Places of the columns that give way, in that order. By default, all that are not in
            ``right``, from the last to the first.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    numbers = frozenset(right)
    count = len(cells[0])
    order = [at for at in reversed(range(count)) if at not in numbers] if give is None else [*give]
    columns = [_Column([row[at] for row in cells]) for at in range(count)]
    # other columns give way, too, if they have no room even beside the first column alone
    reluctant = [at for at in reversed(range(count)) if at not in numbers and at not in order]
    least = [one.least if at in order else one.width for at, one in enumerate(columns)]
    lines: list[str] = []
    for places in _tables(least, width):
        shown = [columns[at] for at in places]
        widths = [column.width for column in shown]
        if width is not None:
            for given in (order, reluctant):
                _trim(widths, shown, [places.index(at) for at in given if at in places], width)
        lines += [""] if lines else []
        for row in cells:
            part = [row[at] for at in places]
            if any(part) or len(part) == count:  # the rest of a row may be in another table
                lines += _lines(part, widths, [at in numbers for at in places])
    return lines


class _Column:
    """The cells of a column: their width, and the widths to which they can be narrowed."""

    def __init__(self, cells: Sequence[str]) -> None:
        self.width = max(map(width_of, cells))
        longest = max((width_of(word) for cell in cells for word in cell.split(" ")), default=0)
        heading = max(map(width_of, cells[0].split(" ")))
        self.unbroken = min(self.width, max(longest, _LEAST))
        self.least = min(self.width, max(heading, _LEAST))
        self.utmost = min(self.least, max(heading, longest))


def _tables(least: Sequence[int], width: int | None) -> list[list[int]]:
    """Divide columns into tables that fit, each with the first column."""
    tables, taken = [[0]], least[0]
    for at, cells in enumerate(least[1:], 1):
        taken += len(_GAP) + cells
        if width is not None and taken > width and len(tables[-1]) > 1:
            tables.append([0])
            taken = least[0] + len(_GAP) + cells
        tables[-1].append(at)
    return tables


def _trim(widths: list[int], columns: Sequence[_Column], order: Sequence[int], width: int) -> None:
    for step in ("unbroken", "least", "utmost"):
        for at in order:
            excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
            if excess > 0:
                widths[at] = min(widths[at], max(getattr(columns[at], step), widths[at] - excess))


def _lines(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """Write one row, in as many lines as its longest cell takes."""
    wrapped = [_wrap_cell(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for line in range(max(map(len, wrapped))):
        padded = []
        for parts, width, is_number in zip(wrapped, widths, right, strict=True):
            text = parts[line] if line < len(parts) else ""
            blanks = " " * (width - width_of(text))
            padded.append(blanks + text if is_number else text + blanks)
        yield _GAP.join(padded).rstrip()


def _wrap_cell(cell: str, width: int) -> list[str]:
    if width_of(cell) <= width:
        return [cell]
    parts: list[str] = []
    for word in cell.split():
        if parts and width_of(f"{parts[-1]} {word}") <= width:
            parts[-1] += f" {word}"
        else:
            parts.append(cut_word(word, width))
    return parts or [""]


_redrawn: Final[set[TextIO]] = set()
"""Terminals whose last line is to be replaced; other output there takes its place too."""


class Screen:
    """A stream on which text is text: codes that a terminal would obey become escapes.

    It does all else as the stream it is over. Characters that the stream cannot encode are escaped
    as well.

    Args:
        stream: Where to write.

    Attributes:
        stream: The same, for text that is not ours.
        is_terminal: Whether a person looks at it, on something that takes control characters.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream: TextIO = stream.stream if isinstance(stream, Screen) else stream
        self.is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    @classmethod
    def over(cls, stream: TextIO) -> TextIO:
        """Return a screen over a stream, as a stream."""
        return cast("TextIO", cls(stream))

    @property
    def width(self) -> int | None:
        """Cells in a line of the terminal; None where there is none, and lines have no end."""
        return shutil.get_terminal_size().columns if self.stream.isatty() else None

    def write(self, text: str) -> int:
        """Write text; nothing in it but line breaks and tabs is obeyed."""
        return self._put(printable(text, _LAYOUT))

    def write_heading(self, text: str) -> int:
        """Write the heading of a table, so that it is seen where there are colours."""
        told = os.environ.get("FORCE_COLOR")
        has_colours = bool(told) or (self.is_terminal and not os.environ.get("NO_COLOR"))
        plain = printable(text)
        return self._put(f"\x1b[1m{plain}\x1b[0m\n" if has_colours else f"{plain}\n")

    def redraw(self, line: str = "") -> None:
        """Write one line in place of the one that is there, on a terminal; below it elsewhere."""
        if self.is_terminal:
            room = (self.width or 80) - 1  # in the last cell some terminals begin a line
            _redrawn.discard(self.stream)
            self._put(f"{_ERASE}{cut_word(printable(line), room)}")
            if line:
                _redrawn.add(self.stream)
        elif line:
            self._put(f"{printable(line)}\n")
        self.stream.flush()

    def _put(self, text: str) -> int:
        encoding = self.stream.encoding or "utf-8"
        if self.stream in _redrawn:
            _redrawn.discard(self.stream)
            self.stream.write(_ERASE)
        self.stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)
