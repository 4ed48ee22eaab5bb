-- Purpose: the outcome of an attempt that does not commit: UNKNOWN, TERMINATED (a retry follows), FAILED, or ABORTED (a
--   cancelled operation: what is shown ends at once, the conversation is released when evidence comes).
-- ARGV: 1 operation id, 2 generation, 3 relay, 4 state wanted (UNKNOWN | TERMINATED | FAILED | ABORTED), 5 evidence or '',
--   6 retry delay in ms ('' unless TERMINATED), 7 records owed (packed; '' for UNKNOWN), 8 note of this generation,
--   9 source of the frame that caused it, 10 '1' where it counts only if the lease has expired,
--   11 '1' where request_begin of this generation has been written, 12 '1' where the caller took it for cancelled
-- Returns: {'ok', state} | {'stored', kind, records} (the very same frame again) | {'late', reason} |
--   {'changed'} (evidence or a cancel has come in meanwhile: decide again) | {'released'} (a cancelled one got evidence)
-- Invariants: every exit that is not a commit passes UNKNOWN; without evidence the generation never advances (I4).
local o, g = arg(1), arg(2)
local v = redis.call('HMGET', OPS, o .. '|out:' .. g, o .. '|outk:' .. g, o .. '|st', o .. '|gen', o .. '|relay',
  o .. '|conv', o .. '|notes', o .. '|evidence', o .. '|outs:' .. g)
if v[1] and v[9] == arg(9) then return {'stored', v[2], v[1]} end
local st, c = v[3], v[6]
local function release()
  redis.call('ZREM', LEASES, o)
  redis.call('ZREM', TIMERS, 'unknown|' .. o, 'retry|' .. o)
  if redis.call('HGET', HEADS, c .. '|op') == o then redis.call('HSET', HEADS, c .. '|op', '') end
  wake(c)
end
if v[1] and st == 'CANCELLED' and v[4] == g and v[5] == arg(3) and (arg(5) ~= '' or v[8]) then
  redis.call('HSET', OPS, o .. '|st', 'FAILED', o .. '|evidence', arg(5) ~= '' and arg(5) or v[8])
  release()
  return {'released'}
end
if v[1] then return {'late', 'decided'} end
if not st then return {'late', 'unknown_operation'} end
if v[4] ~= g then return {'late', 'late_generation'} end
if tonumber(arg(3)) < tonumber(v[5]) then return {'late', 'late_relay'} end
if tonumber(arg(3)) > tonumber(v[5]) then return {'late', 'unknown_relay'} end
if st == 'COMMITTED' or st == 'TERMINATED' or st == 'FAILED' or st == 'PREPARED' then return {'late', string.lower(st)} end
local evidence = arg(5)
if evidence == '' and v[8] then evidence = v[8] end
if evidence == '' and (arg(4) == 'TERMINATED' or arg(4) == 'FAILED') then return {'late', 'no_evidence'} end
if arg(10) == '1' and tonumber(redis.call('ZSCORE', LEASES, o) or '0') > now then return {'late', 'lease_renewed'} end
if arg(4) == 'UNKNOWN' then
  if evidence ~= '' then return {'changed'} end
elseif (st == 'CANCELLED') ~= (arg(12) == '1') or (st == 'CANCELLED' and arg(4) == 'TERMINATED') then
  return {'changed'}
end
redis.call('ZREM', LEASES, o)
-- The first frame that says so: what was read before it may have to be written again, what came after it never.
if arg(11) == '1' and string.match(redis.call('HGET', OPS, o .. '|began') or '', '^%d+') ~= g then
  redis.call('HSET', OPS, o .. '|began', g .. '@' .. string.match(arg(9), '(%d+)$'))
end
if arg(4) == 'UNKNOWN' then
  if redis.call('HEXISTS', OPS, o .. '|unknown') == 0 then redis.call('HSET', OPS, o .. '|unknown', ms(now)) end
  if st ~= 'CANCELLED' then redis.call('HSET', OPS, o .. '|st', 'UNKNOWN') end
  redis.call('ZADD', TIMERS, ms(now + 1000), 'unknown|' .. o)
  return {'ok', 'UNKNOWN'}
end
local state = arg(4)
if state == 'ABORTED' and evidence ~= '' then state = 'FAILED' end
redis.call('HSET', OPS, o .. '|out:' .. g, arg(7), o .. '|outk:' .. g, state, o .. '|outs:' .. g, arg(9),
  o .. '|notes', (v[7] or '') .. arg(8) .. ';', o .. '|decided', g)
if state == 'ABORTED' then
  redis.call('ZADD', TIMERS, ms(now + 1000), 'unknown|' .. o)
  return {'ok', state}
end
redis.call('HSET', OPS, o .. '|st', state, o .. '|evidence', evidence)
if state == 'TERMINATED' then
  redis.call('ZREM', TIMERS, 'unknown|' .. o)
  redis.call('ZADD', TIMERS, ms(now + tonumber(arg(6))), 'retry|' .. o)
else
  release()
end
return {'ok', state}
