-- Purpose: brings back that a call's approval was asked for.
-- ARGV: 1 call key, 2 conversation key, 3 revision of the assistant turn
-- Returns: {'ok'} | {'behind'}
local k, t = arg(1), arg(2) .. '|' .. arg(3)
local state = redis.call('HGET', CALLS, k .. '|st')
if state and state ~= 'PENDING' then return {'behind'} end
redis.call('HSET', CALLS, k .. '|st', 'AWAITING_APPROVAL', k .. '|rev', arg(3))
redis.call('HSETNX', CALLS, t .. '|src', 'adopted')
return {'ok'}
