"""Was made for a later plugin API; must not be imported."""

raise RuntimeError("imported in spite of its version")
