"""Test tools that ship with the product: an in-memory log with the worker's rules, and a fleet stepped by hand."""
