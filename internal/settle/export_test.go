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
