-- Purpose: commits the tool turn once every call of the assistant turn is settled.
-- ARGV: 1 conversation key, 2 revision of the assistant turn, 3 new revision, 4 turn bytes, 5 history digest after it,
--   6 source of the record that settled the last call, 7 records owed with the next turn's request (packed),
--   8 records owed without it (packed), 9 '1' where a next turn is wanted
-- Returns: {'ok', 'next' | 'held' | 'end'} | {'stored', records} (the very same record again) | {'late', reason}
-- Invariants: I3 (the head moves by CAS), I5 (a tool turn holds one result per call).
local c, t = arg(1), arg(1) .. '|' .. arg(2)
local old = redis.call('HMGET', CALLS, t .. '|tsrc', t .. '|ta', t .. '|left')
if old[1] == arg(6) then return {'stored', old[2]} end
if old[1] then return {'late', 'already_committed'} end
if old[3] ~= '0' then return {'late', 'calls_open'} end
local h = redis.call('HMGET', HEADS, c .. '|rev', c .. '|calls')
if h[1] ~= arg(2) or h[2] ~= arg(2) then return {'late', 'revision_conflict'} end
redis.call('HSET', TURNS, c .. '|' .. arg(3), arg(4))
redis.call('HSET', HEADS, c .. '|rev', arg(3), c .. '|hd', arg(5), c .. '|calls', '')
local word, records = 'end', arg(8)
if wake(c) then
  word = 'held'
elseif arg(9) == '1' then
  word, records = 'next', arg(7)
end
redis.call('HSET', CALLS, t .. '|tsrc', arg(6), t .. '|ta', records)
return {'ok', word}
