-- Purpose: the canonical commit. One CAS makes the turn true and stores its bytes and the records owed.
-- ARGV: 1 operation id, 2 generation, 3 relay, 4 manifest digest, 5 base revision, 6 cancel generation,
--   7 new revision, 8 turn bytes, 9 history digest after it, 10 '1' where the turn has calls, 11 records owed (packed),
--   12 note of this generation, 13 source of the frame that caused it
-- Returns: {'ok'} | {'stored', kind, records} (the very same frame again) | {'lost', reason}
-- Invariants: I3 (one turn per revision), I4, I10 (a fenced stream changes nothing).
local o, g = arg(1), arg(2)
local v = redis.call('HMGET', OPS, o .. '|out:' .. g, o .. '|outk:' .. g, o .. '|st', o .. '|gen', o .. '|md', o .. '|conv',
  o .. '|notes', o .. '|outs:' .. g)
if v[1] and v[8] == arg(13) then return {'stored', v[2], v[1]} end
if v[1] then return {'lost', 'decided'} end
local st, c = v[3], v[6]
if not st then return {'lost', 'unknown_operation'} end
if st == 'COMMITTED' or st == 'TERMINATED' or st == 'FAILED' or st == 'PREPARED' then return {'lost', string.lower(st)} end
if v[4] ~= g then return {'lost', 'late_generation'} end
if v[5] ~= arg(4) then return {'lost', 'other_manifest'} end
local h = redis.call('HMGET', HEADS, c .. '|rev', c .. '|cg', c .. '|op')
if st == 'CANCELLED' or (h[2] or '0') ~= arg(6) then return {'lost', 'cancelled'} end
if (h[1] or '0') ~= arg(5) then return {'lost', 'revision_conflict'} end
if h[3] ~= o then return {'lost', 'not_the_open_operation'} end
redis.call('HSET', TURNS, c .. '|' .. arg(7), arg(8))
redis.call('HSET', HEADS, c .. '|rev', arg(7), c .. '|hd', arg(9), c .. '|op', '')
redis.call('HSET', OPS, o .. '|st', 'COMMITTED', o .. '|out:' .. g, arg(11), o .. '|outk:' .. g, 'COMMITTED',
  o .. '|outs:' .. g, arg(13), o .. '|notes', (v[7] or '') .. arg(12) .. ';', o .. '|decided', g)
redis.call('ZREM', LEASES, o)
redis.call('ZREM', TIMERS, 'retry|' .. o, 'unknown|' .. o)
if arg(10) == '1' then
  redis.call('HSET', HEADS, c .. '|calls', arg(7))
else
  wake(c)
end
return {'ok'}
