-- Purpose: an executor claims or works on a call: ORDERED becomes RUNNING; nothing is ever settled by it.
-- ARGV: 1 call key, 2 idempotency key, 3 attempt, 4 sequence number of the progress
-- Returns: {'ok'} | {'again'} (a number already seen) | {'foreign', reason}
local k = arg(1)
local v = redis.call('HMGET', CALLS, k .. '|st', k .. '|idem', k .. '|seq:' .. arg(3))
if not v[1] then return {'foreign', 'unknown_call'} end
if v[2] ~= arg(2) then return {'foreign', 'result_mismatch'} end
if v[1] == 'SETTLED' then return {'foreign', 'already_settled'} end
if v[1] == 'ORDERED' then redis.call('HSET', CALLS, k .. '|st', 'RUNNING') end
if v[3] and tonumber(v[3]) >= tonumber(arg(4)) then return {'again'} end
redis.call('HSET', CALLS, k .. '|seq:' .. arg(3), arg(4))
return {'ok'}
