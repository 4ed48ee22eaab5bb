"""Nouns on the wire: every record that turngate reads or writes, its codec and its digests."""
