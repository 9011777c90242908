"""Write text with a small decoder, character by character, and time it beside ONNX Runtime."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from decoder import CACHE_SHAPE, LENGTH, build_decoder, cache_names, read_weights

import subgraphkit

Choose = Callable[[npt.NDArray[np.float32]], int]


class Caches:
    """Keys and values of all layers: one buffer each, which every step reads and writes."""

    def __init__(self) -> None:
        self.arrays = [np.zeros(CACHE_SHAPE, np.float32) for _ in cache_names("past")]
        self.filled = 0


class Decoder:
    """A session with its caches bound once.

    Args:
        session: A session of subgraphkit or of ONNX Runtime: they have the same methods.
        caches: The caches; two decoders may share them.
    """

    def __init__(self, session: Any, caches: Caches) -> None:
        vocabulary = session.get_outputs()[0].shape[-1]
        self._session, self._caches = session, caches
        self._binding = session.io_binding()
        self._last, self._total = np.zeros(1, np.int32), np.zeros((), np.int32)
        for past, present, array in zip(
            cache_names("past"), cache_names("present"), caches.arrays, strict=True
        ):
            self._binding.bind_cpu_input(past, array)
            self._bind_buffer(present, array)
        self._scores = np.empty((1, vocabulary), np.float32)
        self._bind_buffer("scores", self._scores)

    def step(self, ids: list[int]) -> npt.NDArray[np.float32]:
        """Read characters and return the scores of the next one."""
        self._caches.filled += len(ids)
        self._last[:], self._total[...] = self._caches.filled - 1, self._caches.filled
        self._binding.bind_cpu_input("ids", np.array([ids]))
        self._binding.bind_cpu_input("last", self._last)
        self._binding.bind_cpu_input("total", self._total)
        self._session.run_with_iobinding(self._binding)
        scores: npt.NDArray[np.float32] = self._scores[0]
        return scores

    def _bind_buffer(self, name: str, array: npt.NDArray[np.float32]) -> None:
        self._binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)


def greedy(scores: npt.NDArray[np.float32]) -> int:
    """Choose the best character."""
    return int(scores.argmax())


def sampling(temperature: float, seed: int) -> Choose:
    """Return a function that draws a character by its probability."""
    rng = np.random.default_rng(seed)

    def choose(scores: npt.NDArray[np.float32]) -> int:
        shares = np.exp((scores - scores.max()) / temperature, dtype=np.float64)
        return int(rng.choice(len(shares), p=shares / shares.sum()))

    return choose


def write(prefill: Decoder, decode: Decoder, ids: list[int], choose: Choose) -> Iterator[int]:
    """Read a prompt with one decoder and write with another, until the caches are full."""
    chosen = choose(prefill.step(ids))
    yield chosen
    for _ in range(LENGTH - len(ids) - 1):
        chosen = choose(decode.step([chosen]))
        yield chosen


def timed(
    prefill: Any, decode: Any, ids: list[int], count: int, choose: Choose, say: Callable[[int], Any]
) -> tuple[list[int], float]:
    """Write ``count`` characters, telling each; return them and how many came in a second."""
    caches = Caches()
    reader, writer = Decoder(prefill, caches), Decoder(decode, caches)
    begin = time.perf_counter()
    found = []
    for _, chosen in zip(range(count), write(reader, writer, ids, choose), strict=False):
        found.append(chosen)
        say(chosen)
    return found, len(found) / (time.perf_counter() - begin)


def main() -> None:
    """Write text, then write it again with ONNX Runtime by itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", default="The backend")
    parser.add_argument("--count", type=int, default=110, help="characters to write")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the best")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="onnxruntime", help="backend of every step")
    parser.add_argument("--prefill-backend", help="backend that reads the prompt; else the same")
    args = parser.parse_args()

    characters, weights = read_weights(Path(__file__).with_name("weights.npz"))
    unknown = sorted(set(args.prompt) - set(characters))
    if unknown or not 0 < len(args.prompt) < LENGTH:
        parser.error(f"the prompt has 1 to {LENGTH - 1} characters, and none of {unknown}")
    ids = [characters.index(one) for one in args.prompt]
    model = build_decoder(weights)

    def chosen() -> Choose:
        return sampling(args.temperature, args.seed) if args.temperature > 0 else greedy

    def say(one: int) -> None:
        print(characters[one], end="", flush=True)

    print(args.prompt, end="")
    with (
        subgraphkit.InferenceSession(model, args.backend) as decode,
        subgraphkit.InferenceSession(model, args.prefill_backend or args.backend) as prefill,
    ):
        text, speed = timed(prefill, decode, ids, args.count, chosen(), say)
    print(f"\n\n{args.backend}: {speed:,.0f} characters a second")
    try:
        import onnxruntime  # noqa: PLC0415 (only to compare with)
    except ImportError:
        sys.exit(0)
    plain = onnxruntime.InferenceSession(model.SerializeToString())
    same, other = timed(plain, plain, ids, args.count, chosen(), lambda _: None)
    print(f"ONNX Runtime by itself: {other:,.0f}, {'the same' if same == text else 'another'} text")


if __name__ == "__main__":
    main()
