"""Claims rehearsed in a child process, for isolated backends that ask their library about nodes."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress

from subgraphkit.backend.events import FallbackEvent
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.binding.model_process import ProcessEnded, described, with_last_words
from subgraphkit.errors import BackendError
from subgraphkit.partitioning.claiming.claimants import Claim, tell_skipped

__all__ = ["rehearsed"]


def rehearsed(bound: BoundModel, claims: Sequence[Claim], named: dict[str, str]) -> list[Claim]:
    """Return the claims of those who survive what they will be asked.

    Nothing is rehearsed unless an isolated backend among them asks its library.

    Args:
        bound: The bound model.
        claims: The claims in order.
        named: Gets why a backend that somebody named was left out.

    Raises:
        BackendError: One does not, and the setting ``on_compile_error`` says that this is an error
            (SGK136); or it cannot be opened in another process (SGK137).
    """
    claims, isolates = list(claims), bound.settings.isolates
    while any(isolates(one.backend.name) and one.backend.evidence == "asked" for one in claims):
        try:
            _rehearse(bound, claims)
        except BackendError as error:
            left = [claim for claim in claims if claim.backend.name != error.backend]
            lost = len(left) == len(claims) or all(claim.is_fallback for claim in claims)
            if lost or bound.settings.on_compile_error != "fallback":
                raise
            event = FallbackEvent("selection", error.backend, "", error.code, error.message)
            tell_skipped(bound, named, event)
            claims = left
        else:
            break
    return claims


def _rehearse(bound: BoundModel, claims: Sequence[Claim]) -> None:
    backends = {claim.backend.name: claim.backend for claim in claims if not claim.is_fallback}
    chosen = []
    for name, backend in backends.items():
        with nullcontext() if bound.settings.isolates(name) else suppress(BackendError):
            chosen.append(described(bound, backend))
    heard: list[str] = []
    process = bound.process
    with process.lock:
        try:
            process.ready()
            process.ask({"rehearse": chosen}, Progress(lambda event: heard.append(event.message)))
        except ProcessEnded as ended:
            name = heard[-1] if heard else next(iter(backends))
            error = BackendError(
                "SGK136",
                f"the process in which backend {name!r} was asked about the nodes of the model "
                f"ended with {ended.how}",
                backend=name,
                hint="This process goes on. Leave the backend out of the list, or set "
                "on_compile_error='fallback', which does so where it does not survive.",
            )
            raise with_last_words(error, ended) from None
