-- Purpose: brings back the calls of an assistant turn that is still the head, each PENDING until something more is read.
-- ARGV: 1 conversation key, 2 revision, 3 kind of the turn, then per call of an assistant turn: call key,
--   idempotency key, arguments digest, generation, tool
-- Returns: {'ok'} | {'known'} | {'none'}
local c, t = arg(1), arg(1) .. '|' .. arg(2)
if arg(3) ~= 'assistant' or args_count() < 4 then return {'none'} end
if redis.call('HEXISTS', CALLS, t .. '|n') == 1 then return {'known'} end
if redis.call('HGET', HEADS, c .. '|calls') ~= arg(2) then return {'none'} end
local count = 0
for index = 4, args_count(), 5 do
  local k = arg(index)
  count = count + 1
  redis.call('HSET', CALLS, t .. '|' .. count, k, k .. '|rev', arg(2), k .. '|i', count, k .. '|st', 'PENDING',
    k .. '|att', '0', k .. '|idem', arg(index + 1), k .. '|ad', arg(index + 2), k .. '|gen', arg(index + 3),
    k .. '|tool', arg(index + 4))
end
redis.call('HSET', CALLS, t .. '|n', count, t .. '|left', count)
return {'ok'}
