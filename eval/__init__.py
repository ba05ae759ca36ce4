"""evalchemy's command line under its own name: `python -m eval.eval` is `trivet eval run`."""
