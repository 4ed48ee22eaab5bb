-- Purpose: step 1 of the send door. Allocates the attempt generation (or the next relay of one that was never sent).
-- ARGV: 1 operation id, 2 expected generation, 3 source `topic/partition@offset` of the record, 4 owner, 5 boot,
--   6 manifest digest, 7 request digest, 8 manifest bytes, 9 lease in ms, 10 mode
-- Returns: {'ok', generation, relay, accepted at ms} | {'already', generation} | {'refused', reason}
-- Invariants: I4 (at most one live attempt; a generation is allocated once), I9 (one manifest digest per operation).
local o = arg(1)
local v = redis.call('HMGET', OPS, o .. '|st', o .. '|conv', o .. '|base', o .. '|cg', o .. '|gen', o .. '|relay',
  o .. '|src', o .. '|md', o .. '|srcgen')
local st, c = v[1], v[2]
if not st then return {'refused', 'unknown_operation'} end
local h = redis.call('HMGET', HEADS, c .. '|rev', c .. '|cg', c .. '|op')
if st == 'CANCELLED' or (h[2] or '0') ~= v[4] then return {'refused', 'cancelled'} end
if (h[1] or '0') ~= v[3] then return {'refused', 'stale_revision'} end
if h[3] ~= o then return {'refused', 'parked'} end
if v[8] and v[8] ~= arg(6) then return {'refused', 'render_drift'} end
local gen, relay
local live = st == 'DISPATCHING' or st == 'SENT' or st == 'STREAMING' or st == 'UNKNOWN'
local resolving = redis.call('HEXISTS', OPS, o .. '|evidence') == 1
if v[7] == arg(3) and v[9] == v[5] and live and not resolving then
  -- The very same record again: its offset moves with the transaction that precedes the first byte, so it was not sent.
  gen, relay = v[5], tonumber(v[6]) + 1
elseif v[5] ~= arg(2) then
  return {'already', v[5]}
elseif st == 'PREPARED' or st == 'TERMINATED' then
  gen, relay = ms(tonumber(v[5]) + 1), 1
  redis.call('HDEL', OPS, o .. '|handle', o .. '|evidence', o .. '|unknown')
elseif arg(10) ~= 'send' and st == 'UNKNOWN' and not resolving then
  -- Asked for again on a new connection; while an owner still has one, there is nothing to resume.
  gen, relay = v[5], tonumber(v[6]) + 1
else
  return {'refused', string.lower(st)}
end
redis.call('HSET', OPS, o .. '|st', 'DISPATCHING', o .. '|gen', gen, o .. '|relay', relay, o .. '|src', arg(3),
  o .. '|srcgen', gen, o .. '|owner', arg(4), o .. '|boot', arg(5), o .. '|md', arg(6), o .. '|rd', arg(7),
  o .. '|man', arg(8))
redis.call('ZADD', LEASES, ms(now + tonumber(arg(9))), o)
redis.call('ZREM', TIMERS, 'retry|' .. o, 'unknown|' .. o)
return {'ok', gen, ms(relay), ms(now)}
