-- Purpose: cancels what a conversation has open, once per control id: bumps the cancel generation, ends an operation that
--   was never sent, marks one that may have been, and says which calls the ledger has to settle.
-- ARGV: 1 conversation key, 2 control id, 3 operation id or '', 4 expected cancel generation or '', 5 source
-- Returns: {'ok', operation id or '', state it had, generation, relay, revision with open calls or '',
--   '1' where this very record did it or is doing it again} | {'late', reason}
local c = arg(1)
local id = c .. '|k|' .. arg(2)
local done = redis.call('HMGET', REQS, id .. '|src', id .. '|op', id .. '|st', id .. '|gen', id .. '|relay', id .. '|calls')
if done[1] then
  return {'ok', done[2], done[3], done[4], done[5], done[6], done[1] == arg(5) and '1' or ''}
end
local h = redis.call('HMGET', HEADS, c .. '|cg', c .. '|op', c .. '|calls')
local cg, o, calls = h[1] or '0', h[2] or '', h[3] or ''
if arg(4) ~= '' and arg(4) ~= cg then return {'late', 'other_cancel_generation'} end
if arg(3) ~= '' and arg(3) ~= o then return {'late', 'not_the_open_operation'} end
local state, gen, relay = '', '0', '0'
if o ~= '' then
  local v = redis.call('HMGET', OPS, o .. '|st', o .. '|gen', o .. '|relay')
  state, gen, relay = v[1] or '', v[2] or '0', v[3] or '0'
  if state == 'PREPARED' or state == 'TERMINATED' then
    redis.call('HSET', OPS, o .. '|st', 'FAILED')
    redis.call('HSET', HEADS, c .. '|op', '')
    redis.call('ZREM', TIMERS, 'retry|' .. o)
  elseif state ~= 'CANCELLED' then
    redis.call('HSET', OPS, o .. '|st', 'CANCELLED')
  end
end
redis.call('HSET', HEADS, c .. '|cg', ms(tonumber(cg) + 1))
redis.call('HSET', REQS, id .. '|src', arg(5), id .. '|op', o, id .. '|st', state, id .. '|gen', gen, id .. '|relay', relay,
  id .. '|calls', calls)
if calls == '' and redis.call('HGET', HEADS, c .. '|op') ~= o then wake(c) end
return {'ok', o, state, gen, relay, calls, '1'}
