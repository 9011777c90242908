"""Folders of this user alone: their trust, their locks, and the files kept in them."""
