"""Stand for a process that a fork of ``tests.ready`` is: its end, its signals, its streams.

Started without ``site``, with modules written in C alone, so that it takes milliseconds. Where no
fork can be what is asked for, it becomes the interpreter itself.
"""

import _signal
import _socket
import os
import resource
import sys

LIMITS = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))


def main() -> None:
    """Hand over words, folder, environment, limits and descriptors; then end as the fork does."""
    address, *words = sys.argv[1:]
    door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        door.connect(address)
    except OSError:
        become(words)
    numbers = [number for number in descriptors() if number != door.fileno()]
    limits = [number for name in LIMITS for number in resource.getrlimit(getattr(resource, name))]
    lists = [numbers, limits, words, [f"{name}={text}" for name, text in os.environ.items()]]
    folder = os.getcwd()  # noqa: PTH109 (pathlib takes longer than all of this)
    fields = [folder, *(str(piece) for one in lists for piece in (len(one), *one))]
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
    packet = "\0".join(fields).encode("utf-8", "surrogateescape")
    try:
        door.sendmsg([packet], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        is_taken = door.recv(8) == b"yes"
    except OSError:
        is_taken = False
    if not is_taken:
        become(words)
    for one in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2):
        _signal.signal(one, lambda number, _: send(door, b"%d" % number))
    let_go(numbers)
    status = int(door.recv(16) or b"-9")
    if status < 0:
        _signal.signal(-status, _signal.SIG_DFL) if -status not in (9, 19) else None
        os.kill(os.getpid(), -status)
    os._exit(status)


def send(door: "_socket.socket", message: bytes) -> None:
    """Send what nobody hears if the fork has ended meanwhile, as this does then."""
    try:  # noqa: SIM105 (to import contextlib takes longer)
        door.send(message)
    except OSError:
        pass


def descriptors() -> list[int]:
    """Return what is open."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (as above)
        try:
            os.fstat(int(name))
        except OSError:  # it was the listing itself
            continue
        found.append(int(name))
    return found


def let_go(numbers: list[int]) -> None:
    """Hold nothing open that the fork may close."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in numbers:
        os.dup2(nothing, number)


def become(words: list[str]) -> None:
    """Start the interpreter in this place."""
    os.execv(sys.executable, [sys.executable, *words])


main()
