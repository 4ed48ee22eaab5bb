-- Purpose: pauses or resumes a conversation; resuming wakes its held requests.
-- ARGV: 1 conversation key, 2 control id, 3 reason ('' resumes), 4 records owed (packed)
-- Returns: {'ok'} | {'stored', records}
local c, cid = arg(1), arg(1) .. '|k|' .. arg(2)
local old = redis.call('HGET', REQS, cid)
if old then return {'stored', old} end
redis.call('HSET', REQS, cid, arg(4))
redis.call('HSET', HEADS, c .. '|paused', arg(3))
if arg(3) == '' then
  local h = redis.call('HMGET', HEADS, c .. '|op', c .. '|calls')
  if not (h[1] and h[1] ~= '') and not (h[2] and h[2] ~= '') then wake(c) end
end
return {'ok'}
