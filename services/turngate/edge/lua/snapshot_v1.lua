-- Purpose: where a conversation stands, for a reader that begins or has lost its place; changes nothing.
-- ARGV: 1 conversation key
-- Returns: {'ok', revision, cancel generation, open operation or '', its state, its generation, revision with open calls or '',
--   reason it is paused for or '', then per call that waits for an approval: call key, tool}
local c = arg(1)
local h = redis.call('HMGET', HEADS, c .. '|rev', c .. '|cg', c .. '|op', c .. '|calls', c .. '|paused')
local o, calls = h[3] or '', h[4] or ''
local v = redis.call('HMGET', OPS, o .. '|st', o .. '|gen')
local answer = {'ok', h[1] or '0', h[2] or '0', o, v[1] or '', v[2] or '0', calls, h[5] or ''}
local t = c .. '|' .. calls
for index = 1, calls ~= '' and tonumber(redis.call('HGET', CALLS, t .. '|n') or '0') or 0 do
  local k = redis.call('HGET', CALLS, t .. '|' .. index)
  local call = redis.call('HMGET', CALLS, k .. '|st', k .. '|tool')
  if call[1] == 'AWAITING_APPROVAL' then
    answer[#answer + 1] = k
    answer[#answer + 1] = call[2] or ''
  end
end
return answer
