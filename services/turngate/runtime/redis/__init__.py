"""Redis as the arbiter: bucket keys, script loading, toolsets and instance numbers."""
