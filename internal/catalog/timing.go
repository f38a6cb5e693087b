package catalog

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// EffectiveTiming replaces the zeros of t by the defaults.
func EffectiveTiming(t model.Timing) model.Timing {
	t.RequestLifetime = cmp.Or(t.RequestLifetime, model.DefaultTiming.RequestLifetime)
	t.MetaMaxAge = cmp.Or(t.MetaMaxAge, model.DefaultTiming.MetaMaxAge)
	return t
}

// InheritTiming replaces the zeros of t, which leave it open, by what from has.
func InheritTiming(t, from model.Timing) model.Timing {
	return model.Timing{RequestLifetime: cmp.Or(t.RequestLifetime, from.RequestLifetime), MetaMaxAge: cmp.Or(t.MetaMaxAge, from.MetaMaxAge)}
}

// normalizedTiming is zero where t equals the default, so that equal timings have equal encodings.
func normalizedTiming(t model.Timing) model.Timing {
	if t.RequestLifetime == model.DefaultTiming.RequestLifetime {
		t.RequestLifetime = 0
	}
	if t.MetaMaxAge == model.DefaultTiming.MetaMaxAge {
		t.MetaMaxAge = 0
	}
	return t
}

// CheckTiming returns ErrInvalidArgument for a Timing that no schema may have. One that leaves a
// time open is checked when the first schema of an instance closes it.
func CheckTiming(t model.Timing) error {
	if err := CheckStoredTiming(t); err != nil {
		return err
	}
	if t.MetaMaxAge != 0 && t.MetaMaxAge < t.RequestLifetime {
		return fmt.Errorf("percolator: %w: Timing.MetaMaxAge (%v) must not be less than Timing.RequestLifetime (%v)", model.ErrInvalidArgument, t.MetaMaxAge, t.RequestLifetime)
	}
	return nil
}

// CheckStoredTiming is CheckTiming for each time by itself: earlier versions asked for no more.
func CheckStoredTiming(t model.Timing) error {
	t = EffectiveTiming(t)
	switch {
	case t.RequestLifetime < 100*time.Millisecond || t.RequestLifetime > 30*time.Second:
		return fmt.Errorf("percolator: %w: Timing.RequestLifetime must be between 100 ms and 30 s", model.ErrInvalidArgument)
	case t.MetaMaxAge < 200*time.Millisecond || t.MetaMaxAge > 10*time.Minute:
		return fmt.Errorf("percolator: %w: Timing.MetaMaxAge must be between 200 ms and 10 min", model.ErrInvalidArgument)
	}
	return nil
}

// RefreshInterval is the interval at which a client reads schema and safepoint again.
func RefreshInterval(t model.Timing) time.Duration { return t.MetaMaxAge / 4 }

// DrainTime is how long after an announcement in the meta row some client may still act on the
// former state, or have a request in flight that it sent before: a client whose knowledge is almost
// too old may still send a request, which lives on for its lifetime.
func DrainTime(t model.Timing) time.Duration { return byAnyClock(t.RequestLifetime + t.MetaMaxAge) }

// ArrivalTime is how long after it was sent a request may still arrive, late copies among them.
func ArrivalTime(t model.Timing) time.Duration { return byAnyClock(t.RequestLifetime) }

// byAnyClock is d and a fifteenth more, which makes up for clocks that tick at different rates.
func byAnyClock(d time.Duration) time.Duration { return d + d/15 }
