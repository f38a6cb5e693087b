package tso

import (
	"time"

	"github.com/gopercolator/percolator/internal/tick"
)

// TicksPerMillisecond is the resolution of a [Timestamp]: a tick is about 244 ns. It is also how
// many timestamps an oracle can issue per millisecond (4.096 million a second) without running
// ahead of the clock.
const TicksPerMillisecond = tick.PerMillisecond

// MaxTimestamp is the last timestamp that can be issued, in May 2096. A cell's timestamp in
// Bigtable is the [Timestamp] × 1000, because Bigtable keeps only multiples of 1,000 µs
// (docs/PROTOCOL.md, I18), and the exclusive bound of a filter that includes ts is (ts+1) × 1000.
// Both fit an int64 up to this timestamp.
const MaxTimestamp = tick.Max

// Timestamp is a moment in the order of all transactions: a number of ticks of 1/4096 ms since
// 2025-01-01T00:00:00Z, in an int64. It is close to the clock, so it can express the age of a lock
// or the time of a snapshot, but it promises only order: an [Oracle] issues strictly increasing
// timestamps (section 2.3 of the paper; docs/PROTOCOL.md, I1).
//
// 0 means "none" and is never issued. Neither are negative values, which stand for times before
// 2025 in the arithmetic of Time and Sub.
//
// Time() is the first nanosecond, in UTC, at which the clock shows it. Add(d) is the timestamp a
// time.Duration later, or earlier when d is negative, from 0 to [MaxTimestamp] and without the part
// of a tick. Sub(u) is the time.Duration since u, so that u.Add(ts.Sub(u)) == ts.
type Timestamp = tick.Timestamp

// At returns the timestamp that the clock shows at t, rounded down to a tick. Times before 2025
// give 0, and times after [MaxTimestamp] give MaxTimestamp.
func At(t time.Time) Timestamp { return tick.At(t) }
