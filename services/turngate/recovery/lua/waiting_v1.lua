-- Purpose: the first held request of a conversation and the head it would be re-based on; changes nothing but a stale timer.
-- ARGV: 1 conversation key
-- Returns: {'ok', request bytes, head revision} | {'none'}
local c = arg(1)
local h = redis.call('HMGET', HEADS, c .. '|rev', c .. '|whead', c .. '|wtail')
for slot = tonumber(h[2] or '0') + 1, tonumber(h[3] or '0') do
  local bytes = redis.call('HGET', REQS, c .. '|w|' .. ms(slot))
  if bytes then return {'ok', bytes, h[1] or '0'} end
end
redis.call('ZREM', TIMERS, 'wake|' .. c)
return {'none'}
