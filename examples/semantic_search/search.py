"""Rank sentences by how close their meaning is to a query.

Run as a script, it embeds a few built-in sentences, or the lines of a file, and prints the best
matches for a query. The encoder runs on subgraphkit.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx
from encoder import OUTPUT, build_encoder, model_directory
from tokenizers import Tokenizer

import subgraphkit

QUERY = "How can I get a better night's rest?"
SENTENCES = (
    "Keep the bedroom dark and put your phone away an hour before going to bed.",
    "Drinking coffee in the evening makes it harder to fall asleep.",
    "The night bus leaves from the main station at half past eleven.",
    "You can get a better price if you book the tickets early.",
    "She planted tomatoes and basil on the balcony.",
    "The central bank raised interest rates to slow inflation.",
    "Whisk the egg whites until they form stiff peaks.",
    "The goalkeeper saved a penalty in the last minute.",
    "A telescope with a wide mirror gathers more light from distant galaxies.",
    "The test suite fails because a dependency is missing.",
)


class Session(Protocol):
    """The part of an inference session that the search uses."""

    def run(self, output_names: Sequence[str] | None, input_feed: dict[str, Any]) -> Sequence[Any]:
        """Run the model on the fed inputs and return the outputs of those names."""
        ...


class SentenceEncoder:
    """Turns sentences into vectors whose dot products measure how close their meanings are."""

    def __init__(self, directory: Path, open_session: Callable[[onnx.ModelProto], Session]) -> None:
        """Build the encoder and open a session on it.

        Args:
            directory: The folder with the weights, the tokenizer and their settings.
            open_session: What turns a model into something that runs it, such as
                `subgraphkit.InferenceSession`.

        Raises:
            FileNotFoundError: The folder lacks a file.
            ValueError: The folder holds an encoder of another architecture.
        """
        self._tokenizer = _tokenizer(directory)
        self._session = open_session(build_encoder(directory))

    def embed(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed sentences in one batch.

        Args:
            sentences: At least one sentence. What exceeds the encoder's length limit is cut off.

        Returns:
            The embeddings, of shape [sentences, hidden], each of unit length.

        Raises:
            ValueError: There are no sentences.
        """
        if not sentences:
            message = "expected at least one sentence to embed, found none"
            raise ValueError(message)
        encodings = self._tokenizer.encode_batch(list(sentences))
        feeds = {
            "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
            "attention_mask": np.array([item.attention_mask for item in encodings], np.int64),
            "token_type_ids": np.array([item.type_ids for item in encodings], np.int64),
        }
        (embeddings,) = self._session.run([OUTPUT], feeds)
        return np.asarray(embeddings, np.float32)


def _tokenizer(directory: Path) -> Tokenizer:
    """Load the tokenizer, padding to the longest sentence of a batch."""
    settings = json.loads((directory / "sentence_bert_config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    # The tokenizer's file pads every sentence to 128 tokens and cuts it there. The encoder's own
    # limit is higher, and a batch of short sentences should not pay for padding.
    tokenizer.enable_truncation(max_length=settings["max_seq_length"])
    tokenizer.enable_padding()
    return tokenizer


@dataclass(frozen=True)
class Match:
    """A sentence and its cosine similarity to the query, from -1 to 1."""

    score: float
    sentence: str


def rank(encoder: SentenceEncoder, query: str, sentences: Sequence[str]) -> list[Match]:
    """Order sentences by their similarity to the query, the closest first.

    Args:
        encoder: What embeds the query and the sentences.
        query: The text to compare with.
        sentences: The candidates, in any order.

    Returns:
        One match per sentence.
    """
    query_vector, *vectors = encoder.embed([query, *sentences])
    pairs = zip(vectors, sentences, strict=True)
    matches = [Match(float(vector @ query_vector), sentence) for vector, sentence in pairs]
    return sorted(matches, key=lambda match: match.score, reverse=True)


def table(matches: Sequence[Match]) -> str:
    """Lay matches out as lines of rank, score and sentence."""
    rows = [
        f"{position:>4}  {match.score:>6.3f}  {match.sentence}"
        for position, match in enumerate(matches, start=1)
    ]
    return "\n".join(["rank   score  sentence", *rows])


def main(argv: Sequence[str] | None = None) -> None:
    """Print the sentences closest to a query.

    Args:
        argv: The command line without the program's name; by default the process's own.
    """
    arguments = _parse(argv)
    encoder = SentenceEncoder(model_directory(), subgraphkit.InferenceSession)
    matches = rank(encoder, arguments.query, arguments.sentences)
    print(f"query: {arguments.query}\n")
    print(table(matches[: arguments.top]))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Rank sentences by meaning.")
    parser.add_argument("--query", default=QUERY, help="what to look for (default: %(default)s)")
    parser.add_argument(
        "--sentences",
        type=_lines,
        default=SENTENCES,
        metavar="FILE",
        help="a text file with one sentence per line (default: built-in sentences)",
    )
    parser.add_argument(
        "--top", type=_positive, default=5, metavar="N", help="matches to print (default: 5)"
    )
    return parser.parse_args(argv)


def _lines(path: str) -> list[str]:
    """Read the lines of a file that are not blank."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read sentences from {path}: {error}"
        raise argparse.ArgumentTypeError(message) from error
    sentences = [line.strip() for line in lines if line.strip()]
    if not sentences:
        message = f"{path} holds no sentences"
        raise argparse.ArgumentTypeError(message)
    return sentences


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        message = f"expected a whole number from 1, found {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


if __name__ == "__main__":
    main()
