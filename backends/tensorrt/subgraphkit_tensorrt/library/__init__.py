"""The TensorRT library itself: found, imported late, asked what it can do, and listened to."""
