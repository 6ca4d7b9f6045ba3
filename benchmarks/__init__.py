"""Measurements, each as a ratio to something measured in the same run. `python -m benchmarks [NAME …] [--json]`."""
