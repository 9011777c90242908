"""Hands over something that is no backend."""

Plugin = 42
