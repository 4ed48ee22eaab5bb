-- Purpose: brings back the answer to a request; a held one joins the line again, an answered one leaves it.
-- ARGV: 1 conversation key, 2 request id, 3 verdict, 4 records owed (packed), 5 request bytes or ''
-- Returns: {'ok'}
local c, rid = arg(1), arg(1) .. '|r|' .. arg(2)
local old = redis.call('HMGET', REQS, rid .. '|v', rid .. '|w')
redis.call('HSET', REQS, rid .. '|v', arg(3), rid .. '|a', arg(4))
redis.call('HSETNX', REQS, rid .. '|c', '')
local held = arg(3) == 'WAITING' or arg(3) == 'PAUSED'
if held and not old[2] then
  local slot = redis.call('HINCRBY', HEADS, c .. '|wtail', 1)
  redis.call('HSET', REQS, rid .. '|w', slot, c .. '|w|' .. slot, arg(5))
  redis.call('ZADD', TIMERS, ms(now + 2000), 'wake|' .. c)
elseif not held and old[2] then
  leave_line(c, rid, old[2])
end
return {'ok'}
