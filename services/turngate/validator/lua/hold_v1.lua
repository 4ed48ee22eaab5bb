-- Purpose: stores a WAITING, PAUSED or REJECTED answer; a held request joins the line of its conversation.
-- ARGV: 1 conversation key, 2 request id, 3 cause id or '', 4 head revision read, 5 cancel generation read,
--   6 verdict, 7 reason, 8 request bytes ('' for REJECTED), 9 records owed (packed), 10 retry delay in ms ('' = woken),
--   11 source of the request record, 12 digest of what is asked,
--   13 longest retry delay in ms
-- Returns: {'ok'} | {'stored', records, '1' where the very same record came again} | {'changed'} |
--   {'same'} (looked at again for the same cause, with the same answer: nothing is owed, and the next look is later)
local c, rid = arg(1), arg(1) .. '|r|' .. arg(2)
local old = redis.call('HMGET', REQS, rid .. '|v', rid .. '|a', rid .. '|c', rid .. '|w', rid .. '|s', rid .. '|why',
  rid .. '|delay')
local held = old[1] == 'WAITING' or old[1] == 'PAUSED'
if old[1] and (old[5] == arg(11) or not held) then
  return {'stored', old[2], old[5] == arg(11) and '1' or '0'}
end
local h = redis.call('HMGET', HEADS, c .. '|rev', c .. '|cg', c .. '|op', c .. '|calls', c .. '|paused')
if (h[1] or '0') ~= arg(4) or (h[2] or '0') ~= arg(5) then return {'changed'} end
local open = (h[3] and h[3] ~= '') or (h[4] and h[4] ~= '')
local waits_on_open = arg(7) == 'operation_open' or arg(7) == 'calls_open'
if arg(6) == 'WAITING' and waits_on_open and not open then return {'changed'} end
if arg(6) == 'PAUSED' and arg(10) == '' and (h[5] or '') == '' then return {'changed'} end
if held and arg(10) ~= '' and old[1] == arg(6) and old[6] == arg(7) and old[3] == arg(3) then
  local delay = math.min(2 * tonumber(old[7] or arg(10)), tonumber(arg(13)))
  redis.call('HSET', REQS, rid .. '|delay', ms(delay))
  redis.call('ZADD', TIMERS, ms(now + delay), 'wake|' .. c)
  return {'same'}
end
redis.call('HSET', REQS, rid .. '|why', arg(7), rid .. '|delay', arg(10))
redis.call('HSET', REQS, rid .. '|v', arg(6), rid .. '|a', arg(9), rid .. '|c', arg(3), rid .. '|s', arg(11),
  rid .. '|d', arg(12))
redis.call('ZREM', TIMERS, 'wake|' .. c)
if arg(6) == 'REJECTED' then
  if old[4] then leave_line(c, rid, old[4]) end
  if not open then wake(c) end
  return {'ok'}
end
if not old[4] then
  local slot = redis.call('HINCRBY', HEADS, c .. '|wtail', 1)
  redis.call('HSET', REQS, rid .. '|w', slot, c .. '|w|' .. slot, arg(8))
end
if arg(10) ~= '' then
  redis.call('ZADD', TIMERS, ms(now + tonumber(arg(10))), 'wake|' .. c)
end
return {'ok'}
