-- For wrk: each connection pauses before its next request, at random, THINK_MS long on average; at
-- the end one line says how many requests were answered and how long they took, in microseconds.
local think = tonumber(os.getenv("THINK_MS") or "0")
if think > 0 then
    function delay()
        return math.random(0, math.floor(2 * think + 0.5))
    end
end

function done(summary, latency, requests)
    io.write(string.format("DONE %d %d %d %d %d\n", summary.requests, summary.duration,
        latency:percentile(50), latency:percentile(99),
        summary.errors.connect + summary.errors.read + summary.errors.status))
end
