"""Block operations that a platform publishes itself."""
