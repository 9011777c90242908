"""Child processes of our own interpreter, in which a plugin may crash, exit or never return."""
