"""Where records flow: topics, keys, groups, who reads and who writes."""
