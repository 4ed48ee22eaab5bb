-- Purpose: brings back a call that was ordered, and with it that the calls of its turn were opened.
-- ARGV: 1 call key, 2 conversation key, 3 revision of the assistant turn, 4 attempt, 5 idempotency key, 6 arguments digest,
--   7 generation, 8 tool, 9 order bytes, 10 grace in ms before its deadline is looked at
-- Returns: {'ok'} | {'behind'}
local k, t = arg(1), arg(2) .. '|' .. arg(3)
local v = redis.call('HMGET', CALLS, k .. '|st', k .. '|att')
if v[1] == 'SETTLED' or (v[2] and tonumber(v[2]) >= tonumber(arg(4))) then return {'behind'} end
redis.call('HSET', CALLS, k .. '|st', 'ORDERED', k .. '|att', arg(4), k .. '|idem', arg(5), k .. '|ad', arg(6),
  k .. '|gen', arg(7), k .. '|tool', arg(8), k .. '|order', arg(9), k .. '|rev', arg(3))
redis.call('HSETNX', CALLS, t .. '|src', 'adopted')
if redis.call('HGET', HEADS, arg(2) .. '|calls') == arg(3) then
  redis.call('ZADD', TIMERS, ms(now + tonumber(arg(10))), 'call|' .. k)
end
return {'ok'}
