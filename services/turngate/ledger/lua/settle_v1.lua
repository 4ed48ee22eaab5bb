-- Purpose: the one terminal result of a call. The first valid one of any execution settles it.
-- ARGV: 1 call key, 2 conversation key, 3 revision of the assistant turn, 4 source of the record that settles,
--   5 idempotency key, 6 arguments digest, 7 generation, 8 tool, 9 status, 10 result bytes, 11 records owed (packed),
--   12 '1' where the ledger settles on its own (denial, deadline, cancel) so that any open state is right
-- Returns: {'ok', calls left} | {'stored', records, calls left after it} (the very same record again) | {'foreign', reason}
-- Invariants: I5 (exactly one terminal result), I10 (a foreign or late result changes nothing).
local k, t = arg(1), arg(2) .. '|' .. arg(3)
local v = redis.call('HMGET', CALLS, k .. '|st', k .. '|idem', k .. '|ad', k .. '|gen', k .. '|tool', k .. '|src', k .. '|a',
  k .. '|leftafter', k .. '|rev')
if not v[1] then return {'foreign', 'unknown_call'} end
if v[1] == 'SETTLED' then
  if v[6] == arg(4) then return {'stored', v[7], v[8]} end
  return {'foreign', 'already_settled'}
end
if v[9] ~= arg(3) then return {'foreign', 'result_mismatch'} end
if v[2] ~= arg(5) or v[3] ~= arg(6) or v[4] ~= arg(7) or v[5] ~= arg(8) then return {'foreign', 'result_mismatch'} end
if arg(12) ~= '1' and v[1] ~= 'ORDERED' and v[1] ~= 'RUNNING' then return {'foreign', 'not_ordered'} end
redis.call('HSET', CALLS, k .. '|st', 'SETTLED', k .. '|status', arg(9), k .. '|res', arg(10), k .. '|src', arg(4),
  k .. '|a', arg(11))
redis.call('ZREM', TIMERS, 'call|' .. k)
local left = redis.call('HINCRBY', CALLS, t .. '|left', -1)
redis.call('HSET', CALLS, k .. '|leftafter', left)
return {'ok', left}
