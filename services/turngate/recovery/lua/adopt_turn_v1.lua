-- Purpose: raises the head to a turn read from the log. Only raises: a head that is further on stays.
-- ARGV: 1 conversation key, 2 revision, 3 turn bytes, 4 history digest, 5 kind, 6 operation id or '', 7 generation or '',
--   8 '1' where an assistant turn has calls
-- Returns: {'ok'} | {'behind'}
local c, o = arg(1), arg(6)
local head = tonumber(redis.call('HGET', HEADS, c .. '|rev') or '0')
if redis.call('HEXISTS', TURNS, c .. '|' .. arg(2)) == 0 then redis.call('HSET', TURNS, c .. '|' .. arg(2), arg(3)) end
if o ~= '' then
  redis.call('HSET', OPS, o .. '|st', 'COMMITTED', o .. '|gen', arg(7), o .. '|decided', arg(7), o .. '|conv', c)
  redis.call('ZREM', LEASES, o)
  redis.call('ZREM', TIMERS, 'retry|' .. o, 'unknown|' .. o)
  if redis.call('HGET', HEADS, c .. '|op') == o then redis.call('HSET', HEADS, c .. '|op', '') end
end
if tonumber(arg(2)) <= head then return {'behind'} end
redis.call('HSET', HEADS, c .. '|rev', arg(2), c .. '|hd', arg(4), c .. '|op', '')
if arg(5) == 'assistant' and arg(8) == '1' then
  redis.call('HSET', HEADS, c .. '|calls', arg(2))
else
  redis.call('HSET', HEADS, c .. '|calls', '')
end
return {'ok'}
