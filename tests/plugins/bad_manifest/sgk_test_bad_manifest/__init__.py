"""Must not be imported: its version is not known."""

raise RuntimeError("imported in spite of its manifest")
