"""The life of a tool call: its transition table, who must be asked, what a missed deadline means."""
