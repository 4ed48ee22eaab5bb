"""The life of an operation: its transition table, evidence of termination, the retry ladder."""
