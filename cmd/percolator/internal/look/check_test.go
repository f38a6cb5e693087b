package look

import (
	"bytes"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

func TestCheckAsTable(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	out := checkJSON{Checks: []checkedIt{{Name: "a", Level: health.Failed, Findings: []health.Finding{health.Found(health.Failed, "percolator init", "no table"), {Level: health.OK, Saw: "fine"}}}}}
	out.print(&text)
	if want := "CHECK  LEVEL   SAW\na      failed  no table\n               → percolator init\n       ok      fine\n"; text.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", text.String(), want)
	}
}

// A lock is stranded by the time at which it was placed: a transaction may be old when it commits.
func TestJudgeLocks(t *testing.T) {
	t.Parallel()
	now, ttl := tso.At(time.Now()), 10*time.Second
	lock := func(state admin.LockState, began, placed time.Duration) admin.LockInspection {
		l := model.Lock{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, StartTS: now.Add(-began), Placed: now.Add(-placed), TTL: ttl}
		return admin.LockInspection{Lock: l, State: state, Age: began, Expires: l.AliveUntil()}
	}
	for name, c := range map[string]struct {
		lock admin.LockInspection
		want health.Level
	}{
		"alive":                          {lock(admin.LockStateAlive, 0, 0), health.OK},
		"of an old transaction":          {lock(admin.LockStateCommitted, time.Hour, 0), health.OK},
		"dead since a moment":            {lock(admin.LockStateDead, time.Hour, ttl+time.Second), health.OK},
		"as old as one may be":           {lock(admin.LockStateCommitted, 6*ttl, 6*ttl), health.OK},
		"too old":                        {lock(admin.LockStateCommitted, 6*ttl+time.Second, 6*ttl+time.Second), health.Warning},
		"too old, and alive":             {lock(admin.LockStateAlive, 6*ttl+time.Second, 6*ttl+time.Second), health.OK},
		"within a TTL ahead":             {lock(admin.LockStateAlive, 0, -ttl), health.OK},
		"from the future":                {lock(admin.LockStateAlive, 0, -ttl-time.Second), health.Failed},
		"from the future, and decided":   {lock(admin.LockStateCommitted, 0, -ttl-time.Second), health.OK},
		"that cannot be decoded, either": {admin.LockInspection{State: admin.LockStateUndecodable}, health.Failed},
	} {
		one := func(yield func(admin.LockInspection, error) bool) { yield(c.lock, nil) }
		if got := judgeLocks(one, 6); len(got) != 1 || got[0].Level != c.want {
			t.Errorf("a lock %s: %+v, want %s", name, got, c.want)
		}
	}
}
