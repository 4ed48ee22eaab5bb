-- Purpose: appends a batch of session events to a conversation's replay buffer, once, numbering them <epoch>-<n>. The fence is
--   the version (epoch and next source offset) the caller decided from. A buffer that another Redis server kept is begun
--   anew under a higher epoch: it may have lost what readers have seen.
-- KEYS: 9 state of the buffer (hash), 10 its events (stream)
-- ARGV: 1 version or '' for no buffer, 2 next source offset, 3 projection state, 4 events kept at most, 5 bytes kept at most,
--   6 lifetime in ms from now, then the events
-- Returns: {'ok', version} | {'changed', version or '', projection state or ''}
local PROJECTION, REPLAY = KEYS[9], KEYS[10]
local here = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local v = redis.call('HMGET', PROJECTION, 'epoch', 'next', 'replid', 'state', 'n', 'bytes')
local epoch, kept = v[1], v[1] and v[3] == here
local version = kept and (epoch .. ':' .. v[2]) or ''
if version ~= arg(1) then return {'changed', version, kept and v[4] or ''} end
local n, bytes = tonumber(v[5] or '0'), tonumber(v[6] or '0')
if not kept then
  redis.call('DEL', REPLAY)
  epoch, n, bytes = ms(math.max(now, tonumber(epoch or '0') + 1)), 0, 0
end
for index = 7, args_count() do
  n = n + 1
  redis.call('XADD', REPLAY, epoch .. '-' .. ms(n), 'e', arg(index))
  bytes = bytes + #arg(index)
end
local length = redis.call('XLEN', REPLAY)
while length > 1 and (length > tonumber(arg(4)) or bytes > tonumber(arg(5))) do
  local oldest = redis.call('XRANGE', REPLAY, '-', '+', 'COUNT', 1)[1]
  redis.call('XDEL', REPLAY, oldest[1])
  bytes, length = bytes - #oldest[2][2], length - 1
end
redis.call('HSET', PROJECTION, 'epoch', epoch, 'next', arg(2), 'replid', here, 'state', arg(3), 'n', ms(n), 'bytes', ms(bytes))
redis.call('PEXPIRE', PROJECTION, arg(6))
redis.call('PEXPIRE', REPLAY, arg(6))
return {'ok', epoch .. ':' .. arg(2)}
