package layout

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

func TestDead(t *testing.T) {
	t.Parallel()
	const now = tso.Timestamp(1 << 40)
	ended := func(session string) bool { return session == "ended" }
	ago := func(d time.Duration) tso.Timestamp { return now.Add(-d) }
	for name, c := range map[string]struct {
		lock LockRecord
		dead bool
	}{
		"fresh":                       {LockRecord{StartTS: now, Placed: now, TTL: time.Second}, false},
		"its last tick":               {LockRecord{StartTS: ago(time.Second), Placed: ago(time.Second), TTL: time.Second}, false},
		"a tick later":                {LockRecord{StartTS: ago(time.Second) - 1, Placed: ago(time.Second) - 1, TTL: time.Second}, true},
		"of an old transaction":       {LockRecord{StartTS: ago(time.Hour), Placed: now, TTL: time.Second}, false},
		"with a TTL of its own":       {LockRecord{StartTS: ago(time.Hour), Placed: ago(time.Minute), TTL: 2 * time.Minute}, false},
		"whose session is open":       {LockRecord{StartTS: now, Placed: now, TTL: time.Second, Session: "open"}, false},
		"whose session has ended":     {LockRecord{StartTS: now, Placed: now, TTL: time.Second, Session: "ended"}, true},
		"too old in an open session":  {LockRecord{StartTS: ago(time.Hour), Placed: ago(time.Hour), TTL: time.Second, Session: "open"}, true},
		"placed in the future":        {LockRecord{StartTS: now, Placed: tso.MaxTimestamp, TTL: time.Hour}, false},
		"of a transaction without it": {*Unplaced(ago(time.Second)-1, time.Second, "open"), true},
		"of a young one without it":   {*Unplaced(ago(time.Second), time.Second, "open"), false},
		"of an ended one without it":  {*Unplaced(now, time.Second, "ended"), true},
	} {
		if got := c.lock.Dead(now, ended); got != c.dead {
			t.Errorf("a lock %s: dead %v", name, got)
		}
		overdue := c.lock.Export(model.Cell{}).Overdue(now)
		if late := now > c.lock.AliveUntil(); (overdue > 0) != late || late && !c.dead {
			t.Errorf("a lock %s: overdue for %v, its time is up: %v", name, overdue, late)
		}
	}
}

// A lock that is overdue is not asked about.
func TestDeadByTimeAsksNothing(t *testing.T) {
	t.Parallel()
	l := LockRecord{StartTS: 1, Placed: 1, TTL: time.Second, Session: "s"}
	if !l.Dead(tso.MaxTimestamp, func(string) bool { t.Error("asked"); return false }) {
		t.Error("it is alive")
	}
}
