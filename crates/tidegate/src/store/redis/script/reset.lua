-- Forgets limiters: they start fresh. Returns the number of those that existed.
return redis.call('UNLINK', unpack(KEYS))
