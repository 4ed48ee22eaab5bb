-- Purpose: brings back the manifest of an operation.
-- ARGV: 1 operation id, 2 manifest digest, 3 manifest bytes
-- Returns: {'ok'}
redis.call('HSETNX', OPS, arg(1) .. '|md', arg(2))
redis.call('HSETNX', OPS, arg(1) .. '|man', arg(3))
return {'ok'}
