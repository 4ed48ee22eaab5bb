-- Purpose: the outcome of an attempt that does not commit: UNKNOWN, TERMINATED (a retry follows) or FAILED.
-- ARGV: 1 operation id, 2 generation, 3 relay, 4 state wanted (UNKNOWN | TERMINATED | FAILED), 5 evidence or '',
--   6 retry delay in ms ('' unless TERMINATED), 7 records owed (packed; '' for UNKNOWN), 8 note of this generation
-- Returns: {'ok', state} | {'stored', kind, records} | {'late', reason}
-- Invariants: every exit that is not a commit passes UNKNOWN; without evidence the generation never advances (I4).
local o, g = arg(1), arg(2)
local v = redis.call('HMGET', OPS, o .. '|out:' .. g, o .. '|outk:' .. g, o .. '|st', o .. '|gen', o .. '|relay',
  o .. '|conv', o .. '|notes', o .. '|evidence')
if v[1] then return {'stored', v[2], v[1]} end
local st, c = v[3], v[6]
if not st then return {'late', 'unknown_operation'} end
if v[4] ~= g then return {'late', 'late_generation'} end
if tonumber(arg(3)) < tonumber(v[5]) then return {'late', 'late_relay'} end
if st == 'COMMITTED' or st == 'TERMINATED' or st == 'FAILED' or st == 'PREPARED' then return {'late', string.lower(st)} end
redis.call('ZREM', LEASES, o)
local evidence = arg(5)
if evidence == '' and v[8] then evidence = v[8] end
if arg(4) == 'UNKNOWN' and evidence == '' then
  if redis.call('HEXISTS', OPS, o .. '|unknown') == 0 then redis.call('HSET', OPS, o .. '|unknown', ms(now)) end
  if st ~= 'CANCELLED' then redis.call('HSET', OPS, o .. '|st', 'UNKNOWN') end
  redis.call('ZADD', TIMERS, ms(now + 1000), 'unknown|' .. o)
  return {'ok', 'UNKNOWN'}
end
if arg(4) == 'UNKNOWN' then return {'changed'} end
redis.call('ZREM', TIMERS, 'unknown|' .. o)
local state = arg(4)
if st == 'CANCELLED' then state = 'FAILED' end
redis.call('HSET', OPS, o .. '|st', state, o .. '|evidence', evidence, o .. '|out:' .. g, arg(7), o .. '|outk:' .. g, state,
  o .. '|notes', (v[7] or '') .. arg(8) .. ';', o .. '|decided', g)
if state == 'TERMINATED' then
  redis.call('ZADD', TIMERS, ms(now + tonumber(arg(6))), 'retry|' .. o)
else
  redis.call('ZREM', TIMERS, 'retry|' .. o)
  if redis.call('HGET', HEADS, c .. '|op') == o then redis.call('HSET', HEADS, c .. '|op', '') end
  wake(c)
end
return {'ok', state}
