"""Tools for tests of turngate and of what is built on it: shipped, typed, documented; never imported by a role."""
