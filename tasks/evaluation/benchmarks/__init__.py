"""The benchmarks, each in a Python file of its own or in a YAML file; `benchmark_registry` finds them."""
