#!lua
-- Stores the result of an execution unless one is stored: the first answer stays.
-- KEYS[1] the claim. ARGV[1] "r:<record>", ARGV[2] how long it is kept, in milliseconds. Returns what is stored.
local stored = redis.call('GET', KEYS[1])
if stored and string.sub(stored, 1, 2) == 'r:' then
  return stored
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
