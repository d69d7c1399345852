-- One line that is read again: answers, microseconds, two latencies, and what went wrong.
function done(summary, latency, requests)
  local errors = summary.errors
  local wrong = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format("measured %d %d %.0f %.0f %d", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), wrong))
end
