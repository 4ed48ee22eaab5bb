-- Purpose: binds a provider's handle to (operation, generation, manifest digest) once; the attempt is STREAMING. One that
--   is decided is not touched any more: its frames are only read again.
-- ARGV: 1 operation id, 2 generation, 3 relay, 4 handle, 5 manifest digest
-- Returns: {'ok'} | {'foreign', reason}
-- Invariants: I10 (a rebound or foreign stream changes nothing).
local o = arg(1)
local v = redis.call('HMGET', OPS, o .. '|st', o .. '|gen', o .. '|relay', o .. '|md', o .. '|handle', o .. '|hrelay')
if not v[1] then return {'foreign', 'unknown_operation'} end
if v[2] ~= arg(2) then return {'foreign', 'late_generation'} end
if tonumber(arg(3)) < tonumber(v[3]) then return {'foreign', 'late_relay'} end
if tonumber(arg(3)) > tonumber(v[3]) then return {'foreign', 'unknown_relay'} end
if v[4] ~= arg(5) then return {'foreign', 'other_manifest'} end
if v[5] and v[6] == arg(3) and v[5] ~= arg(4) then return {'foreign', 'rebound_handle'} end
if v[1] == 'PREPARED' or v[1] == 'COMMITTED' or v[1] == 'TERMINATED' or v[1] == 'FAILED' then return {'ok'} end
redis.call('HSET', OPS, o .. '|handle', arg(4), o .. '|hrelay', arg(3))
if v[1] == 'DISPATCHING' or v[1] == 'SENT' then redis.call('HSET', OPS, o .. '|st', 'STREAMING') end
return {'ok'}
