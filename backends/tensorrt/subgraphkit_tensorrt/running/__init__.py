"""From a plan to results: device memory, engines, contexts, execution."""
