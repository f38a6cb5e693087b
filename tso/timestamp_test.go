package tso

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimestampKnownValues(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		at   time.Time
		want Timestamp
	}{
		{"epoch", epoch, 0},
		{"one millisecond", epoch.Add(time.Millisecond), TicksPerMillisecond},
		{"just before a tick", epoch.Add(244 * time.Nanosecond), 0},
		{"just after a tick", epoch.Add(245 * time.Nanosecond), 1},
		{"27 days: × 4096 in nanoseconds would overflow", epoch.AddDate(0, 0, 27), 27 * 86400 * 1000 * TicksPerMillisecond},
		{"before 2025", epoch.Add(-1), 0},
		{"zero time", time.Time{}, 0},
		{"year 2095", time.Date(2095, 12, 31, 0, 0, 0, 0, time.UTC), Timestamp(time.Date(2095, 12, 31, 0, 0, 0, 0, time.UTC).Unix()-epochUnix) * perSecond},
		{"year 2097", time.Date(2097, 1, 1, 0, 0, 0, 0, time.UTC), MaxTimestamp},
		{"most distant future", time.Unix(math.MaxInt64, 0), MaxTimestamp},
		{"most distant past", time.Unix(math.MinInt64, 0), 0},
	} {
		if got := At(c.at); got != c.want {
			t.Errorf("%s: At(%v) = %d, want %d", c.name, c.at, got, c.want)
		}
	}
	if got := Timestamp(0).Time(); !got.Equal(epoch) {
		t.Errorf("Timestamp(0).Time() = %v, want %v", got, epoch)
	}
	if got, want := Timestamp(-TicksPerMillisecond).Time(), epoch.Add(-time.Millisecond); !got.Equal(want) {
		t.Errorf("one millisecond before the epoch: %v, want %v", got, want)
	}
}

// A timestamp must fit a Bigtable cell (I18), also as the exclusive bound of a
// filter.
func TestTimestampFitsCell(t *testing.T) {
	t.Parallel()
	if cell := int64(MaxTimestamp) * 1000; cell/1000 != int64(MaxTimestamp) || cell < 0 {
		t.Errorf("MaxTimestamp × 1000 overflows: %d", cell)
	}
	if bound := (int64(MaxTimestamp) + 1) * 1000; bound < 0 || bound/1000 != int64(MaxTimestamp)+1 {
		t.Errorf("(MaxTimestamp+1) × 1000 overflows: %d", bound)
	}
	if last := MaxTimestamp.Time(); last.Year() != 2096 || last.Month() != time.May {
		t.Errorf("the last timestamp is of %v, want May 2096", last)
	}
}

func anyTimestamp() *rapid.Generator[Timestamp] {
	return rapid.Custom(func(t *rapid.T) Timestamp {
		return Timestamp(rapid.Int64Range(0, int64(MaxTimestamp)).Draw(t, "ticks"))
	})
}

func TestTimestampRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := anyTimestamp().Draw(t, "ts")
		if got := At(ts.Time()); got != ts {
			t.Fatalf("At(%d.Time()) = %d", ts, got)
		}
		if ts > 0 {
			if got := At(ts.Time().Add(-1)); got != ts-1 {
				t.Fatalf("a nanosecond before %d is %d, want %d: Time is not the first nanosecond", ts, got, ts-1)
			}
		}
	})
}

// At never decreases when the time does not, and is never ahead of the time.
func TestTimestampAtIsMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := anyTimestamp().Draw(t, "base").Time()
		a := base.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "a")))
		b := a.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "b")))
		if At(a) > At(b) {
			t.Fatalf("At(%v) = %d > At(%v) = %d", a, At(a), b, At(b))
		}
		if at := At(a).Time(); at.After(a) {
			t.Fatalf("At(%v) is of %v, later", a, at)
		}
	})
}

func TestTimestampAddUndoesSub(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyTimestamp().Draw(t, "a"), anyTimestamp().Draw(t, "b")
		if got := b.Add(a.Sub(b)); got != a {
			t.Fatalf("%d.Add(%d.Sub(%d)) = %d", b, a, b, got)
		}
		if a.Sub(b) != -b.Sub(a) {
			t.Fatalf("%d.Sub(%d) = %d, but reversed %d", a, b, a.Sub(b), b.Sub(a))
		}
	})
}

func TestTimestampAddNeverGoesFurther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := anyTimestamp().Draw(t, "ts")
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		got := ts.Add(d)
		if got < 0 || got > MaxTimestamp {
			t.Fatalf("%d.Add(%d) = %d is out of range", ts, d, got)
		}
		if (d > 0 && got < ts) || (d < 0 && got > ts) {
			t.Fatalf("%d.Add(%d) = %d went the wrong way", ts, d, got)
		}
		// Moved by at most d: of whole ticks only.
		if moved := max(got.Sub(ts), ts.Sub(got)); d != math.MinInt64 && moved-1 > max(d, -d) {
			t.Fatalf("%d.Add(%d) moved by %d ns", ts, d, moved)
		}
	})
}

func TestTimestampLimits(t *testing.T) {
	t.Parallel()
	if got := MaxTimestamp.Add(time.Hour); got != MaxTimestamp {
		t.Errorf("MaxTimestamp.Add(1h) = %d", got)
	}
	if got := Timestamp(5).Add(-time.Hour); got != 0 {
		t.Errorf("Timestamp(5).Add(-1h) = %d, want 0", got)
	}
	if got := Timestamp(math.MaxInt64).Add(math.MaxInt64); got != MaxTimestamp {
		t.Errorf("out of range above: %d", got)
	}
	if got := Timestamp(math.MinInt64).Add(math.MinInt64); got != 0 {
		t.Errorf("out of range below: %d", got)
	}
	if got := Timestamp(math.MaxInt64).Sub(math.MinInt64); got != math.MaxInt64 {
		t.Errorf("longest difference: %d", got)
	}
	if got := Timestamp(math.MinInt64).Sub(math.MaxInt64); got != math.MinInt64 {
		t.Errorf("longest negative difference: %d", got)
	}
	if got := Timestamp(math.MaxInt64).Sub(0); got != math.MaxInt64 {
		t.Errorf("difference beyond a Duration: %d", got)
	}
	if got := (Timestamp(0) + TicksPerMillisecond).Sub(0); got != time.Millisecond {
		t.Errorf("one millisecond of ticks is %v", got)
	}
}
