-- Purpose: what the reassembler needs of the operations whose frames it reads; changes nothing.
-- ARGV: operation ids
-- Returns: {'ok', then per operation: state, generation, relay, spec, manifest, base, cancel generation of the operation,
--   cancel generation of the head, history digest of the head, handle, notes, highest generation decided, evidence,
--   `generation@offset` (whose request_begin is written, and the frame that said so), per decided generation the source of
--   its outcome ('|' between them), conversation key}; an unknown operation gives '' everywhere.
local answer = {'ok'}
for index = 1, args_count() do
  local o = arg(index)
  local v = redis.call('HMGET', OPS, o .. '|st', o .. '|gen', o .. '|relay', o .. '|spec', o .. '|man', o .. '|base',
    o .. '|cg', o .. '|conv', o .. '|handle', o .. '|notes', o .. '|decided', o .. '|evidence', o .. '|began')
  local sources = {}
  for generation = 1, tonumber(v[11] or '0') do
    sources[generation] = redis.call('HGET', OPS, o .. '|outs:' .. generation) or ''
  end
  local h = {false, false}
  if v[8] then h = redis.call('HMGET', HEADS, v[8] .. '|cg', v[8] .. '|hd') end
  for _, value in ipairs({v[1] or '', v[2] or '', v[3] or '', v[4] or '', v[5] or '', v[6] or '', v[7] or '',
    h[1] or '0', h[2] or '', v[9] or '', v[10] or '', v[11] or '0', v[12] or '', v[13] or '',
    table.concat(sources, '|'), v[8] or ''}) do
    answer[#answer + 1] = value
  end
end
return answer
