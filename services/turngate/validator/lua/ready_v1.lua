-- Purpose: READY. Commits the input turn (if any), creates the operation PREPARED, stores the records owed.
-- ARGV: 1 conversation key, 2 request id, 3 cause id or '', 4 head revision read, 5 cancel generation read,
--   6 operation id, 7 base revision of the operation, 8 turn bytes or '', 9 history digest after the turn,
--   10 operation spec bytes, 11 sequence command bytes, 12 records owed (packed), 13 source of the request record,
--   14 digest of what is asked
-- Returns: {'ok'} | {'stored', records, '1' where the very same record came again} | {'changed'} |
--   {'busy', operation id} | {'calls', revision} | {'paused', reason}
-- Invariants: I3 (one turn per revision: the head moves by CAS), I4 (one open operation per conversation).
local c, rid = arg(1), arg(1) .. '|r|' .. arg(2)
local old = redis.call('HMGET', REQS, rid .. '|v', rid .. '|a', rid .. '|c', rid .. '|s')
local held = old[1] == 'WAITING' or old[1] == 'PAUSED'
if old[1] and (old[4] == arg(13) or not held) then
  return {'stored', old[2], old[4] == arg(13) and '1' or '0'}
end
local h = redis.call('HMGET', HEADS, c .. '|rev', c .. '|cg', c .. '|op', c .. '|calls', c .. '|paused')
if h[5] and h[5] ~= '' then return {'paused', h[5]} end
if (h[1] or '0') ~= arg(4) or (h[2] or '0') ~= arg(5) then return {'changed'} end
if h[3] and h[3] ~= '' then return {'busy', h[3]} end
if h[4] and h[4] ~= '' then return {'calls', h[4]} end
local o = arg(6)
if arg(8) ~= '' then
  redis.call('HSET', TURNS, c .. '|' .. arg(7), arg(8))
  redis.call('HSET', HEADS, c .. '|rev', arg(7), c .. '|hd', arg(9))
end
redis.call('HSET', HEADS, c .. '|op', o)
redis.call('HSET', OPS, o .. '|st', 'PREPARED', o .. '|conv', c, o .. '|base', arg(7), o .. '|cg', arg(5),
  o .. '|gen', '0', o .. '|relay', '0', o .. '|spec', arg(10), o .. '|seq', arg(11), o .. '|notes', '')
redis.call('HSET', REQS, rid .. '|v', 'READY', rid .. '|a', arg(12), rid .. '|c', arg(3), rid .. '|s', arg(13),
  rid .. '|d', arg(14))
local slot = redis.call('HGET', REQS, rid .. '|w')
if slot then leave_line(c, rid, slot) end
redis.call('ZREM', TIMERS, 'wake|' .. c)
return {'ok'}
