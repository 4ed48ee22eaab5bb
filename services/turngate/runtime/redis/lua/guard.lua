-- Purpose: put behind the prologue of every script that works on an open bucket. Refuses a bucket that is not open on this
--   very server, and a caller whose term is lower than one already seen.
-- ARGV: as the prologue's: 1 role, 2 term.
-- Returns: {'RECONCILE'} (missing token or another replid) or {'FENCED', term}; otherwise the script goes on.
do
  local here = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
  local term_field = 'term:' .. ARGV[1]
  local meta = redis.call('HMGET', META, 'token', 'replid', term_field)
  if not meta[1] or meta[2] ~= here then return {'RECONCILE'} end
  if meta[3] and tonumber(meta[3]) > tonumber(ARGV[2]) then return {'FENCED', meta[3]} end
  if meta[3] ~= ARGV[2] then redis.call('HSET', META, term_field, ARGV[2]) end
end
