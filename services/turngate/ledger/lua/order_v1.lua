-- Purpose: orders a call: after its approval, or again after a deadline. Also asks for the next approval.
-- ARGV: 1 call key, 2 cause id (control id), 3 source, 4 state expected, 5 attempt expected, 6 order bytes,
--   7 deadline in ms from now, 8 records owed (packed)
-- Returns: {'ok'} | {'stored', records} (the very same record again) | {'late', reason}
local k = arg(1)
local v = redis.call('HMGET', CALLS, k .. '|st', k .. '|att', k .. '|cause', k .. '|csrc', k .. '|ca')
if not v[1] then return {'late', 'unknown_call'} end
if v[4] == arg(3) then return {'stored', v[5]} end
if v[3] == arg(2) then return {'late', 'already_done'} end
if v[1] ~= arg(4) and not (arg(4) == 'ORDERED' and v[1] == 'RUNNING') then return {'late', string.lower(v[1])} end
if v[2] ~= arg(5) then return {'late', 'other_attempt'} end
redis.call('HSET', CALLS, k .. '|st', 'ORDERED', k .. '|att', ms(tonumber(v[2]) + 1), k .. '|order', arg(6),
  k .. '|cause', arg(2), k .. '|csrc', arg(3), k .. '|ca', arg(8))
redis.call('ZADD', TIMERS, ms(now + tonumber(arg(7))), 'call|' .. k)
return {'ok'}
