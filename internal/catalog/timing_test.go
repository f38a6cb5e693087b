package catalog

import (
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// Knowledge that grows old before a request does would be too old when a slow answer brings it
// (I16). What an earlier version has stored stays in use.
func TestTimingLimits(t *testing.T) {
	for _, c := range []struct {
		timing model.Timing
		first  error // for a new schema
		stored error
	}{
		{model.Timing{}, nil, nil},
		{model.Timing{RequestLifetime: 30 * time.Second, MetaMaxAge: 30 * time.Second}, nil, nil},
		{model.Timing{RequestLifetime: 30 * time.Second, MetaMaxAge: 30*time.Second - 1}, model.ErrInvalidArgument, nil},
		{model.Timing{RequestLifetime: 100 * time.Millisecond, MetaMaxAge: 200 * time.Millisecond}, nil, nil},
		{model.Timing{RequestLifetime: 100 * time.Millisecond, MetaMaxAge: 10 * time.Minute}, nil, nil},
		{model.Timing{RequestLifetime: 201 * time.Millisecond, MetaMaxAge: 200 * time.Millisecond}, model.ErrInvalidArgument, nil},
		{model.Timing{MetaMaxAge: 200 * time.Millisecond}, nil, nil}, // the other half is the instance's
		{model.Timing{RequestLifetime: 100 * time.Millisecond}, nil, nil},
		{model.Timing{RequestLifetime: 99 * time.Millisecond, MetaMaxAge: time.Second}, model.ErrInvalidArgument, model.ErrInvalidArgument},
		{model.Timing{RequestLifetime: 31 * time.Second, MetaMaxAge: time.Minute}, model.ErrInvalidArgument, model.ErrInvalidArgument},
		{model.Timing{RequestLifetime: 100 * time.Millisecond, MetaMaxAge: 199 * time.Millisecond}, model.ErrInvalidArgument, model.ErrInvalidArgument},
		{model.Timing{RequestLifetime: 100 * time.Millisecond, MetaMaxAge: 11 * time.Minute}, model.ErrInvalidArgument, model.ErrInvalidArgument},
	} {
		s := &model.Schema{Timing: c.timing}
		if err := Validate(s); !errors.Is(err, c.first) {
			t.Errorf("%+v is %v", c.timing, err)
		}
		if _, err := DecodeSchema(EncodeSchema(s)); !errors.Is(err, c.stored) {
			t.Errorf("%+v, stored, is %v", c.timing, err)
		}
	}
}
