-- Purpose: says whether a bucket is open on this server and from where its effects must be read again.
-- ARGV: topic names whose checkpoints are wanted
-- Returns: {'open' | 'closed', replid of the server, token or '', checkpoint or '' per topic}
local here = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local meta = redis.call('HMGET', META, 'token', 'replid')
local answer = {(meta[1] and meta[2] == here) and 'open' or 'closed', here, meta[1] or ''}
for index = 1, args_count() do
  answer[#answer + 1] = redis.call('HGET', META, 'checkpoint:' .. arg(index)) or ''
end
return answer
