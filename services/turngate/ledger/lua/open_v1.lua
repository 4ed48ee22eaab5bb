-- Purpose: opens the calls of a committed assistant turn: each is ordered, waits for approval, or waits for its turn to ask.
-- ARGV: 1 conversation key, 2 revision of the assistant turn, 3 source of the turn record, 4 records owed (packed),
--   then per call: call key, state (ORDERED | AWAITING_APPROVAL | PENDING), idempotency key, arguments digest, generation,
--   tool, order bytes, deadline in ms from now
-- Returns: {'ok'} | {'stored', records} (the very same record again) | {'late', reason}
-- Invariants: I2 (only a canonical turn with open calls), I5 (each call is opened once).
local c, t = arg(1), arg(1) .. '|' .. arg(2)
local old = redis.call('HMGET', CALLS, t .. '|src', t .. '|a')
if old[1] == arg(3) then return {'stored', old[2]} end
if old[1] then return {'late', 'already_open'} end
if redis.call('HGET', HEADS, c .. '|calls') ~= arg(2) then return {'late', 'not_open'} end
local count = 0
for index = 5, args_count(), 8 do
  local k = arg(index)
  count = count + 1
  redis.call('HSET', CALLS, t .. '|' .. count, k, k .. '|st', arg(index + 1), k .. '|idem', arg(index + 2),
    k .. '|ad', arg(index + 3), k .. '|gen', arg(index + 4), k .. '|tool', arg(index + 5), k .. '|order', arg(index + 6),
    k .. '|rev', arg(2), k .. '|i', count, k .. '|att', arg(index + 1) == 'ORDERED' and '1' or '0')
  if arg(index + 1) == 'ORDERED' then
    redis.call('ZADD', TIMERS, ms(now + tonumber(arg(index + 7))), 'call|' .. k)
  end
end
redis.call('HSET', CALLS, t .. '|n', count, t .. '|left', count, t .. '|src', arg(3), t .. '|a', arg(4))
return {'ok'}
