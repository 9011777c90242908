"""The engine cache: engines kept for the next bind, and never believed unchecked."""
