-- Purpose: renews the leases of all attempts of one owner in one bucket and says which of them lost their fence.
-- ARGV: 1 owner, 2 boot, 3 lease in ms, then triples: operation id, generation, relay
-- Returns: {'ok', word...}: `ok` or `lost`, one a triple
local answer = {'ok'}
for index = 4, args_count(), 3 do
  local o = arg(index)
  local v = redis.call('HMGET', OPS, o .. '|st', o .. '|gen', o .. '|relay', o .. '|owner', o .. '|boot',
    o .. '|evidence')
  local st = v[1]
  local mine = v[2] == arg(index + 1) and v[3] == arg(index + 2) and v[4] == arg(1) and v[5] == arg(2) and not v[6]
  if mine and (st == 'DISPATCHING' or st == 'SENT' or st == 'STREAMING' or st == 'UNKNOWN') then
    redis.call('ZADD', LEASES, ms(now + tonumber(arg(3))), o)
    if st == 'DISPATCHING' then redis.call('HSET', OPS, o .. '|st', 'SENT') end
    answer[#answer + 1] = 'ok'
  else
    answer[#answer + 1] = 'lost'
  end
end
return answer
