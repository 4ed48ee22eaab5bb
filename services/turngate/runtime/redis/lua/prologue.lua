-- Purpose: put in front of every script at load: names for keys, arguments and Redis time.
-- KEYS: the eight keys of one bucket, always all of them, in this order.
-- ARGV: 1 role, 2 term (a decimal string below 2^53), then the script's own arguments, read with arg(1), arg(2), ...
-- Returns: nothing of its own.
local META, HEADS, TURNS, OPS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local REQS, CALLS, LEASES, TIMERS = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local function arg(index) return ARGV[index + 2] end
local function args_count() return #ARGV - 2 end
local function ms(number) return string.format('%.0f', number) end
-- Wakes the requests that wait on a conversation: recovery turns the timer into a turn request.
local function wake(conversation)
  local line = redis.call('HMGET', HEADS, conversation .. '|whead', conversation .. '|wtail')
  if (tonumber(line[2]) or 0) > (tonumber(line[1]) or 0) then
    redis.call('ZADD', TIMERS, ms(now), 'wake|' .. conversation)
    return true
  end
  return false
end
-- A held request leaves the line of its conversation; the head of the line moves past every slot that is gone.
local function leave_line(conversation, request, slot)
  redis.call('HDEL', REQS, request .. '|w', conversation .. '|w|' .. slot)
  local line = redis.call('HMGET', HEADS, conversation .. '|whead', conversation .. '|wtail')
  local first, last = tonumber(line[1] or '0'), tonumber(line[2] or '0')
  while first < last and redis.call('HEXISTS', REQS, conversation .. '|w|' .. ms(first + 1)) == 0 do first = first + 1 end
  redis.call('HSET', HEADS, conversation .. '|whead', ms(first))
end
