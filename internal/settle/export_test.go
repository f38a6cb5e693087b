package settle

import (
	"context"
	"time"
)

var begun = time.Now()

// Turn is one turn of an owner, so much later than the tests have begun. It takes no time.
func (o *Owner) Turn(ctx context.Context, later time.Duration) {
	o.now = func() time.Time { return begun.Add(later) }
	o.turn(ctx)
}

// Follow is one second of an owner that only sets its pace, in rows a second.
func (o *Owner) Follow() (pace float64) {
	o.follow()
	return float64(o.pace.Limit())
}
