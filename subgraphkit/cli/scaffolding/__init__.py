"""The package that ``new-backend`` writes, and the options that commands write."""
