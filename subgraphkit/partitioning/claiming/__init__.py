"""Claims of one property after the other on what those before it left."""
