-- Purpose: raises an operation to an attempt that was dispatched: it comes back UNKNOWN, its live owner may renew.
-- ARGV: 1 operation id, 2 conversation key, 3 generation, 4 relay, 5 owner, 6 boot, 7 request digest, 8 lease in ms
-- Returns: {'ok'} | {'behind'}
local o = arg(1)
local v = redis.call('HMGET', OPS, o .. '|gen', o .. '|relay', o .. '|st', o .. '|decided')
local gen, relay = tonumber(v[1] or '0'), tonumber(v[2] or '0')
local new_gen, new_relay = tonumber(arg(3)), tonumber(arg(4))
if v[3] == 'COMMITTED' or new_gen <= tonumber(v[4] or '0') then return {'behind'} end
if new_gen < gen or (new_gen == gen and new_relay <= relay) then return {'behind'} end
redis.call('HSET', OPS, o .. '|conv', arg(2), o .. '|gen', arg(3), o .. '|relay', arg(4), o .. '|owner', arg(5),
  o .. '|boot', arg(6), o .. '|rd', arg(7), o .. '|st', 'UNKNOWN')
redis.call('HDEL', OPS, o .. '|evidence', o .. '|handle', o .. '|hrelay')
redis.call('ZADD', LEASES, ms(now + tonumber(arg(8))), o)
redis.call('ZREM', TIMERS, 'retry|' .. o)
return {'ok'}
