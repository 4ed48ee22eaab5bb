-- Purpose: brings back a call that was settled, from its tool_call_output.
-- ARGV: 1 call key, 2 conversation key, 3 revision of the assistant turn, 4 status, 5 result bytes
-- Returns: {'ok', calls left} | {'behind'}
local k, t = arg(1), arg(2) .. '|' .. arg(3)
if redis.call('HGET', CALLS, k .. '|st') == 'SETTLED' then return {'behind'} end
redis.call('HSET', CALLS, k .. '|st', 'SETTLED', k .. '|status', arg(4), k .. '|res', arg(5), k .. '|rev', arg(3))
redis.call('ZREM', TIMERS, 'call|' .. k)
redis.call('HSETNX', CALLS, t .. '|src', 'adopted')
if redis.call('HEXISTS', CALLS, t .. '|left') == 0 then return {'ok', 0} end
return {'ok', redis.call('HINCRBY', CALLS, t .. '|left', -1)}
