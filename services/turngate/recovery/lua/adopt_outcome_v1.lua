-- Purpose: raises an operation to an outcome read from the session stream (request_end).
-- ARGV: 1 operation id, 2 conversation key, 3 generation, 4 status, 5 retry delay in ms or '' (none follows)
-- Returns: {'ok'} | {'behind'}
local o, c = arg(1), arg(2)
local v = redis.call('HMGET', OPS, o .. '|gen', o .. '|st', o .. '|notes', o .. '|decided')
if arg(4) == 'completed' or v[2] == 'COMMITTED' or tonumber(v[1] or '0') > tonumber(arg(3)) then return {'behind'} end
if tonumber(v[4] or '0') >= tonumber(arg(3)) then return {'behind'} end
-- A cancel ends what is shown at once, with or without evidence. While nothing followed the operation, nobody knows whether
-- there was any: its conversation stays held until there is.
if arg(4) == 'aborted' and redis.call('HGET', HEADS, c .. '|op') == o then
  redis.call('HSET', OPS, o .. '|conv', c, o .. '|gen', arg(3), o .. '|st', 'CANCELLED', o .. '|decided', arg(3),
    o .. '|out:' .. arg(3), '', o .. '|outk:' .. arg(3), 'ABORTED', o .. '|notes', (v[3] or '') .. arg(3) .. ':aborted;')
  redis.call('ZREM', LEASES, o)
  redis.call('ZADD', TIMERS, ms(now + 1000), 'unknown|' .. o)
  return {'ok'}
end
local state = arg(5) == '' and 'FAILED' or 'TERMINATED'
redis.call('HSET', OPS, o .. '|conv', c, o .. '|gen', arg(3), o .. '|st', state, o .. '|evidence', 'adopted',
  o .. '|decided', arg(3), o .. '|notes', (v[3] or '') .. arg(3) .. ':' .. arg(4) .. ';')
redis.call('ZREM', LEASES, o)
redis.call('ZREM', TIMERS, 'unknown|' .. o)
if state == 'TERMINATED' then
  redis.call('ZADD', TIMERS, ms(now + tonumber(arg(5))), 'retry|' .. o)
elseif redis.call('HGET', HEADS, c .. '|op') == o then
  redis.call('HSET', HEADS, c .. '|op', '')
  wake(c)
end
return {'ok'}
