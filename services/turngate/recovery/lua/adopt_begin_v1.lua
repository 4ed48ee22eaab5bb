-- Purpose: notes that request_begin of a generation is written, read from the session stream. Only raises.
-- ARGV: 1 operation id, 2 generation
-- Returns: {'ok'} | {'behind'}
local o = arg(1)
local began = string.match(redis.call('HGET', OPS, o .. '|began') or '', '^(%d+)@')
if began and tonumber(began) >= tonumber(arg(2)) then return {'behind'} end
-- No frame is named: whichever is read again lies behind the one that wrote it.
redis.call('HSET', OPS, o .. '|began', arg(2) .. '@-1')
return {'ok'}
