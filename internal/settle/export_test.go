package settle

import (
	"context"
	"time"
)

// Turn is one turn of an owner, so much later than now.
func (o *Owner) Turn(ctx context.Context, later time.Duration) {
	o.now = func() time.Time { return time.Now().Add(later) }
	o.turn(ctx)
}

// Follow is one second of an owner that only sets its pace, in rows a second.
func (o *Owner) Follow() (pace float64) {
	o.follow()
	return float64(o.pace.Limit())
}
