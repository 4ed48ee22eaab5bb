-- Purpose: what recovery needs to act on a due timer or an expired lease; changes nothing.
-- ARGV: operation ids
-- Returns: {'ok', then per operation: state, conversation key, generation, relay, owner, boot, spec, sequence command,
--   manifest digest, evidence, unknown since ms, lease expiry ms, now ms}
local answer = {'ok'}
for index = 1, args_count() do
  local o = arg(index)
  local v = redis.call('HMGET', OPS, o .. '|st', o .. '|conv', o .. '|gen', o .. '|relay', o .. '|owner', o .. '|boot',
    o .. '|spec', o .. '|seq', o .. '|md', o .. '|evidence', o .. '|unknown')
  for field = 1, 11 do answer[#answer + 1] = v[field] or '' end
  answer[#answer + 1] = redis.call('ZSCORE', LEASES, o) or ''
  answer[#answer + 1] = ms(now)
end
return answer
