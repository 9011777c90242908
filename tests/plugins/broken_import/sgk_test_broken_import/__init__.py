"""Its library is missing."""

raise ImportError("libnothing.so.1: cannot open shared object file: No such file or directory")
