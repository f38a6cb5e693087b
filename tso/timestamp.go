package tso

import (
	"math"
	"time"
)

// TicksPerMillisecond is the resolution of a [Timestamp]: a tick is about 244 ns. It is also how
// many timestamps an oracle can issue per millisecond (4.096 million a second) without running
// ahead of the clock.
const TicksPerMillisecond = 4096

const (
	perSecond           = TicksPerMillisecond * 1000
	nanosPerMillisecond = int64(time.Millisecond)

	// epochUnix is 2025-01-01T00:00:00Z, where timestamps begin, in Unix seconds.
	epochUnix = 1735689600
)

// MaxTimestamp is the last timestamp that can be issued, in May 2096. Beyond it an oracle returns
// ErrExhausted. A cell's timestamp in Bigtable is the [Timestamp] × 1000, because Bigtable keeps
// only multiples of 1,000 µs (docs/internals/PROTOCOL.md, I18), and the exclusive bound of a filter
// that includes ts is (ts+1) × 1000. Both fit an int64 up to this timestamp.
const MaxTimestamp Timestamp = math.MaxInt64/1000 - 1

// Timestamp is a moment in the order of all transactions: a number of ticks of 1/4096 ms since
// 2025-01-01T00:00:00Z, in an int64. It is close to the clock, so it can express the age of a lock
// or the time of a snapshot, but it promises only order: an [Oracle] issues strictly increasing
// timestamps (section 2.3 of the paper; docs/internals/PROTOCOL.md, I1).
//
// 0 means "none" and is never issued. Neither are negative values, which stand for times before
// 2025 in the arithmetic of Time and Sub.
type Timestamp int64

// At returns the timestamp that the clock shows at t, rounded down to a tick. Times before 2025
// give 0, and times after [MaxTimestamp] give MaxTimestamp.
func At(t time.Time) Timestamp {
	// Seconds and the rest are converted apart: nanoseconds × 4096 would leave an
	// int64 after 26 days.
	unix := t.Unix()
	switch {
	case unix < epochUnix:
		return 0
	case unix-epochUnix > int64(MaxTimestamp)/perSecond:
		return MaxTimestamp
	}
	seconds := unix - epochUnix
	ticks := seconds*perSecond + int64(t.Nanosecond())*TicksPerMillisecond/nanosPerMillisecond
	return min(Timestamp(ticks), MaxTimestamp)
}

// Time returns the first nanosecond, in UTC, at which the clock shows ts, so that At(ts.Time()) ==
// ts for every ts from 0 to [MaxTimestamp].
func (ts Timestamp) Time() time.Time {
	seconds, ticks := int64(ts)/perSecond, int64(ts)%perSecond
	if ticks < 0 {
		seconds, ticks = seconds-1, ticks+perSecond
	}
	// Rounded up, as At rounds down: a tick is no whole number of nanoseconds.
	nanos := (ticks*nanosPerMillisecond + TicksPerMillisecond - 1) / TicksPerMillisecond
	return time.Unix(epochUnix+seconds, nanos).UTC()
}

// Add returns the timestamp d after ts, or before it when d is negative. It drops the part of a
// tick, so the result is never further from ts than d, and keeps the result between 0 and
// [MaxTimestamp].
func (ts Timestamp) Add(d time.Duration) Timestamp {
	moved := ts + ticksIn(d)
	if (d > 0) != (moved > ts) && moved != ts { // left the int64
		if d > 0 {
			return MaxTimestamp
		}
		return 0
	}
	return min(max(moved, 0), MaxTimestamp)
}

// Sub returns the time from u to ts, negative when ts is earlier. It rounds a part of a nanosecond
// away from zero, so that u.Add(ts.Sub(u)) == ts between 0 and [MaxTimestamp]. A difference that a
// Duration cannot hold (292 years, more than two timestamps of an oracle can be apart) gives the
// longest Duration of that sign.
func (ts Timestamp) Sub(u Timestamp) time.Duration {
	diff := ts - u
	if (ts > u) != (diff > 0) && ts != u { // left the int64
		if ts > u {
			return math.MaxInt64
		}
		return math.MinInt64
	}
	const longest = Timestamp(math.MaxInt64 / nanosPerMillisecond * TicksPerMillisecond)
	switch {
	case diff > longest:
		return math.MaxInt64
	case diff < -longest:
		return math.MinInt64
	}
	millis, ticks := int64(diff)/TicksPerMillisecond, int64(diff)%TicksPerMillisecond
	round := int64(TicksPerMillisecond - 1)
	if diff < 0 {
		round = -round
	}
	return time.Duration(millis*nanosPerMillisecond + (ticks*nanosPerMillisecond+round)/TicksPerMillisecond)
}

// In returns the whole ticks in d, rounded towards zero.
func ticksIn(d time.Duration) Timestamp {
	nanos := int64(d)
	return Timestamp(nanos/nanosPerMillisecond*TicksPerMillisecond +
		nanos%nanosPerMillisecond*TicksPerMillisecond/nanosPerMillisecond)
}
