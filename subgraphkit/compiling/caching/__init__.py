"""The engine cache: what backends compiled, kept for the next bind and never believed unchecked."""
