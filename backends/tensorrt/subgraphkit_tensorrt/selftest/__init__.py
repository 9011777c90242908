"""The GPU checklist: all that only a device can show; run by ``doctor tensorrt --selftest``."""
