"""The observer role."""
