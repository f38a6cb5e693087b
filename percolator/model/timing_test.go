package model

import (
	"errors"
	"testing"
	"time"
)

// Knowledge that grows old before a request does would be too old when a slow answer brings it
// (I16). What an earlier version has stored stays in use.
func TestTimingLimits(t *testing.T) {
	for _, c := range []struct {
		timing Timing
		first  error // for a new schema
		stored error
	}{
		{Timing{}, nil, nil},
		{Timing{30 * time.Second, 30 * time.Second}, nil, nil},
		{Timing{30 * time.Second, 30*time.Second - 1}, ErrInvalidArgument, nil},
		{Timing{100 * time.Millisecond, 200 * time.Millisecond}, nil, nil},
		{Timing{100 * time.Millisecond, 10 * time.Minute}, nil, nil},
		{Timing{201 * time.Millisecond, 200 * time.Millisecond}, ErrInvalidArgument, nil},
		{Timing{MetaMaxAge: 200 * time.Millisecond}, nil, nil}, // the other half is the instance's
		{Timing{RequestLifetime: 100 * time.Millisecond}, nil, nil},
		{Timing{99 * time.Millisecond, time.Second}, ErrInvalidArgument, ErrInvalidArgument},
		{Timing{31 * time.Second, time.Minute}, ErrInvalidArgument, ErrInvalidArgument},
		{Timing{100 * time.Millisecond, 199 * time.Millisecond}, ErrInvalidArgument, ErrInvalidArgument},
		{Timing{100 * time.Millisecond, 11 * time.Minute}, ErrInvalidArgument, ErrInvalidArgument},
	} {
		s := &Schema{Timing: c.timing}
		if err := Validate(s); !errors.Is(err, c.first) {
			t.Errorf("%+v is %v", c.timing, err)
		}
		if _, err := DecodeSchema(EncodeSchema(s)); !errors.Is(err, c.stored) {
			t.Errorf("%+v, stored, is %v", c.timing, err)
		}
	}
}
