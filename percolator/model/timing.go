package model

import (
	"cmp"
	"fmt"
	"time"
)

// Timing is what every client of an instance must agree on: a collector infers from it what other
// clients can no longer do. It is stored with the schema and can never be changed. A schema that
// leaves it open, with zeros, fits whatever is stored; the first one of an instance gets the
// defaults, or what admin.Instance.ProposeTiming has stored.
type Timing struct {
	// RequestLifetime bounds every request: no client sends or repeats one after it
	// (docs/PROTOCOL.md, I14). 0: 30 s, which is also the most; at least 100 ms.
	RequestLifetime time.Duration `json:",omitzero"`

	// MetaMaxAge is the age of its knowledge of schema and safepoint at which a client refuses to
	// commit and to answer reads (I16). Clients read both again at a quarter of it. A change of the
	// schema is in force that long after it was stored. 0: 45 s. From 200 ms to 10 min, and no less
	// than RequestLifetime: an answer that takes its whole lifetime is not too old when it arrives.
	MetaMaxAge time.Duration `json:",omitzero"`
}

// DefaultTiming is what the zero Timing stands for.
var DefaultTiming = Timing{RequestLifetime: 30 * time.Second, MetaMaxAge: 45 * time.Second}

// EffectiveTiming replaces the zeros of t by the defaults.
func EffectiveTiming(t Timing) Timing {
	t.RequestLifetime = cmp.Or(t.RequestLifetime, DefaultTiming.RequestLifetime)
	t.MetaMaxAge = cmp.Or(t.MetaMaxAge, DefaultTiming.MetaMaxAge)
	return t
}

// InheritTiming replaces the zeros of t, which leave it open, by what from has.
func InheritTiming(t, from Timing) Timing {
	return Timing{cmp.Or(t.RequestLifetime, from.RequestLifetime), cmp.Or(t.MetaMaxAge, from.MetaMaxAge)}
}

// normalizedTiming is zero where t equals the default, so that equal timings have equal encodings.
func normalizedTiming(t Timing) Timing {
	if t.RequestLifetime == DefaultTiming.RequestLifetime {
		t.RequestLifetime = 0
	}
	if t.MetaMaxAge == DefaultTiming.MetaMaxAge {
		t.MetaMaxAge = 0
	}
	return t
}

// CheckTiming returns ErrInvalidArgument for a Timing that no schema may have. One that leaves a
// time open is checked when the first schema of an instance closes it.
func CheckTiming(t Timing) error {
	if err := CheckStoredTiming(t); err != nil {
		return err
	}
	if t.MetaMaxAge != 0 && t.MetaMaxAge < t.RequestLifetime {
		return fmt.Errorf("percolator: %w: Timing.MetaMaxAge (%v) must not be less than Timing.RequestLifetime (%v)", ErrInvalidArgument, t.MetaMaxAge, t.RequestLifetime)
	}
	return nil
}

// CheckStoredTiming is CheckTiming for each time by itself: earlier versions asked for no more.
func CheckStoredTiming(t Timing) error {
	t = EffectiveTiming(t)
	switch {
	case t.RequestLifetime < 100*time.Millisecond || t.RequestLifetime > 30*time.Second:
		return fmt.Errorf("percolator: %w: Timing.RequestLifetime must be between 100 ms and 30 s", ErrInvalidArgument)
	case t.MetaMaxAge < 200*time.Millisecond || t.MetaMaxAge > 10*time.Minute:
		return fmt.Errorf("percolator: %w: Timing.MetaMaxAge must be between 200 ms and 10 min", ErrInvalidArgument)
	}
	return nil
}

// RefreshInterval is the interval at which a client reads schema and safepoint again.
func RefreshInterval(t Timing) time.Duration { return t.MetaMaxAge / 4 }

// DrainTime is how long after an announcement in the meta row some client may still act on the
// former state, or have a request under way that it sent before: a client whose knowledge is almost
// too old may still send a request, which lives on for its lifetime.
func DrainTime(t Timing) time.Duration { return byAnyClock(t.RequestLifetime + t.MetaMaxAge) }

// ArrivalTime is how long after it was sent a request may still arrive, late copies among them.
func ArrivalTime(t Timing) time.Duration { return byAnyClock(t.RequestLifetime) }

// byAnyClock is d and a fifteenth more, which makes up for clocks that tick at different rates.
func byAnyClock(d time.Duration) time.Duration { return d + d/15 }
