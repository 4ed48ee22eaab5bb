-- Purpose: what the ledger needs of an assistant turn's calls; changes nothing.
-- ARGV: 1 conversation key, 2 revision of the assistant turn
-- Returns: {'ok', turn bytes, history digest of the head, calls left, then per call in call order: call key, state,
--   attempt, order bytes, result bytes}; absent values are ''
local c, t = arg(1), arg(1) .. '|' .. arg(2)
local answer = {'ok', redis.call('HGET', TURNS, c .. '|' .. arg(2)) or '', redis.call('HGET', HEADS, c .. '|hd') or '',
  redis.call('HGET', CALLS, t .. '|left') or ''}
for index = 1, tonumber(redis.call('HGET', CALLS, t .. '|n') or '0') do
  local k = redis.call('HGET', CALLS, t .. '|' .. index)
  local v = redis.call('HMGET', CALLS, k .. '|st', k .. '|att', k .. '|order', k .. '|res')
  for _, value in ipairs({k, v[1] or '', v[2] or '0', v[3] or '', v[4] or ''}) do answer[#answer + 1] = value end
end
return answer
