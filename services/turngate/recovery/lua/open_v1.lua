-- Purpose: opens a bucket after it was reconciled. Compares the replid it names with the server's, so a bucket reconciled
--   against one server is never opened on another. No resolution begins within one lease: every lease is pushed out.
-- ARGV: 1 replid, 2 token for a bucket that has none, 3 lease in ms, then pairs: topic, checkpoint
-- Returns: {'ok', token} | {'moved', replid of the server}
local here = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
if here ~= arg(1) then return {'moved', here} end
local token = redis.call('HGET', META, 'token')
if not token then token = arg(2) end
redis.call('HSET', META, 'token', token, 'replid', here, 'opened', ms(now))
for index = 4, args_count(), 2 do
  redis.call('HSET', META, 'checkpoint:' .. arg(index), arg(index + 1))
end
local floor = now + tonumber(arg(3))
for _, o in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', ms(floor))) do
  redis.call('ZADD', LEASES, ms(floor), o)
end
return {'ok', token}
