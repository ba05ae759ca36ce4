"""What runs within the sandbox: the standard library and nothing else, on any Python from 3.9."""
