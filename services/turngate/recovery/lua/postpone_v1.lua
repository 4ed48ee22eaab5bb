-- Purpose: moves the due time of a timer that was just turned into a record, so that it is looked at again later.
-- ARGV: 1 timer, 2 delay in ms
-- Returns: {'ok'}
if redis.call('ZSCORE', TIMERS, arg(1)) then redis.call('ZADD', TIMERS, ms(now + tonumber(arg(2))), arg(1)) end
return {'ok'}
