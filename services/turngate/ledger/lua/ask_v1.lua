-- Purpose: approvals are asked one at a time: the first call that waits for its turn is asked about.
-- ARGV: 1 call key
-- Returns: {'ok'} | {'late', state}
local k = arg(1)
local state = redis.call('HGET', CALLS, k .. '|st')
if state == 'AWAITING_APPROVAL' then return {'ok'} end
if state ~= 'PENDING' then return {'late', state or ''} end
redis.call('HSET', CALLS, k .. '|st', 'AWAITING_APPROVAL')
return {'ok'}
