"""The words of single commands, where they are many."""
