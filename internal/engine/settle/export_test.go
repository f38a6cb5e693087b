package settle

import (
	"context"
	"time"
)

var started = time.Now()

// RunOnce is one run of an owner, so much later than it is. It takes no time.
func (o *Owner) RunOnce(ctx context.Context, later time.Duration) {
	at := time.Now().Add(later)
	o.now = func() time.Time { return at }
	o.runOnce(ctx)
}

// Follow is one second of an owner that only sets its pace, in rows a second.
func (o *Owner) Follow() (pace float64) {
	o.follow()
	return float64(o.pace.Limit())
}

// FollowAt is Follow so much later than the tests have started.
func (o *Owner) FollowAt(later time.Duration) (pace float64) {
	o.now = func() time.Time { return started.Add(later) }
	return o.Follow()
}

// Remember has an adopter remember as many unsettled rows of a session's stream as it may, as if it
// had looked at each for a while. One that was never run remembers them as of its first look.
func (a *Adopter) Remember(ctx context.Context, session string) {
	_ = a.list(ctx)
	for _, st := range a.streams {
		for seq := st.next; st.stream.Session == session && len(st.rows) < maxUnsettled; seq++ {
			st.next = seq + 1
			st.rows[seq] = &unsettled{read: time.Now(), due: time.Now().Add(rarestAdopt), looks: 12}
		}
	}
}
