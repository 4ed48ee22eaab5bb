-- Purpose: notes up to where the effects of this bucket had been read before this write.
-- ARGV: pairs: topic, offset
-- Returns: {'ok'}
for index = 1, args_count(), 2 do
  redis.call('HSET', META, 'checkpoint:' .. arg(index), arg(index + 1))
end
return {'ok'}
