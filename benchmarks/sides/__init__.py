"""What is measured beside the worker, each a process of its own that reads the same topic."""
