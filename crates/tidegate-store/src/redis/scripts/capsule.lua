-- Replaces what is kept for a user's next session.
-- KEYS: capsule
-- ARGV: ms that it is kept, then fields and values by turns
redis.call('UNLINK', KEYS[1])
if #ARGV > 1 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 2))
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 0
