"""The reassembler role."""
