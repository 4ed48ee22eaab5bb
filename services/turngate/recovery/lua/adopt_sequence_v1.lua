-- Purpose: brings back an operation whose sequence was published, PREPARED, where nothing further is known of it.
-- ARGV: 1 operation id, 2 conversation key, 3 base revision, 4 cancel generation, 5 spec bytes, 6 sequence command bytes
-- Returns: {'ok'} | {'known'} | {'behind'}
local o, c = arg(1), arg(2)
if redis.call('HEXISTS', OPS, o .. '|spec') == 1 then return {'known'} end
redis.call('HSET', OPS, o .. '|conv', c, o .. '|base', arg(3), o .. '|cg', arg(4), o .. '|spec', arg(5), o .. '|seq', arg(6))
redis.call('HSETNX', OPS, o .. '|gen', '0')
redis.call('HSETNX', OPS, o .. '|relay', '0')
redis.call('HSETNX', OPS, o .. '|notes', '')
redis.call('HSETNX', OPS, o .. '|st', 'PREPARED')
local state = redis.call('HGET', OPS, o .. '|st')
if (redis.call('HGET', HEADS, c .. '|rev') or '0') ~= arg(3) then return {'behind'} end
if state ~= 'COMMITTED' and state ~= 'FAILED' then redis.call('HSET', HEADS, c .. '|op', o) end
return {'ok'}
