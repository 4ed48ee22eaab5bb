-- Purpose: stores evidence of termination of an UNKNOWN attempt before the `resolve` frame is written.
-- ARGV: 1 operation id, 2 generation, 3 evidence
-- Returns: {'ok', relay, evidence} | {'late', state}
local o = arg(1)
local v = redis.call('HMGET', OPS, o .. '|st', o .. '|gen', o .. '|relay', o .. '|evidence')
if not v[1] then return {'late', 'unknown_operation'} end
if v[2] ~= arg(2) then return {'late', 'late_generation'} end
if v[1] ~= 'UNKNOWN' and v[1] ~= 'CANCELLED' then return {'late', string.lower(v[1])} end
if not v[4] then redis.call('HSET', OPS, o .. '|evidence', arg(3)) end
return {'ok', v[3], v[4] or arg(3)}
