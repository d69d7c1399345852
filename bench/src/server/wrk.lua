-- The requests of wrk: a check for one user after the other, each request made beforehand.

local users = 100000
local requests, at = {}, 0

function init(args)
  local headers = { ["Content-Type"] = "application/json" }
  for user = 1, users do
    local body = string.format('{"domain":"bench","descriptor":{"user":"u%012d"}}', user)
    requests[user] = wrk.format("POST", "/v1/check", headers, body)
  end
end

function request()
  at = at % users + 1
  return requests[at]
end
