-- What wrk sends: a check for one user after the other, each request made beforehand.

local users = 100000
local requests, at = {}, 0

function init(args)
  local headers = { ["Content-Type"] = "application/json" }
  for user = 1, users do
    local body = string.format('{"domain":"bench","descriptor":{"user":"u%06d"}}', user)
    requests[user] = wrk.format("POST", "/v1/check", headers, body)
  end
end

function request()
  at = at % users + 1
  return requests[at]
end

-- One line that is read again: answers, microseconds, two latencies, and what went wrong.
function done(summary, latency, requests)
  local errors = summary.errors
  local wrong = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format("measured %d %d %.0f %.0f %d", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), wrong))
end
