"""Code that runs inside the sandbox, with the standard library alone, on any Python from 3.9."""
