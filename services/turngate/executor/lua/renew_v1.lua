#!lua
-- Holds a claim for longer, if it is still its owner's.
-- KEYS[1] the claim. ARGV[1] "c:<owner>", ARGV[2] lease in milliseconds. Returns 1 held, 0 lost.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
