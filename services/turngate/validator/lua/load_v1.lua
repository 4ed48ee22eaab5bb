-- Purpose: what the validator needs of a conversation: head, open work, the stored answer, the turns it lacks.
-- ARGV: 1 conversation key, 2 request id, 3 first revision wanted (those below are in the caller's cache)
-- Returns: {'ok', revision, history digest, cancel generation, open operation, revision with open calls, paused reason,
--   stored verdict, stored cause id, stored records, source of the stored answer, digest of what was asked,
--   turn bytes...}; absent values are ''.
local c, rid = arg(1), arg(1) .. '|r|' .. arg(2)
local h = redis.call('HMGET', HEADS, c .. '|rev', c .. '|hd', c .. '|cg', c .. '|op', c .. '|calls', c .. '|paused')
local r = redis.call('HMGET', REQS, rid .. '|v', rid .. '|c', rid .. '|a', rid .. '|s', rid .. '|d')
local answer = {'ok', h[1] or '0', h[2] or '', h[3] or '0', h[4] or '', h[5] or '', h[6] or '',
  r[1] or '', r[2] or '', r[3] or '', r[4] or '', r[5] or ''}
for revision = tonumber(arg(3)), tonumber(h[1] or '0') do
  answer[#answer + 1] = redis.call('HGET', TURNS, c .. '|' .. ms(revision)) or ''
end
return answer
